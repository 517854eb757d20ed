/** Show how much each word of an answer attends to each turn of a dialogue, or to each part of another text. */

import { findMax, sumNumbers } from "heedful/arrays.js";
import { createBar } from "heedful/charts.js";
import { createTokenRow } from "heedful/controls.js";
import { createElement } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { createShadedText, createWeightTable, getWeightRow } from "heedful/shaded_text.js";
import { followSteps } from "heedful/step_selection.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, TokenSpan } from "heedful/record.js" */
/** @import { StepScene } from "heedful/step_selection.js" */

const hasTurns = (/** @type {AttentionMap} */ map) => map.keyAxis.spans.length > 0 && map.keys !== map.queries;

/** @type {PageView} */
export const turnsView = {
  id: "turns",
  title: "Turns",
  help:
    "This view shows the turns of a dialogue, or the sentences of a text. Choose a word of the answer. The bar of a turn is " +
    "the sum of the weights of its words. The words are shaded by weight; the largest weight has the full colour. The table " +
    "shows the sums for all words.",
  isAvailable: (record) => record.maps.some(hasTurns),
  show,
};

/**
 * Return the sum of the weights of each part of a text.
 * @param {number[]} row weights
 * @param {TokenSpan[]} spans
 */
function sumSpans(row, spans) {
  return spans.map(({ start, stop }) => sumNumbers(row.slice(start, stop)));
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  return followSteps(record, store, { fits: hasTurns, draw }).stop;

  function draw(/** @type {StepScene} */ { map, weights, step, names, getColour, selectStep }) {
    const { spans, tokens, marked } = map.keyAxis;
    const row = getWeightRow(weights, step);
    const maxWeight = findMax(row);
    const sums = names.map((_, i) => sumSpans(getWeightRow(weights, i), spans));
    const answer = createTokenRow(names, { label: "Answer", selected: step, onSelect: selectStep });
    const hasFocus = host.contains(document.activeElement);
    const createTurn = (/** @type {TokenSpan} */ { name, start, stop }, /** @type {number} */ i) => createElement("article", { class: "turn" },
      createShadedText(formatToken(name), tokens.slice(start, stop), row.slice(start, stop), getColour, maxWeight),
      createBar(sums[step][i], formatNumber(sums[step][i], 3)));
    const markedSpans = spans.flatMap(({ start, stop }, i) => (marked.some((k) => k >= start && k < stop) ? [i] : []));
    const texts = spans.map(({ name }, i) => `${i + 1} ${name}`);
    host.replaceChildren(
      answer.node,
      createElement("div", { class: "turns" }, spans.map(createTurn)),
      createElement("h2", {}, "All words"),
      createWeightTable({ title: "turn", texts, steps: names, weights: sums, marked: markedSpans, getColour, selected: step }),
    );
    if (hasFocus) answer.buttons[step].focus();
  }
}
