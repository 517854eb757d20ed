/** What models predict for texts that they read: gaps, classes, tags, replaced tokens, and answers in a context. */

import { ask } from "./asking.js";
import { headColour } from "./colour.js";
import { element } from "./dom.js";
import { answerPlace, area, asking, bars, field, looking, marked, modelChoice, percent } from "./parts.js";

/** @typedef {import("./parts.js").Served} Served */

const GAP = "[MASK]";

/**
 * A view of one thing that models do.
 * @param {string} id
 * @param {string} title
 * @param {string} about
 * @param {(host: HTMLElement, served: Served) => void} show
 */
function viewOf(id, title, about, show) {
  return { id, title, about, show, there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes(id)) };
}

export const fill = viewOf("fill", "Fill", `The model fills gaps, written as ${GAP}.`, (host, served) => {
  const { control, model } = modelChoice(served, "fill");
  const text = area({ placeholder: `The dog ${GAP} in the park.`, maxlength: served.limits.characters });
  const gap = element("button", { type: "button", onclick: () => {
    text.setRangeText(GAP, text.selectionStart, text.selectionEnd, "end");
    text.focus();
  } }, "Insert a gap");
  both(host, "Fill", [control, field("Text", text)], [gap], async (signal) => {
    const asked = { model: model().name, texts: text.value };
    const { answers: [found] } = await ask("fill", asked, signal);
    return [
      element("p", { class: "said-text", dir: "auto" }, found.text),
      found.gaps.map((/** @type {any[]} */ guesses, /** @type {number} */ i) => [
        element("h3", {}, found.gaps.length > 1 ? `Gap ${i + 1}` : "Words that fit"),
        bars(guesses.map(({ piece, probability }) => ({ name: piece, share: probability })), `Guesses for gap ${i + 1}`),
      ]),
      looking(() => ({ model: asked.model, text: asked.texts })),
    ];
  });
});

export const classify = viewOf("classify", "Classify", "The model assigns a class to a text.", (host, served) => {
  const { control, model } = modelChoice(served, "classify", () => adapt());
  const text = area({ maxlength: served.limits.characters });
  const second = area({ maxlength: served.limits.characters });
  const more = field("Second text", second);
  const candidates = area({ rows: 4, maxlength: served.limits.characters });
  const several = field("Candidates, one per line", candidates);
  const adapt = () => {
    more.hidden = model().takes !== "pair";
    several.hidden = model().takes !== "candidates";
  };
  adapt();
  both(host, "Classify", [control, field("Text", text), more, several], [], async (signal) => {
    const { name, takes } = model();
    const lines = candidates.value.split("\n").filter((/** @type {string} */ line) => line.trim());
    const texts = takes === "pair" ? [text.value, second.value] : takes === "candidates" ? [text.value, ...lines] : text.value;
    const { answers: [found] } = await ask("classify", { model: name, texts: [texts] }, signal);
    const shares = takes === "candidates"
      ? found.probabilities.map((/** @type {number} */ share, /** @type {number} */ i) => ({ name: lines[i], share }))
      : Object.entries(found.probabilities ?? {}).map(([label, share]) => ({ name: label, share: Number(share) }));
    const said = takes === "candidates" ? lines[found.number] : typeof found.label === "number" ? found.label.toFixed(3) : found.label;
    return [
      element("p", { class: "said-text", dir: "auto" }, said),
      shares.length ? bars(shares, "Probabilities") : null,
      takes === "candidates" ? null : looking(() => ({ model: name, text: text.value, ...(takes === "pair" ? { pair: second.value } : {}) })),
    ];
  });
});

export const tag = viewOf("tag", "Tag", "The model gives each word a tag.", (host, served) => {
  const { control, model } = modelChoice(served, "tag");
  const text = area({ maxlength: served.limits.characters });
  both(host, "Tag", [control, field("Text, with spaces between words", text)], [], async (signal) => {
    const asked = { model: model().name, texts: text.value };
    const { answers: [found] } = await ask("tag", asked, signal);
    const names = [...new Set(found.map((/** @type {any} */ each) => each.name))];
    return [
      element("ul", { class: "tagged", "aria-label": "Words and their tags" }, found.map((/** @type {any} */ each) => element("li", { title: percent(each.probability) },
        element("span", { class: "word-of", dir: "auto" }, each.word),
        element("span", { class: "tag-of", style: { "--tag": headColour(names.indexOf(each.name)) } }, each.name)))),
      looking(() => ({ model: asked.model, text: asked.texts })),
    ];
  });
});

export const detect = viewOf("detect", "Detect", "The model says which tokens of a text were probably replaced by others.", (host, served) => {
  const { control, model } = modelChoice(served, "detect");
  const text = area({ maxlength: served.limits.characters });
  both(host, "Detect", [control, field("Text", text)], [], async (signal) => {
    const asked = { model: model().name, texts: text.value };
    const { answers: [found] } = await ask("detect", asked, signal);
    return [
      element("ul", { class: "tagged", "aria-label": "Tokens and how probable it is that each was replaced" }, found.map((/** @type {any} */ each) => element("li", {},
        element("span", { class: "word-of suspect", dir: "auto", style: { "--weight": each.probability } }, each.piece),
        element("span", { class: "soft share" }, percent(each.probability))))),
      found.length ? null : element("p", { class: "soft" }, "The text has no tokens."),
      looking(() => ({ model: asked.model, text: asked.texts })),
    ];
  });
});

export const answer = viewOf("answer", "Answer", "The model marks where a text answers your question.", (host, served) => {
  const { control, model } = modelChoice(served, "answer");
  const question = element("input", { type: "text", dir: "auto", maxlength: served.limits.characters });
  const context = area({ rows: 8, maxlength: served.limits.characters });
  both(host, "Answer", [control, field("Question", question), field("Text that may answer it", context)], [], async (signal) => {
    const asked = { model: model().name, question: question.value, context: context.value };
    const { answers: [found] } = await ask("answer", { ...asked, n_best: Math.min(5, served.limits.alternatives + 1) }, signal);
    const best = found.answer ? found.spans[0] : null;
    return [
      element("p", { class: "said-text", dir: "auto" }, found.answer || "The text does not answer it."),
      element("p", { class: "passage", dir: "auto" }, marked(asked.context, best ? [[best.start, best.stop]] : [])),
      bars([...found.spans.map((/** @type {any} */ span) => ({ name: span.text, share: span.probability })), { name: "no answer", share: found.none }]
        .sort((one, other) => other.share - one.share), "Probabilities of answers"),
      looking(() => ({ model: asked.model, text: asked.question, pair: asked.context })),
    ];
  });
});

/**
 * A form next to the card of its answer.
 * @param {HTMLElement} host
 * @param {string} label
 * @param {any[]} fields
 * @param {any[]} more
 * @param {(signal: AbortSignal) => Promise<any[]>} work what the card shows
 */
export function both(host, label, fields, more, work) {
  const place = answerPlace("Answer");
  const form = asking({ label, fields, more, work: async (signal) => {
    place.setAttribute("aria-busy", "true");
    try {
      place.replaceChildren(element("article", { class: "card" }, await work(signal)));
    } finally {
      place.removeAttribute("aria-busy");
    }
  } });
  host.append(element("div", { class: "two" }, form, place));
}
