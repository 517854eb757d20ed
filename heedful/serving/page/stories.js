/** Questions about a story, with the sentences that each hop looked at. */

import { ask } from "./asking.js";
import { element } from "./dom.js";
import { area, bars, field, looking, modelChoice } from "./parts.js";
import { both } from "./reading.js";

export const view = {
  id: "ask",
  title: "Stories",
  about: "The model answers questions about a story, a sentence on each line.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("ask")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "ask");
  const story = area({ rows: 8, placeholder: "Mary went to the garden.\nJohn went to the office.", maxlength: served.limits.characters });
  const question = element("input", { type: "text", dir: "auto", placeholder: "Where is Mary?", maxlength: served.limits.characters });
  both(host, "Ask", [control, field("Story", story), field("Question", question)], [], async (signal) => {
    const facts = story.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
    const asked = { model: model().name, question: question.value };
    const { answers: [found] } = await ask("ask", { ...asked, story: facts }, signal);
    const first = facts.length - (found.weights[0]?.length ?? 0);
    const hops = found.weights.map((/** @type {number[]} */ _, /** @type {number} */ hop) => `hop ${hop + 1}`);
    return [
      element("p", { class: "said-text", dir: "auto" }, found.answer),
      element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Sentences and how much each hop looked at them" },
        element("table", { class: "numbers hops" },
          element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "sentence"), hops.map((/** @type {string} */ hop) => element("th", { scope: "col" }, hop)))),
          element("tbody", {}, facts.slice(first).map((/** @type {string} */ fact, /** @type {number} */ i) => element("tr", {},
            element("th", { scope: "row", dir: "auto" }, fact),
            found.weights.map((/** @type {number[]} */ weights) => element("td", { class: "heat", style: { "--weight": weights[i] } }, weights[i].toFixed(2)))))))),
      bars([[found.answer, found.probability], ...found.others].map(([name, share]) => ({ name, share })), "Probabilities of answers"),
      looking(() => ({ model: asked.model, text: asked.question, pair: facts.join("\n") })),
    ];
  });
}
