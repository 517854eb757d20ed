/** Create the table of the stages between query and context: a row for each key, a column for each stage. */

import { findMaxAbs } from "heedful/arrays.js";
import { createElement } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { createFormula, formatSubscripts } from "heedful/stage_cards.js";
import { createStrip } from "heedful/vector_strips.js";

/** @import { AttentionStages } from "heedful/attention_stages.js" */
/** @import { StageScene } from "heedful/stage_cards.js" */
/**
 * @typedef {object} StageColumn
 * @property {string} title
 * @property {string} formula
 * @property {string} explanation
 * @property {boolean} [alignRight] whether the column contains numbers, which are aligned to the right
 * @property {(k: number) => HTMLElement} createCell of a key
 */

const STRIP_WIDTH = 150;

/**
 * Build the columns of the stages that the attention has, in their order.
 * @param {StageScene} scene
 * @returns {StageColumn[]}
 */
export function buildStageColumns(scene) {
  const { stages, map } = scene;
  const { bias } = stages;
  const createNumberCell = (/** @type {number[]} */ values) => (/** @type {number} */ k) =>
    createElement("td", { class: "number" }, formatNumber(values[k]));
  /** @type {StageColumn[]} */
  const columns = [
    buildVectorColumn(scene, stages.keys, { title: "Keys", formula: "k_j", name: "key", explanation: "compared with the query" }),
    {
      title: "Score",
      formula: stages.isDot ? "q · k_j" : "score(q, k_j)",
      explanation: stages.isDot ? "similarity of query and key" : "by the score function of this attention",
      alignRight: true,
      createCell: createNumberCell(stages.products),
    },
  ];
  if (stages.scale !== 1) {
    columns.push({
      title: "Scaled",
      formula: formatScale(stages),
      explanation: `times ${formatNumber(stages.scale, 3)}`,
      alignRight: true,
      createCell: createNumberCell(stages.scaled),
    });
  }
  if (bias) {
    columns.push({
      title: "Position",
      formula: "+ b_j",
      explanation: "bias of the distance",
      alignRight: true,
      createCell: (k) => createElement("td", { class: "number" }, formatNumber(bias[k]),
        createElement("span", { class: "soft" }, ` → ${formatNumber(stages.scores[k])}`)),
    });
  }
  return [
    ...columns,
    { title: "Mask", formula: "masked → −∞", explanation: describeMask(stages), alignRight: true, createCell: (k) => createMaskCell(stages, k) },
    {
      title: "Weight",
      formula: stages.isSoftmax ? "a = softmax(s)" : "a = choice(s)",
      explanation: stages.isSoftmax ? "exp(s_j) ÷ Σ exp(s)" : "this attention does not use softmax",
      createCell: (k) => createWeightCell(stages.weights[k], formatToken(map.keyAxis.tokens[k])),
    },
    buildVectorColumn(scene, stages.values, { title: "Values", formula: "v_j", name: "value", explanation: "summed by weight" }),
  ];
}

/** @param {AttentionStages} stages */
function formatScale({ scale, query }) {
  return Math.abs(scale - 1 / Math.sqrt(query.length)) < 1e-6 ? `× 1/√${query.length}` : `× ${formatNumber(scale, 3)}`;
}

/** @param {AttentionStages} stages */
function describeMask({ visible }) {
  const masked = visible.filter((each) => !each).length;
  return masked ? `${masked} of ${visible.length} keys are masked` : "no key is masked";
}

/**
 * Build a column that shows a vector of each key.
 * @param {StageScene} scene
 * @param {number[][]} vectors
 * @param {{title: string, formula: string, name: string, explanation: string}} texts
 * @returns {StageColumn}
 */
function buildVectorColumn({ map, dark, onPoint }, vectors, { name, ...texts }) {
  const maxAbs = findMaxAbs(...vectors);
  const createCell = (/** @type {number} */ k) => {
    const strip = createStrip(vectors[k], { name: `${name} of ${formatToken(map.keyAxis.tokens[k])}`, maxAbs, dark, width: STRIP_WIDTH, onPoint });
    return createElement("td", {}, strip);
  };
  return { ...texts, createCell };
}

/**
 * @param {AttentionStages} stages
 * @param {number} k
 */
function createMaskCell({ scores, visible }, k) {
  if (visible[k]) return createElement("td", { class: "number" }, formatNumber(scores[k]));
  return createElement("td", { class: "number masked-key" }, createElement("s", {}, formatNumber(scores[k])), createElement("span", {}, " −∞"));
}

/**
 * @param {number} weight
 * @param {string} token
 */
function createWeightCell(weight, token) {
  const width = `${(100 * Math.min(1, Math.max(0, weight))).toFixed(1)}%`;
  const bar = createElement("span", { class: "bar", "aria-hidden": "true" }, createElement("span", { style: { width } }));
  const title = `weight of ${token}: ${formatNumber(weight, 5)}`;
  return createElement("td", { class: "number weight", "data-weight": weight, title }, formatNumber(weight, 3), bar);
}

/**
 * Create the table with the columns of the first stages.
 * @param {StageScene} scene
 * @param {StageColumn[]} columns
 * @param {{first: number, count: number}} stages number of the stage of the first column, and number of columns to show
 * @returns {HTMLElement}
 */
export function createScoreTable({ map, stages, shownKeys }, columns, { first, count }) {
  const shownColumns = columns.slice(0, count);
  const createHeading = (/** @type {StageColumn} */ { title, formula, explanation, alignRight }, /** @type {number} */ i) =>
    createElement(
      "th",
      { scope: "col", class: alignRight ? "is-right" : "" },
      createElement("span", { class: "badge" }, first + i), title,
      createFormula(formula),
      createElement("span", { class: "soft words" }, formatSubscripts(explanation)),
    );
  const createRow = (/** @type {number} */ k) =>
    createElement(
      "tr",
      { class: stages.visible[k] ? "" : "is-hidden", "data-key": k },
      createElement("th", { scope: "row" }, formatToken(map.keyAxis.tokens[k])),
      shownColumns.map((column) => column.createCell(k)),
    );
  const missing = stages.weights.length - shownKeys.length;
  const note = `The table has the ${shownKeys.length} keys with the largest weights. “all keys” adds the other ${missing}.`;
  return createElement(
    "section",
    { class: "stage stage-wide" },
    missing > 0 && createElement("p", { class: "soft small" }, note),
    createElement(
      "div",
      { class: "stage-scroll", tabindex: 0, role: "region", "aria-label": "Keys, scores and weights" },
      createElement(
        "table",
        { class: "scores" },
        createElement("thead", {}, createElement("tr", {}, createElement("th", { scope: "col" }, "Key token"), shownColumns.map(createHeading))),
        createElement("tbody", {}, shownKeys.map(createRow)),
      ),
    ),
  );
}
