/** Answer questions about stories, and show the sentences that each hop attends to. */

import { addFormAndAnswer, createBars, createField, createInspectButton, createModelSelect, createTextArea, hasCapability } from "./components.js";
import { createElement } from "./dom.js";
import { sendRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */

/** @type {PageView} */
export const storiesView = {
  id: "ask",
  title: "Stories",
  about: "The model answers questions about a story. Write one sentence per line.",
  isAvailable: (server) => hasCapability(server, "ask"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const { control, getModel } = createModelSelect(server, "ask");
  const story = createTextArea({ rows: 8, placeholder: "Mary went to the garden.\nJohn went to the office.", maxlength: server.limits.characters });
  const question = createElement("input", { type: "text", dir: "auto", placeholder: "Where is Mary?", maxlength: server.limits.characters });
  addFormAndAnswer(host, { label: "Ask", fields: [control, createField("Story", story), createField("Question", question)], load: async (signal) => {
    const sentences = story.value.split("\n").map((line) => line.trim()).filter(Boolean);
    const request = { model: getModel().name, question: question.value };
    const [{ answer, probability, others, weights }] = await sendRequest("ask", { ...request, story: sentences }, signal);
    const bars = [{ name: answer, share: probability }, ...others.map(([name, share]) => ({ name, share }))];
    return [
      createElement("p", { class: "answer-text", dir: "auto" }, answer),
      createHopTable(sentences.slice(sentences.length - (weights[0]?.length ?? 0)), weights),
      createBars(bars, "Probabilities of answers"),
      createInspectButton(() => ({ model: request.model, text: request.question, pair: sentences.join("\n") })),
    ];
  } });
}

/**
 * Create a table of the sentences with their weights in each hop.
 * @param {string[]} sentences
 * @param {number[][]} weights of each hop, of each sentence
 */
function createHopTable(sentences, weights) {
  const header = ["sentence", ...weights.map((_, hop) => `hop ${hop + 1}`)].map((name) => createElement("th", { scope: "col" }, name));
  const rows = sentences.map((sentence, i) => createElement("tr", {},
    createElement("th", { scope: "row", dir: "auto" }, sentence),
    weights.map((hop) => createElement("td", { class: "heat", style: { "--weight": hop[i] } }, hop[i].toFixed(2)))));
  return createElement("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Sentences and their weights in each hop" },
    createElement("table", { class: "numbers hops" }, createElement("thead", {}, createElement("tr", {}, header)), createElement("tbody", {}, rows)));
}
