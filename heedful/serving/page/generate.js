/** Texts that are continued, piece by piece. */

import { hear } from "./asking.js";
import { element } from "./dom.js";
import { answerPlace, area, asking, choice, field, looking, modelChoice } from "./parts.js";

/** Tokens that the inspector gets, because its pictures grow with their square. */
const LOOKED = 40;

export const view = {
  id: "generate",
  title: "Generate",
  about: "The model continues your text.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("generate")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "generate");
  const text = area({ rows: 5, placeholder: "Once upon a time", maxlength: served.limits.characters });
  const search = choice([["", "the model's own"], ["greedy", "most probable"], ["sampling", "by chance"]]);
  const tokens = element("input", { type: "number", min: 1, max: served.limits.tokens, value: Math.min(120, served.limits.tokens) });
  const warmth = element("input", { type: "number", min: 0.05, max: 5, step: 0.05, placeholder: "1" });
  const place = answerPlace("Continuation");
  let seed = 0;
  const form = asking({
    label: "Go on",
    fields: [control, field("Text", text), element("details", { class: "more" }, element("summary", {}, "Options"),
      element("div", { class: "options" }, field("Tokens", tokens), field("How", search), field("Temperature", warmth)))],
    work: async (signal) => {
      const prompt = text.value;
      const grown = element("span", { class: "written" });
      const said = element("p", { class: "said-text prose", dir: "auto" }, element("span", { class: "soft" }, prompt), grown);
      const acts = element("div", { class: "acts", hidden: true },
        element("button", { type: "button", onclick: () => { text.value = said.textContent ?? ""; text.focus(); } }, "Use it as the text"),
        looking(() => ({ model: model().name, text: prompt, tokens: Math.min(LOOKED, Number(tokens.value) || LOOKED) })));
      const note = element("p", { class: "soft" });
      const card = element("article", { class: "card", "aria-busy": "true" }, said, acts, note);
      place.replaceChildren(card);
      try {
        const { answers: [record] } = await hear("generate", {
          model: model().name, prompts: prompt, tokens: Number(tokens.value) || 1, seed: seed++,
          ...(search.value ? { search: search.value } : {}),
          ...(warmth.value ? { temperature: Number(warmth.value) } : {}),
        }, ({ piece }) => grown.append(piece), signal);
        grown.textContent = record.text;
        note.textContent = `${record.tokens.length} tokens · ${record.finished ? "it ended by itself" : "cut at the limit"} · log-probability ${record.log_probability.toFixed(1)}`;
      } finally {
        card.removeAttribute("aria-busy");
        acts.hidden = false;
      }
    },
  });
  host.append(element("div", { class: "two" }, form, place));
}
