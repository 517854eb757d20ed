/** The stages between query and context as a table: a row for each key, a column for each stage. */

import { element } from "heedful/dom.js";
import { display } from "heedful/record.js";
import { formulaOf, lowered } from "heedful/stage_cards.js";
import { largest, strip, written } from "heedful/strips.js";

const NARROW = 150;

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {string} formula
 * @property {string} words
 * @property {boolean | undefined} [right] whether numbers are at the right
 * @property {(k: number) => any} cell
 */

/**
 * The stages that this attention has, in their order.
 * @param {any} about stages of one query with its map and what shows them
 * @returns {Column[]}
 */
export function stageColumns(about) {
  const { stages, map } = about;
  const plain = stages.scale === 1;
  const number = (values) => (k) => element("td", { class: "number" }, written(values[k]));
  return [
    keysColumn(about),
    {
      title: "Score",
      formula: stages.isDot ? "q · k_j" : "score(q, k_j)",
      words: stages.isDot ? "how similar query and key are" : "by this attention's own measure",
      right: true,
      cell: number(stages.products),
    },
    !plain && {
      title: "Scaled",
      formula: scaleOf(stages),
      words: `times ${written(stages.scale, 3)}`,
      right: true,
      cell: number(stages.scaled),
    },
    stages.bias && {
      title: "Position",
      formula: "+ b_j",
      words: "bias of the distance",
      right: true,
      cell: (k) => element("td", { class: "number" }, written(stages.bias[k]), element("span", { class: "soft" }, ` → ${written(stages.scores[k])}`)),
    },
    { title: "Mask", formula: "hidden → −∞", words: maskWords(stages), right: true, cell: (k) => maskCell(stages, k) },
    {
      title: "Weight",
      formula: stages.isSoftmax ? "a = softmax(s)" : "a = choice(s)",
      words: stages.isSoftmax ? "exp(s_j) ÷ Σ exp(s)" : "this attention does not use softmax",
      cell: (k) => weightCell(stages.weights[k], display(map.keyAxis.tokens[k])),
    },
    valuesColumn(about),
  ].filter(Boolean);
}

function scaleOf({ scale, query }) {
  return Math.abs(scale - 1 / Math.sqrt(query.length)) < 1e-6 ? `× 1/√${query.length}` : `× ${written(scale, 3)}`;
}

function maskWords({ visible }) {
  const hidden = visible.filter((each) => !each).length;
  return hidden ? `${hidden} of ${visible.length} hidden` : "nothing is hidden";
}

function keysColumn({ stages, map, dark, tell }) {
  const most = largest(...stages.keys);
  const picture = (k) => strip(stages.keys[k], { name: `key of ${display(map.keyAxis.tokens[k])}`, most, dark, width: NARROW, tell });
  return { title: "Keys", formula: "k_j", words: "what a query is compared with", cell: (k) => element("td", {}, picture(k)) };
}

function valuesColumn({ stages, map, dark, tell }) {
  const most = largest(...stages.values);
  const picture = (k) => strip(stages.values[k], { name: `value of ${display(map.keyAxis.tokens[k])}`, most, dark, width: NARROW, tell });
  return { title: "Values", formula: "v_j", words: "what each gives", cell: (k) => element("td", {}, picture(k)) };
}

function maskCell({ scores, visible }, k) {
  if (visible[k]) return element("td", { class: "number" }, written(scores[k]));
  return element("td", { class: "number hidden-key" }, element("s", {}, written(scores[k])), element("span", {}, " −∞"));
}

function weightCell(weight, token) {
  const width = `${(100 * Math.min(1, Math.max(0, weight))).toFixed(1)}%`;
  const bar = element("span", { class: "bar", "aria-hidden": "true" }, element("span", { style: { width } }));
  return element("td", { class: "number weight", "data-weight": weight, title: `weight of ${token}: ${written(weight, 5)}` }, written(weight, 3), bar);
}

/**
 * @param {any} about stages of one query with its map and what shows them
 * @param {Column[]} columns
 * @param {{from: number, shown: number}} progress the number of the first column's stage, and how many are shown
 * @returns {HTMLElement}
 */
export function scoreTable({ map, stages, seen }, columns, { from, shown }) {
  const there = columns.slice(0, shown);
  const heading = (/** @type {Column} */ { title, formula, words, right }, /** @type {number} */ i) =>
    element(
      "th",
      { scope: "col", class: right ? "is-right" : "" },
      element("span", { class: "badge" }, from + i), title,
      formulaOf(formula),
      element("span", { class: "soft words" }, lowered(words)),
    );
  const row = (k) =>
    element(
      "tr",
      { class: stages.visible[k] ? "" : "is-hidden", "data-key": k },
      element("th", { scope: "row" }, display(map.keyAxis.tokens[k])),
      there.map((column) => column.cell(k)),
    );
  const missing = stages.weights.length - seen.length;
  const note = missing > 0 && element("p", { class: "soft small" }, `The ${seen.length} keys with the largest weights; ${missing} more have rows with “all keys”.`);
  return element(
    "section",
    { class: "stage stage-wide" },
    note,
    element(
      "div",
      { class: "stage-scroll", tabindex: 0, role: "region", "aria-label": "Keys, scores and weights" },
      element(
        "table",
        { class: "scores" },
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Key token"), there.map(heading))),
        element("tbody", {}, seen.map(row)),
      ),
    ),
  );
}
