/** Continue texts, piece by piece. */

import {
  createAnswerRegion, createField, createInspectButton, createModelSelect, createRequestForm, createSelect, createTextArea, hasCapability,
} from "./components.js";
import { createElement } from "./dom.js";
import { streamRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */

/** Number of tokens that are inspected at most, because the page of an inspection grows with their square. */
const MAX_INSPECTED_TOKENS = 40;

/** @type {PageView} */
export const generateView = {
  id: "generate",
  title: "Generate",
  about: "The model continues your text.",
  isAvailable: (server) => hasCapability(server, "generate"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const { control, getModel } = createModelSelect(server, "generate");
  const text = createTextArea({ rows: 5, placeholder: "Once upon a time", maxlength: server.limits.characters });
  const search = createSelect([["", "default of the model"], ["greedy", "greedy"], ["sampling", "sampling"]]);
  const tokens = createElement("input", { type: "number", min: 1, max: server.limits.tokens, value: Math.min(120, server.limits.tokens) });
  const temperature = createElement("input", { type: "number", min: 0.05, max: 5, step: 0.05, placeholder: "1" });
  const region = createAnswerRegion("Continuation");
  let seed = 0;
  const form = createRequestForm({
    label: "Continue",
    fields: [control, createField("Text", text), createElement("details", { class: "more" }, createElement("summary", {}, "Options"),
      createElement("div", { class: "options" }, createField("Tokens", tokens), createField("Search", search), createField("Temperature", temperature)))],
    onSubmit: async (signal) => {
      const prompt = text.value;
      const continuation = createElement("span", { class: "written" });
      const shownText = createElement("p", { class: "answer-text prose", dir: "auto" }, createElement("span", { class: "soft" }, prompt), continuation);
      const useText = () => {
        text.value = shownText.textContent ?? "";
        text.focus();
      };
      const buttons = createElement("div", { class: "buttons", hidden: true },
        createElement("button", { type: "button", onclick: useText }, "Use as input"),
        createInspectButton(() => ({ model: getModel().name, text: prompt, tokens: Math.min(MAX_INSPECTED_TOKENS, Number(tokens.value) || MAX_INSPECTED_TOKENS) })));
      const note = createElement("p", { class: "soft" });
      const card = createElement("article", { class: "card", "aria-busy": "true" }, shownText, buttons, note);
      region.replaceChildren(card);
      try {
        const answer = await streamRequest("generate", {
          model: getModel().name, prompts: prompt, tokens: Number(tokens.value) || 1, seed: seed++,
          ...(search.value ? { search: search.value } : {}),
          ...(temperature.value ? { temperature: Number(temperature.value) } : {}),
        }, ({ piece }) => continuation.append(piece), signal);
        continuation.textContent = answer.text;
        note.textContent = `${answer.tokens.length} tokens · ${answer.finished ? "complete" : "cut at the limit"} · log-probability ${answer.log_probability.toFixed(1)}`;
      } finally {
        card.removeAttribute("aria-busy");
        buttons.hidden = false;
      }
    },
  });
  host.append(createElement("div", { class: "two" }, form, region));
}
