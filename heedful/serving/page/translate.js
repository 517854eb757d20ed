/** Translations that appear as they are found, with what they look at; another beginning may be forced. */

import { alignmentPicture } from "./alignment.js";
import { ask, hear } from "./asking.js";
import { element } from "./dom.js";
import { answerPlace, area, asking, attempt, choice, field, looking } from "./parts.js";

/** @typedef {import("./parts.js").Model} Model */
/** @typedef {{model: string, to?: string}} Direction */

const WAYS = 4;
/** Number of other words to offer when the user replaces a word. */

export const view = {
  id: "translate",
  title: "Translate",
  about: "Write one sentence per line. Lines show what each token looked at; click a word of the translation to replace it.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {Model} */ each) => each.does.includes("translate")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const directions = served.models.filter(({ does }) => does.includes("translate")).flatMap(directionsOf);
  const direction = choice(directions.map(({ title }, place) => [String(place), title]));
  const search = choice([["", "the model's own"], ["greedy", "greedy"], ["beam", "beam"], ["sampling", "sampling"]]);
  const several = element("input", { type: "number", min: 0, max: served.limits.alternatives, value: 0 });
  const text = area({ rows: 4, placeholder: "Text to translate", maxlength: served.limits.characters });
  const place = answerPlace("Translations");
  const below = element("div", { class: "below" });
  const form = asking({
    label: "Translate",
    fields: [
      directions.length > 1 ? field("Direction", direction) : element("p", { class: "direction" }, directions[0].title),
      field("Text", text),
      element("details", { class: "more" }, element("summary", {}, "Options"),
        element("div", { class: "options" }, field("Search", search), field("Alternatives", several))),
    ],
    work: async (signal) => {
      const lines = text.value.split("\n").filter((line) => line.trim());
      place.replaceChildren();
      below.replaceChildren();
      const asked = {
        ...directions[Number(direction.value)].asked,
        ...(search.value ? { search: search.value } : {}),
        n_best: 1 + (Number(several.value) || 0),
      };
      for (const line of lines) await translated(place, line, asked, signal, lines.length === 1 ? below : null);
    },
  });
  host.append(element("div", { class: "two" }, form, place), below);
}

/**
 * What a model translates, as people call it.
 * @param {Model} model
 * @returns {{title: string, asked: Direction}[]}
 */
function directionsOf(model) {
  const called = (/** @type {string | null} */ code) => (code && model.languages?.[code]) || code;
  return (model.ways ?? [[null, null]]).map(([source, to]) => ({
    title: to ? `${called(source) ?? "any language"} → ${called(to)}` + ` (${model.name})` : model.name,
    asked: { model: model.name, ...(source ? { source } : {}), ...(to ? { to } : {}) },
  }));
}

/**
 * One sentence and its translation, as it grows.
 * @param {HTMLElement} place
 * @param {string} source
 * @param {Record<string, any>} asked
 * @param {AbortSignal} signal
 * @param {HTMLElement | null} below where there is room for what it looks at
 */
async function translated(place, source, asked, signal, below) {
  const said = element("p", { class: "said-text", dir: "auto" });
  const others = element("ol", { class: "others", "aria-label": "Alternatives", hidden: true });
  const notes = element("p", { class: "soft", hidden: true });
  const picture = alignmentPicture();
  const looks = below
    ? element("section", { class: "card", hidden: true, "aria-label": "What it looked at" }, element("h2", {}, "What it looked at"),
      element("p", { class: "soft" }, "The mean of all heads of the last attention to the source; point at a token to see its own."), picture.node)
    : element("details", { class: "more", hidden: true }, element("summary", {}, "What it looked at"), picture.node);
  const change = element("div", { class: "change", hidden: true });
  const { source: _, ...direction } = asked;
  const acts = element("div", { class: "acts", hidden: true },
    element("button", { type: "button", onclick: () => navigator.clipboard?.writeText(said.textContent ?? "") }, "Copy"),
    looking(() => ({ model: asked.model, ...(asked.to ? { to: asked.to } : {}), text: source, pair: said.textContent ?? "" })));
  const card = element("article", { class: "card" }, !below && element("p", { class: "soft", dir: "auto" }, source), said, change, acts, others, notes, !below && looks);
  place.append(card);
  below?.append(looks);
  await grow(asked, signal);

  /**
   * @param {Record<string, any>} message
   * @param {AbortSignal} [until]
   */
  async function grow(message, until) {
    card.setAttribute("aria-busy", "true");
    change.hidden = true;
    try {
      const { answers: [record] } = await hear("translate", { ...message, texts: source, align: true }, (growing) => {
        said.textContent = growing.text;
        if (growing.alignment) aligned(growing.alignment);
      }, until);
      finished(record, message);
    } finally {
      card.removeAttribute("aria-busy");
    }
  }

  /** @param {import("./alignment.js").Alignment} alignment */
  function aligned(alignment) {
    looks.hidden = false;
    picture.show(alignment);
  }

  /**
   * @param {any} record
   * @param {Record<string, any>} message
   */
  function finished(record, message) {
    said.replaceChildren(...words(record.translation, message));
    if (record.alignment) aligned(record.alignment);
    acts.hidden = false;
    const rest = record.candidates.slice(1);
    others.hidden = !rest.length;
    others.replaceChildren(...rest.map((/** @type {any} */ each) => element("li", {},
      element("button", { type: "button", class: "link", dir: "auto", title: "use this one", onclick: () => grow({ ...message, prefix: each.text }) }, each.text),
      element("span", { class: "soft" }, ` ${each.score.toFixed(2)}`))));
    const told = [`score ${record.candidates[0].score.toFixed(2)}`, ...(record.confidence === undefined ? [] : [`confidence ${record.confidence}`]), ...(record.signs ?? [])];
    notes.hidden = false;
    notes.textContent = told.join(" · ");
  }

  /**
   * The words of a translation, each a button; what is between them stays as it is.
   * @param {string} text
   * @param {Record<string, any>} message
   * @returns {Node[]}
   */
  function words(text, message) {
    /** @type {Node[]} */
    const found = [];
    for (const part of text.matchAll(/\s+|\S+/gu)) {
      if (!part[0].trim()) found.push(document.createTextNode(part[0]));
      else found.push(element("button", {
        type: "button", class: "word", title: "replace this word",
        onclick: (/** @type {MouseEvent} */ event) => others_at(/** @type {HTMLElement} */ (event.currentTarget), text.slice(0, part.index).trimEnd(), part[0], message),
      }, part[0]));
    }
    return found;
  }

  /**
   * What else might stand at a place.
   * @param {HTMLElement} word
   * @param {string} before the translation up to it
   * @param {string} now the word that stands there
   * @param {Record<string, any>} message
   */
  async function others_at(word, before, now, message) {
    const wrong = element("p", { class: "wrong", role: "alert", hidden: true });
    const offered = element("span", { class: "chips", role: "group", "aria-label": "Words that the model might say here" }, element("span", { class: "soft" }, "…"));
    const own = element("input", { type: "text", dir: "auto", "aria-label": "Another word", placeholder: "or your own" });
    const close = () => {
      change.hidden = true;
      word.classList.remove("open");
      if (word.isConnected) word.focus();
    };
    const take = (/** @type {string} */ next) => {
      close();
      return attempt(wrong, () => grow({ ...direction, source: asked.source, n_best: message.n_best, prefix: [before, next].filter(Boolean).join(" ") }));
    };
    card.querySelectorAll(".word.open").forEach((each) => each.classList.remove("open"));
    word.classList.add("open");
    change.hidden = false;
    change.replaceChildren(element("form", {
      onsubmit: (/** @type {SubmitEvent} */ event) => {
        event.preventDefault();
        if (own.value.trim()) take(own.value.trim());
      },
      onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close(),
    },
    element("span", { class: "soft", dir: "auto" }, before ? `${before.split(/\s/u).slice(-4).join(" ")} …` : "Begin with"),
    offered, own, element("button", { type: "submit" }, "Go on"), element("button", { type: "button", onclick: close }, "Close")), wrong);
    own.focus();
    await attempt(wrong, async () => {
      const { answers: [record] } = await ask("translate", {
        ...direction, source: asked.source, texts: source, ...(before ? { prefix: before } : {}),
        search: "beam", beam: WAYS, groups: WAYS, diversity: 5, n_best: WAYS,
      });
      const next = record.candidates.map((/** @type {any} */ each) => each.text.slice(before.length).trim().split(/\s/u)[0]);
      const fresh = [...new Set(next)].filter((each) => each && each !== now);
      offered.replaceChildren(...fresh.map((each) => element("button", { type: "button", class: "chip", dir: "auto", onclick: () => take(String(each)) }, String(each))));
    });
  }
}
