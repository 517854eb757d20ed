/** Show translations while they are generated, with their attention to the source, and let users replace words. */

import { createAlignmentPicture } from "./alignment_picture.js";
import {
  createAlert, createAnswerRegion, createField, createInspectButton, createRequestForm, createSelect, createTextArea, hasCapability, showErrors,
} from "./components.js";
import { createElement } from "./dom.js";
import { sendRequest, streamRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */
/** @import { ServedModel, TokenAlignment, TranslationAnswer } from "./requests.js" */
/** @typedef {{model: string, source?: string, to?: string}} TranslationDirection */
/** @typedef {TranslationDirection & {search?: string, n_best: number, prefix?: string}} TranslationRequest */

/** Number of words that are offered when the user replaces a word. */
const MAX_REPLACEMENTS = 4;

/** @type {PageView} */
export const translateView = {
  id: "translate",
  title: "Translate",
  about: "Write one sentence per line. Lines show what each token attends to. Click a word of the translation to replace it.",
  isAvailable: (server) => hasCapability(server, "translate"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const directions = server.models.filter(({ does }) => does.includes("translate")).flatMap(listDirections);
  const direction = createSelect(directions.map(({ title }, place) => [String(place), title]));
  const search = createSelect([["", "default of the model"], ["greedy", "greedy"], ["beam", "beam"], ["sampling", "sampling"]]);
  const alternatives = createElement("input", { type: "number", min: 0, max: server.limits.alternatives, value: 0 });
  const text = createTextArea({ rows: 4, placeholder: "Text to translate", maxlength: server.limits.characters });
  const region = createAnswerRegion("Translations");
  const below = createElement("div", { class: "below" });
  const form = createRequestForm({
    label: "Translate",
    fields: [
      directions.length > 1 ? createField("Direction", direction) : createElement("p", { class: "direction" }, directions[0].title),
      createField("Text", text),
      createElement("details", { class: "more" }, createElement("summary", {}, "Options"),
        createElement("div", { class: "options" }, createField("Search", search), createField("Alternatives", alternatives))),
    ],
    onSubmit: async (signal) => {
      const lines = text.value.split("\n").filter((line) => line.trim());
      region.replaceChildren();
      below.replaceChildren();
      const request = {
        ...directions[Number(direction.value)].request,
        ...(search.value ? { search: search.value } : {}),
        n_best: 1 + (Number(alternatives.value) || 0),
      };
      for (const line of lines) await showTranslation(region, line, request, signal, lines.length === 1 ? below : null);
    },
  });
  host.append(createElement("div", { class: "two" }, form, region), below);
}

/**
 * List the translation directions of a model with their titles.
 * @param {ServedModel} model
 * @returns {{title: string, request: TranslationDirection}[]}
 */
function listDirections(model) {
  const getLanguage = (/** @type {string | null} */ code) => (code && model.languages?.[code]) || code;
  /** @type {[string | null, string | null][]} */
  const ways = model.ways ?? [[null, null]];
  return ways.map(([source, to]) => ({
    title: to ? `${getLanguage(source) ?? "any language"} → ${getLanguage(to)} (${model.name})` : model.name,
    request: { model: model.name, ...(source ? { source } : {}), ...(to ? { to } : {}) },
  }));
}

/**
 * Translate one sentence, and show the translation while it is generated.
 * @param {HTMLElement} host
 * @param {string} source
 * @param {TranslationRequest} request
 * @param {AbortSignal} signal
 * @param {HTMLElement | null} below place for the alignment of a single sentence
 */
async function showTranslation(host, source, request, signal, below) {
  const translation = createElement("p", { class: "answer-text", dir: "auto" });
  const others = createElement("ol", { class: "others", "aria-label": "Alternatives", hidden: true });
  const notes = createElement("p", { class: "soft", hidden: true });
  const picture = createAlignmentPicture();
  const attention = below
    ? createElement("section", { class: "card", hidden: true, "aria-label": "Attention" }, createElement("h2", {}, "Attention"),
      createElement("p", { class: "soft" }, "Mean of all heads of the last attention to the source. Point at a token to see only its lines."), picture.node)
    : createElement("details", { class: "more", hidden: true }, createElement("summary", {}, "Attention"), picture.node);
  const replacement = createElement("div", { class: "replacement", hidden: true });
  const buttons = createElement("div", { class: "buttons", hidden: true },
    createElement("button", { type: "button", onclick: () => navigator.clipboard?.writeText(translation.textContent ?? "") }, "Copy"),
    createInspectButton(() => ({ model: request.model, ...(request.to ? { to: request.to } : {}), text: source, pair: translation.textContent ?? "" })));
  const card = createElement("article", { class: "card" },
    !below && createElement("p", { class: "soft", dir: "auto" }, source), translation, replacement, buttons, others, notes, !below && attention);
  host.append(card);
  below?.append(attention);
  await translate(request, signal);

  /**
   * @param {TranslationRequest} message
   * @param {AbortSignal} [abortSignal]
   */
  async function translate(message, abortSignal) {
    card.setAttribute("aria-busy", "true");
    replacement.hidden = true;
    try {
      const answer = await streamRequest("translate", { ...message, texts: source, align: true }, ({ text, alignment }) => {
        translation.textContent = text;
        if (alignment) showAlignment(alignment);
      }, abortSignal);
      showAnswer(answer, message);
    } finally {
      card.removeAttribute("aria-busy");
    }
  }

  /** @param {TokenAlignment} alignment */
  function showAlignment(alignment) {
    attention.hidden = false;
    picture.show(alignment);
  }

  /**
   * @param {TranslationAnswer} answer
   * @param {TranslationRequest} message
   */
  function showAnswer(answer, message) {
    translation.replaceChildren(...createWords(answer.translation));
    if (answer.alignment) showAlignment(answer.alignment);
    buttons.hidden = false;
    const [best, ...rest] = answer.candidates;
    others.hidden = !rest.length;
    others.replaceChildren(...rest.map(({ text, score }) => createElement("li", {},
      createElement("button", { type: "button", class: "link", dir: "auto", title: "Use this translation", onclick: () => translate({ ...message, prefix: text }) }, text),
      createElement("span", { class: "soft" }, ` ${score.toFixed(2)}`))));
    const confidence = answer.confidence === undefined ? [] : [`confidence ${answer.confidence}`];
    notes.hidden = false;
    notes.textContent = [`score ${best.score.toFixed(2)}`, ...confidence, ...(answer.signs ?? [])].join(" · ");
  }

  /**
   * Return a translation as nodes: a button for each word, and the text between them.
   * @param {string} text
   * @returns {Node[]}
   */
  function createWords(text) {
    return [...text.matchAll(/\s+|\S+/gu)].map(({ 0: word, index }) => {
      if (!word.trim()) return document.createTextNode(word);
      const button = createElement("button", {
        type: "button", class: "word", title: "Replace this word",
        onclick: () => { offerReplacements(button, text.slice(0, index).trimEnd(), word); },
      }, word);
      return button;
    });
  }

  /**
   * Offer other words for a word of the translation.
   * @param {HTMLElement} button of the word
   * @param {string} prefix the translation up to the word
   * @param {string} word
   */
  async function offerReplacements(button, prefix, word) {
    const alert = createAlert();
    const offers = createElement("span", { class: "chips", role: "group", "aria-label": "Words that the model suggests" }, createElement("span", { class: "soft" }, "…"));
    const input = createElement("input", { type: "text", dir: "auto", "aria-label": "Another word", placeholder: "or write a word" });
    const close = () => {
      replacement.hidden = true;
      button.classList.remove("open");
      if (button.isConnected) button.focus();
    };
    const useWord = (/** @type {string} */ next) => {
      close();
      return showErrors(alert, () => translate({ ...request, prefix: [prefix, next].filter(Boolean).join(" ") }));
    };
    card.querySelectorAll(".word.open").forEach((each) => each.classList.remove("open"));
    button.classList.add("open");
    replacement.hidden = false;
    replacement.replaceChildren(createElement("form", {
      onsubmit: (/** @type {SubmitEvent} */ event) => {
        event.preventDefault();
        if (input.value.trim()) useWord(input.value.trim());
      },
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Escape") close();
      },
    },
    createElement("span", { class: "soft", dir: "auto" }, prefix ? `${prefix.split(/\s/u).slice(-4).join(" ")} …` : "Start with"),
    offers, input, createElement("button", { type: "submit" }, "Continue"), createElement("button", { type: "button", onclick: close }, "Close")), alert);
    input.focus();
    await showErrors(alert, async () => {
      const [{ candidates }] = await sendRequest("translate", {
        ...request, texts: source, ...(prefix ? { prefix } : {}),
        search: "beam", beam: MAX_REPLACEMENTS, groups: MAX_REPLACEMENTS, diversity: 5, n_best: MAX_REPLACEMENTS,
      });
      const words = new Set(candidates.map(({ text }) => text.slice(prefix.length).trim().split(/\s/u)[0]));
      offers.replaceChildren(...[...words].filter((each) => each && each !== word).map((each) =>
        createElement("button", { type: "button", class: "chip", dir: "auto", onclick: () => useWord(each) }, each)));
    });
  }
}
