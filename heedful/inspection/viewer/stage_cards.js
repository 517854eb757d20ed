/** Create cards for the stages of an attention before and after its table of scores. */

import { findMaxAbs, sumNumbers } from "heedful/arrays.js";
import { createElement } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { createStrip } from "heedful/vector_strips.js";

/** @import { AttentionStages } from "heedful/attention_stages.js" */
/** @import { Child } from "heedful/dom.js" */
/** @import { AttentionMap } from "heedful/record.js" */
/** @typedef {{token: string, words: number[], places: number[] | null, segments: number[] | null}} TokenEmbedding */
/**
 * @typedef {object} StageScene
 * @property {AttentionStages} stages
 * @property {TokenEmbedding | null} embedding of the query token; null if the input of the query is another vector
 * @property {AttentionMap} map
 * @property {number} head number of the head in the model
 * @property {number} query
 * @property {number[]} shownKeys keys that have a row in the table
 * @property {boolean} dark
 * @property {(text: string) => void} onPoint receives the description of the number under the pointer
 */

const STRIP_WIDTH = 520;
const MAX_PARTS = 5; // keys whose parts of the weighted sum are shown one by one

/**
 * Create a formula. A part after "_" is a subscript.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function createFormula(text) {
  return createElement("span", { class: "formula" }, formatSubscripts(text));
}

/**
 * Return a text as nodes in which each part after "_" is a subscript.
 * @param {string} text
 * @returns {(string | HTMLElement)[]}
 */
export function formatSubscripts(text) {
  return text.split(/_(\w+)/).map((part, i) => (i % 2 ? createElement("sub", {}, part) : part));
}

/**
 * @param {number} number of the stage
 * @param {string} title
 * @param {string} formula
 * @param {string} explanation
 * @param {...Child} body
 * @returns {HTMLElement}
 */
function createCard(number, title, formula, explanation, ...body) {
  return createElement(
    "section",
    { class: "stage" },
    createElement("h3", {}, createElement("span", { class: "badge" }, number), title, createFormula(formula)),
    createElement("p", { class: "soft small" }, explanation),
    body,
  );
}

/**
 * Create a row of a card: a vector with a sign and a name before it.
 * @param {string} sign
 * @param {string} name
 * @param {HTMLElement} strip
 */
function createVectorRow(sign, name, strip) {
  return createElement("div", { class: "vector" },
    createElement("span", { class: "sign" }, sign), createElement("span", { class: "name" }, name), strip);
}

/**
 * Return a function that creates strips.
 * @param {StageScene} scene
 * @param {number} [maxAbs] absolute value that has the full colour; by default the largest of each vector
 */
function createStripFactory({ dark, onPoint }, maxAbs) {
  return (/** @type {number[]} */ vector, /** @type {string} */ name) =>
    createStrip(vector, { name, maxAbs: maxAbs ?? findMaxAbs(vector), dark, width: STRIP_WIDTH, onPoint });
}

/**
 * Create the card of the embedding: word + position + segment = input.
 * @param {TokenEmbedding} embedding
 * @param {StageScene} scene
 * @param {number} number of the stage
 */
export function createEmbeddingCard(embedding, scene, number) {
  const { words, places, segments, token } = embedding;
  const sum = sumEmbeddings(embedding);
  const draw = createStripFactory(scene, findMaxAbs(words, places ?? [], segments ?? [], sum));
  const formula = ["x = e", places && "p", segments && "s"].filter(Boolean).join(" + ");
  const explanations = [
    places && segments && "The vector of the word plus the vectors of its position and of its segment.",
    places && "The vector of the word plus the vector of its position.",
    segments && "The vector of the word plus the vector of its segment.",
    "The vector of the word. No vector is added for its position.",
  ];
  return createCard(
    number, "Embedding", formula, explanations.find((text) => text !== null) ?? "",
    createVectorRow("", `word ${formatToken(token)}`, draw(words, "word vector")),
    places && createVectorRow("+", "position", draw(places, "position vector")),
    segments && createVectorRow("+", "segment", draw(segments, "segment vector")),
    (places || segments) && createVectorRow("=", "sum", draw(sum, segments ? "sum of word, position and segment" : "sum of word and position")),
  );
}

/** @param {TokenEmbedding} embedding */
function sumEmbeddings({ words, places, segments }) {
  return words.map((each, i) => each + (places ? places[i] : 0) + (segments ? segments[i] : 0));
}

/**
 * Return whether two vectors are equal.
 * @param {number[]} one
 * @param {number[]} other
 * @param {number} tolerance
 */
function areEqual(one, other, tolerance) {
  return one.length === other.length && one.every((each, i) => Math.abs(each - other[i]) < tolerance);
}

/**
 * Create the card of the input and of the query that the head computes from it.
 * @param {StageScene} scene
 * @param {number} number of the stage
 */
export function createQueryCard(scene, number) {
  const { stages: { input, query: vector }, embedding, map, query } = scene;
  const token = formatToken(map.queryAxis.tokens[query]);
  const isInput = areEqual(input, vector, 0.01);
  const draw = createStripFactory(scene);
  const isChanged = embedding && !areEqual(sumEmbeddings(embedding), input, 0.02);
  const explanation = [
    isInput ? "The query is the input: this attention compares it with the keys as it is." : "The input, and the query that this head computes from it.",
    isChanged ? "The layer changes the sum first, for example by a norm." : "",
  ].join(" ");
  const name = map.queries === "written" ? `input, to write ${token}` : `input ${token}`;
  return createCard(
    number, "Query", isInput ? "q = x" : "q = x W_Q", explanation,
    createVectorRow("x", name, draw(input, `input of ${token}`)),
    createVectorRow("q", "query", draw(vector, `query of ${token}`)),
  );
}

/**
 * Create the card of the weighted sum of the values.
 * @param {StageScene} scene
 * @param {number} number of the stage
 */
export function createSumCard(scene, number) {
  const { stages: { weights, values, context, isSum }, map } = scene;
  const sorted = weights.map((_, k) => k).sort((one, other) => weights[other] - weights[one]);
  const best = sorted.filter((k) => weights[k] > 0).slice(0, MAX_PARTS);
  const parts = best.map((k) => values[k].map((each) => weights[k] * each));
  const rest = context.map((each, i) => each - sumNumbers(parts.map((part) => part[i])));
  const draw = createStripFactory(scene, findMaxAbs(context, rest, ...parts));
  const rows = best.map((k, i) => {
    const token = formatToken(map.keyAxis.tokens[k]);
    const weight = formatNumber(weights[k], 3);
    return createVectorRow(i ? "+" : "", `${weight} × v of ${token}`, draw(parts[i], `${weight} times the value of ${token}`));
  });
  const others = weights.filter((each, k) => each !== 0 && !best.includes(k)).length;
  const restName = [others > 0 && `${others} other ${others === 1 ? "key" : "keys"}`, !isSum && "relative positions"].filter(Boolean).join(" and ");
  return createCard(
    number, "Weighted sum", isSum ? "c = Σ a_j v_j" : "c = Σ a_j (v_j + p_j)",
    "Each value is multiplied by its weight. The sum is the context of this head.",
    rows,
    restName && createVectorRow("+", restName, draw(rest, restName)),
    createVectorRow("=", "context", draw(context, "context")),
  );
}

/**
 * Create the card of the output of the attention.
 * @param {StageScene} scene
 * @param {number} number of the stage
 */
export function createOutputCard(scene, number) {
  const { stages: { context, output }, map, head } = scene;
  const hasSeveralHeads = map.heads.length > 1;
  const isContext = !hasSeveralHeads && areEqual(context, output, 0.01);
  const draw = createStripFactory(scene);
  const formula = isContext ? "o = c" : hasSeveralHeads ? "o = f(c_0, c_1, …)" : "o = f(c)";
  const explanation = isContext
    ? "The context is the output of this attention."
    : "The output is computed from the contexts of all heads of this layer.";
  return createCard(number, "Output", formula, explanation,
    createVectorRow("c", hasSeveralHeads ? `context, head ${head}` : "context", draw(context, "context")),
    createVectorRow("o", "output", draw(output, "output")));
}
