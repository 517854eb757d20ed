/** Show attributions: how much each token contributes to an output, by gradients, next to the attention weights. */

import { findMax, findMaxAbs, getNumber, getVector, sumNumbers, unpackArray } from "heedful/arrays.js";
import { createGrid } from "heedful/cell_grid.js";
import { getRamp, getSignedColour } from "heedful/colour.js";
import { createTokenRow } from "heedful/controls.js";
import { createElement, createLabel, createTable, createTableToggle } from "heedful/dom.js";
import { formatHead, formatNumber, formatToken } from "heedful/formatting.js";
import { loadHeadWeights } from "heedful/record.js";
import { createShadedWords, createWordRegion, getColourStyle } from "heedful/shaded_text.js";
import { createColourKey } from "heedful/vector_strips.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { TokenRow } from "heedful/controls.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, Attribution, InspectionRecord } from "heedful/record.js" */
/** @import { GetColour } from "heedful/shaded_text.js" */
/** @import { MapSelection } from "heedful/step_selection.js" */
/** @import { Store } from "heedful/store.js" */
/** @typedef {{axis: string, token: string}} AxisToken */

/** @type {Record<Attribution["method"], string>} */
const METHOD_NAMES = { gradient: "Gradient × input", integrated: "Integrated gradients" };

/** @type {PageView} */
export const attributionView = {
  id: "attribution",
  title: "Attribution",
  help:
    "Attention weights show what the model read. Attributions show what counted for an output. Each token has a score: " +
    "orange counts for the output, blue counts against it. Scores are in nats of the log-probability; 0.7 nats about " +
    "double the probability. Gradient × input measures how the output changes with the vector of each word. Integrated " +
    "gradients measure this on the whole path from no words to these words, and then the scores of a row sum to the change " +
    "between both. A token can have a large weight and a small score, or a small weight and a large score.",
  isAvailable: (record) => record.attributions.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  const state = { selected: 0, method: 0, turn: 0 };
  const readout = createElement("output", { class: "readout" }, "\u00a0");
  const onPoint = (/** @type {string} */ text) => { readout.textContent = text; };
  const [top, place] = [createElement("div", {}), createElement("div", {})];
  /** @type {TokenRow | null} */ let row = null;
  const methods = createElement("select", { onchange: () => {
    state.method = Number(methods.value);
    drawRow();
  } }, record.attributions.map(({ method }, i) => createElement("option", { value: i }, METHOD_NAMES[method])));
  if (record.attributions.length > 1) host.append(createElement("div", { class: "controls" }, createLabel("Method", methods)));
  host.append(top, place, readout, createTableToggle(() => buildTable(record, record.attributions[state.method])));

  function drawRow() {
    const { names, about } = record.attributions[state.method];
    state.selected = Math.min(state.selected, names.length - 1);
    const label = about === "written" ? "Generated token" : "Answer";
    row = createTokenRow(names, { label, selected: state.selected, onSelect: selectRow });
    top.replaceChildren(row.node);
    draw();
  }
  function selectRow(/** @type {number} */ selected) {
    state.selected = selected;
    row?.mark(selected);
    draw();
  }
  async function draw() {
    const turn = ++state.turn;
    const { selected } = state;
    const attribution = record.attributions[state.method];
    const [numbers, attention] = await Promise.all([unpackArray(attribution.scores), loadAttention(record, store, attribution, selected)]);
    if (turn !== state.turn) return;
    const tokens = listTokens(record, attribution.axes);
    const scores = getVector(numbers, selected);
    place.replaceChildren(
      createElement("div", { class: "attribution" },
        createScoredText(tokens, scores, store.isDark()),
        attention && createWeightedText(attention, getRamp(store.getRampName()))),
      createSummary(attribution, selected, scores),
      createElement("h2", {}, "All outputs"),
      ...createScoreGrid({ attribution, tokens, numbers, selected, onSelect: selectRow, onPoint, dark: store.isDark() }),
    );
  }

  drawRow();
  const unsubscribe = store.subscribe(draw);
  return () => {
    state.turn = -Infinity;
    unsubscribe();
  };
}

/**
 * Return the tokens of some axes, one axis after the other.
 * @param {InspectionRecord} record
 * @param {string[]} axes
 * @returns {AxisToken[]}
 */
function listTokens(record, axes) {
  return axes.flatMap((axis) => record.getAxis(axis).tokens.map((token) => ({ axis, token })));
}

/**
 * @param {InspectionRecord} record
 * @param {Attribution} attribution
 */
async function buildTable(record, { names, axes, scores }) {
  const numbers = await unpackArray(scores);
  const tokens = listTokens(record, axes).map(({ token }) => formatToken(token));
  return createTable(["output", ...tokens], names.map((name, i) => [formatToken(name), ...tokens.map((_, k) => formatNumber(getNumber(numbers, i, k), 3))]));
}

/**
 * Create the text of each axis, with each token in the colour of its score.
 * @param {AxisToken[]} tokens
 * @param {number[]} scores
 * @param {boolean} dark
 */
function createScoredText(tokens, scores, dark) {
  const largest = findMaxAbs(scores);
  const axes = [...new Set(tokens.map(({ axis }) => axis))];
  const createWord = (/** @type {string} */ token, /** @type {number} */ k) => createElement("span", {
    class: "word shaded",
    style: getColourStyle(getSignedColour(largest ? scores[k] / largest : 0, dark)),
    title: `${formatToken(token)}: ${formatNumber(scores[k], 3)}`,
    "data-column": k,
    "data-score": scores[k],
  }, formatToken(token));
  const sorted = scores.map((_, k) => k).sort((one, other) => Math.abs(scores[other]) - Math.abs(scores[one]));
  const best = sorted.slice(0, 4).map((k) => `${formatToken(tokens[k].token)} ${formatNumber(scores[k], 2)}`);
  return createElement("section", {}, createElement("h2", {}, "Attribution"),
    axes.map((name) => [
      createElement("p", { class: "soft small" }, name),
      createWordRegion(`Tokens of ${name}, coloured by score`, tokens.map(({ axis, token }, k) => axis === name && createWord(token, k))),
    ]),
    createElement("p", { class: "small" }, createColourKey(largest, dark), best.join(", ")));
}

/**
 * Load the attention weights for the same output; null if no attention map fits.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {Attribution} attribution
 * @param {number} selected row of the attribution
 * @returns {Promise<(MapSelection & {weights: number[]}) | null>}
 */
async function loadAttention(record, store, { about, places, axes }, selected) {
  const isGenerated = about === "written";
  const place = isGenerated ? places[selected] : record.answers[places[selected]].place;
  const fits = (/** @type {AttentionMap} */ map) => {
    if (!axes.includes(map.keys)) return false;
    if (isGenerated) return map.role !== "encoder" && map.queryAxis.tokens.length === record.written.length;
    return map.role === "summary" || (place !== null && map.role === "encoder");
  };
  const { map: index, head } = store.get();
  const isSelected = record.maps[index] && fits(record.maps[index]);
  const map = isSelected ? record.maps[index] : record.maps.findLast((each) => fits(each) && each.role !== "decoder") ?? record.maps.findLast(fits);
  if (!map) return null;
  const selection = { map, head: isSelected ? head : /** @type {const} */ ("mean") };
  const query = map.role === "summary" ? 0 : place ?? 0;
  return { ...selection, weights: getVector(await loadHeadWeights(map, selection.head), query) };
}

/**
 * Create the text with each token shaded by its attention weight.
 * @param {MapSelection & {weights: number[]}} attention
 * @param {GetColour} getColour
 */
function createWeightedText({ map, head, weights }, getColour) {
  const { name, tokens } = map.keyAxis;
  return createElement("section", {}, createElement("h2", {}, "Attention"),
    createElement("p", { class: "soft small" }, `${name}: ${map.label}, ${formatHead(head, map.heads.length)}`),
    createWordRegion(`Tokens of ${name}, shaded by weight`, createShadedWords(tokens, weights, getColour)),
    createElement("p", { class: "soft small" }, `The largest weight is ${formatNumber(findMax(weights), 3)}.`));
}

/**
 * Explain what the scores sum to, and how complete they are.
 * @param {Attribution} attribution
 * @param {number} selected row of the attribution
 * @param {number[]} scores
 */
function createSummary({ method, steps, unit, values, baselines, gaps, complete }, selected, scores) {
  const sum = formatNumber(sumNumbers(scores), 3);
  const value = `${formatNumber(values[selected], 3)}${unit && ` ${unit}`}`;
  if (!baselines || !gaps) {
    return createElement("p", { class: "soft small" }, `${METHOD_NAMES[method]}: the output has ${value}. The scores sum to ${sum}.`);
  }
  const change = values[selected] - baselines[selected];
  const isLarge = !complete?.[selected];
  const warning = " This error is large. More steps make it smaller, unless the model uses hard attention, which has no gradient.";
  return createElement("p", { class: isLarge ? "banner" : "soft small" },
    `${METHOD_NAMES[method]} in ${steps} steps: the output has ${value} with all words, and ${formatNumber(baselines[selected], 3)} without words. ` +
    `The difference is ${formatNumber(change, 3)}, and the scores sum to ${sum}. The completeness error is ${formatNumber(gaps[selected], 3)}.`,
    isLarge && warning);
}

/**
 * Create the grid of the scores for all outputs.
 * @param {object} content
 * @param {Attribution} content.attribution
 * @param {AxisToken[]} content.tokens
 * @param {NumberArray} content.numbers
 * @param {number} content.selected
 * @param {(row: number) => void} content.onSelect
 * @param {(text: string) => void} content.onPoint
 * @param {boolean} content.dark
 */
function createScoreGrid({ attribution, tokens, numbers, selected, onSelect, onPoint, dark }) {
  const largest = findMaxAbs(numbers.data);
  const grid = createGrid({
    rows: attribution.names,
    columns: tokens.map(({ token }) => token),
    getColour: (i, k) => getSignedColour(largest ? getNumber(numbers, i, k) / largest : 0, dark),
    describeCell: (i, k) =>
      `${formatToken(tokens[k].token)} (${tokens[k].axis}) for ${formatToken(attribution.names[i])}: ${formatNumber(getNumber(numbers, i, k), 4)}`,
    onPoint, onSelect, selected,
    label: "Scores of all tokens",
    width: Math.min(900, innerWidth - 180),
    maxCell: 30,
  });
  return [createElement("div", { class: "grid-scroll" }, grid), createColourKey(largest, dark)];
}
