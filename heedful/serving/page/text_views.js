/** Show the predictions of models that read texts: gaps, classes, tags, replaced tokens, and answers in a context. */

import { getHeadColour } from "./colour.js";
import {
  addFormAndAnswer, createBars, createField, createInspectButton, createModelSelect, createTextArea, formatPercent, hasCapability, markText,
} from "./components.js";
import { createElement } from "./dom.js";
import { sendRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */

const MASK_TOKEN = "[MASK]";
const MAX_ANSWERS = 5;

/**
 * Create the view of a capability.
 * @param {string} id the capability
 * @param {string} title
 * @param {string} about
 * @param {PageView["show"]} show
 * @returns {PageView}
 */
function createView(id, title, about, show) {
  return { id, title, about, show, isAvailable: (server) => hasCapability(server, id) };
}

export const fillView = createView("fill", "Fill", `The model fills gaps, which you write as ${MASK_TOKEN}.`, (host, server) => {
  const { control, getModel } = createModelSelect(server, "fill");
  const text = createTextArea({ placeholder: `The dog ${MASK_TOKEN} in the park.`, maxlength: server.limits.characters });
  const insertGap = () => {
    text.setRangeText(MASK_TOKEN, text.selectionStart, text.selectionEnd, "end");
    text.focus();
  };
  const button = createElement("button", { type: "button", onclick: insertGap }, "Insert a gap");
  addFormAndAnswer(host, { label: "Fill", fields: [control, createField("Text", text)], buttons: [button], load: async (signal) => {
    const request = { model: getModel().name, texts: text.value };
    const [answer] = await sendRequest("fill", request, signal);
    return [
      createElement("p", { class: "answer-text", dir: "auto" }, answer.text),
      answer.gaps.map((candidates, i) => [
        createElement("h3", {}, answer.gaps.length > 1 ? `Gap ${i + 1}` : "Candidates"),
        createBars(candidates.map(({ piece, probability }) => ({ name: piece, share: probability })), `Candidates for gap ${i + 1}`),
      ]),
      createInspectButton(() => ({ model: request.model, text: request.texts })),
    ];
  } });
});

export const classifyView = createView("classify", "Classify", "The model predicts the class of a text.", (host, server) => {
  const { control, getModel } = createModelSelect(server, "classify", () => showFields());
  const text = createTextArea({ maxlength: server.limits.characters });
  const second = createTextArea({ maxlength: server.limits.characters });
  const candidates = createTextArea({ rows: 4, maxlength: server.limits.characters });
  const secondField = createField("Second text", second);
  const candidateField = createField("Candidates, one per line", candidates);
  const showFields = () => {
    secondField.hidden = getModel().takes !== "pair";
    candidateField.hidden = getModel().takes !== "candidates";
  };
  showFields();
  addFormAndAnswer(host, { label: "Classify", fields: [control, createField("Text", text), secondField, candidateField], load: async (signal) => {
    const { name, takes } = getModel();
    const lines = candidates.value.split("\n").filter((line) => line.trim());
    const texts = takes === "pair" ? [text.value, second.value] : takes === "candidates" ? [text.value, ...lines] : text.value;
    const [{ label, number, probabilities }] = await sendRequest("classify", { model: name, texts: [texts] }, signal);
    const shares = Array.isArray(probabilities)
      ? probabilities.map((share, i) => ({ name: lines[i], share }))
      : Object.entries(probabilities ?? {}).map(([each, share]) => ({ name: each, share }));
    const prediction = takes === "candidates" ? lines[number ?? 0] : label;
    return [
      createElement("p", { class: "answer-text", dir: "auto" }, typeof prediction === "number" ? prediction.toFixed(3) : prediction),
      shares.length > 0 && createBars(shares, "Probabilities"),
      takes !== "candidates" && createInspectButton(() => ({ model: name, text: text.value, ...(takes === "pair" ? { pair: second.value } : {}) })),
    ];
  } });
});

export const tagView = createView("tag", "Tag", "The model gives each word a tag.", (host, server) => {
  const { control, getModel } = createModelSelect(server, "tag");
  const text = createTextArea({ maxlength: server.limits.characters });
  addFormAndAnswer(host, { label: "Tag", fields: [control, createField("Text, with spaces between words", text)], load: async (signal) => {
    const request = { model: getModel().name, texts: text.value };
    const [words] = await sendRequest("tag", request, signal);
    const tags = [...new Set(words.map(({ name }) => name))];
    return [
      createElement("ul", { class: "tagged", "aria-label": "Words and their tags" }, words.map(({ word, name, probability }) =>
        createElement("li", { title: formatPercent(probability) },
          createElement("span", { class: "word-of", dir: "auto" }, word),
          createElement("span", { class: "tag-of", style: { "--tag": getHeadColour(tags.indexOf(name)) } }, name)))),
      createInspectButton(() => ({ model: request.model, text: request.texts })),
    ];
  } });
});

export const detectView = createView("detect", "Detect", "The model finds tokens that were probably replaced by others.", (host, server) => {
  const { control, getModel } = createModelSelect(server, "detect");
  const text = createTextArea({ maxlength: server.limits.characters });
  addFormAndAnswer(host, { label: "Detect", fields: [control, createField("Text", text)], load: async (signal) => {
    const request = { model: getModel().name, texts: text.value };
    const [tokens] = await sendRequest("detect", request, signal);
    return [
      createElement("ul", { class: "tagged", "aria-label": "Tokens, and the probability that each was replaced" }, tokens.map(({ piece, probability }) =>
        createElement("li", {},
          createElement("span", { class: "word-of replaced", dir: "auto", style: { "--weight": probability } }, piece),
          createElement("span", { class: "soft share" }, formatPercent(probability))))),
      !tokens.length && createElement("p", { class: "soft" }, "The text has no tokens."),
      createInspectButton(() => ({ model: request.model, text: request.texts })),
    ];
  } });
});

export const answerView = createView("answer", "Answer", "The model marks the answer to your question in a context.", (host, server) => {
  const { control, getModel } = createModelSelect(server, "answer");
  const question = createElement("input", { type: "text", dir: "auto", maxlength: server.limits.characters });
  const context = createTextArea({ rows: 8, maxlength: server.limits.characters });
  addFormAndAnswer(host, { label: "Answer", fields: [control, createField("Question", question), createField("Context", context)], load: async (signal) => {
    const request = { model: getModel().name, question: question.value, context: context.value };
    const maxAnswers = Math.min(MAX_ANSWERS, server.limits.alternatives + 1);
    const [{ answer, spans, none }] = await sendRequest("answer", { ...request, n_best: maxAnswers }, signal);
    const shares = [...spans.map((span) => ({ name: span.text, share: span.probability })), { name: "no answer", share: none }];
    const best = answer ? spans[0] : null;
    return [
      createElement("p", { class: "answer-text", dir: "auto" }, answer || "The context contains no answer."),
      createElement("p", { class: "passage", dir: "auto" }, markText(request.context, best ? [[best.start, best.stop]] : [])),
      createBars(shares.sort((one, other) => other.share - one.share), "Probabilities of answers"),
      createInspectButton(() => ({ model: request.model, text: request.question, pair: request.context })),
    ];
  } });
});
