/** Show the generated text token by token: the attention of each step, the alternatives, and the tree of the beam. */

import { findMax, getVector, sumNumbers } from "heedful/arrays.js";
import { createBeamTree } from "heedful/beam_tree.js";
import { createBar } from "heedful/charts.js";
import { getRamp } from "heedful/colour.js";
import { createElement, createLabel, createTable, createTableToggle } from "heedful/dom.js";
import { formatHead, formatNumber, formatToken } from "heedful/formatting.js";
import { loadHeadWeights } from "heedful/record.js";
import { createShadedWords, createWordRegion } from "heedful/shaded_text.js";
import { selectMap } from "heedful/step_selection.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { InspectionRecord, TokenAlternative } from "heedful/record.js" */
/** @import { GetColour } from "heedful/shaded_text.js" */
/** @import { MapSelection } from "heedful/step_selection.js" */
/** @import { Store } from "heedful/store.js" */

const STEP_DURATION = 900; // milliseconds

/** @type {PageView} */
export const decodingView = {
  id: "decoding",
  title: "Decoding",
  help:
    "Each step generates one token. The tokens of the input are shaded by the attention weights of the step; the " +
    "largest weight has the full colour. The bars are the probabilities of the generated token and of the best " +
    "alternatives. Log-probabilities are in nats. Beam search compares their sum, divided by the length if a length " +
    "penalty is set. In the tree of the beam, a column is a step, and a path from left to right is a text.",
  isAvailable: (record) => record.written.length > 0,
  show,
};

/**
 * Select the map whose weights are shown, among the maps that have a query for each step.
 * @param {InspectionRecord} record
 * @param {Store} store
 */
function selectStepMap(record, store) {
  return selectMap(record, store, (map) => map.role !== "encoder" && map.queryAxis.tokens.length === record.written.length);
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const last = record.written.length - 1;
  const state = { step: 0, timer: 0, turn: 0 };
  const readout = createElement("output", { class: "readout" });
  const tree = record.tree.length > 1 ? createBeamTree(record, (text) => { readout.textContent = text; }) : null;
  const slider = createElement("input", { type: "range", min: 1, max: last + 1, value: 1, oninput: () => { selectStep(Number(slider.value) - 1); } });
  const progress = createElement("span", { class: "soft" });
  const createButton = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
    createElement("button", { type: "button", onclick }, text);
  const play = createButton("Play", () => (state.timer ? pausePlaying() : startPlaying()));
  const previous = createButton("Step back", () => selectStep(state.step - 1));
  const next = createButton("Step", () => selectStep(state.step + 1));
  const stage = createElement("div", { class: "decoding" });
  host.append(
    createElement("div", { class: "controls keep" }, play, previous, next, createLabel("Step", slider), progress),
    stage,
    createTableToggle(() => createTable(listColumns(record), buildTableRows(record))),
    tree ? createElement("div", {}, tree.node, readout) : createElement("p", { class: "soft" }, "This text has no tree, because no beam search generated it."),
  );

  function pausePlaying() {
    clearInterval(state.timer);
    state.timer = 0;
    play.textContent = "Play";
  }
  function startPlaying() {
    play.textContent = "Pause";
    if (state.step === last) selectStep(0);
    state.timer = setInterval(() => (state.step === last ? pausePlaying() : selectStep(state.step + 1, true)), STEP_DURATION);
  }
  function selectStep(/** @type {number} */ step, isPlaying = false) {
    if (!isPlaying && state.timer) pausePlaying();
    const query = Math.max(0, Math.min(last, step));
    const selection = selectStepMap(record, store);
    if (selection && selection.map === record.maps[store.get().map]) store.set({ query });
    state.step = query;
    draw();
  }
  async function draw() {
    const turn = ++state.turn;
    const { step } = state;
    slider.value = String(step + 1);
    slider.setAttribute("aria-valuetext", `step ${step + 1}: ${formatToken(record.written[step].token)}`);
    progress.textContent = `${step + 1} of ${last + 1}`;
    previous.disabled = step === 0;
    next.disabled = step === last;
    const selection = selectStepMap(record, store);
    const weights = selection && getVector(await loadHeadWeights(selection.map, selection.head), step);
    if (turn !== state.turn) return;
    const hasFocus = stage.contains(document.activeElement);
    const attention = selection && weights && createWeightsSection(selection, weights, getRamp(store.getRampName()));
    stage.replaceChildren(
      createElement("div", {}, createTokenSection(record, step, selectStep), attention),
      createAlternativesSection(record, step),
    );
    const current = stage.querySelector("[aria-current]");
    if (hasFocus && current instanceof HTMLElement) current.focus();
    tree?.markStep(step + 1);
  }
  function followQuery() {
    const { map, query } = store.get();
    if (query !== null && selectStepMap(record, store)?.map === record.maps[map]) state.step = query;
  }

  followQuery();
  draw();
  const unsubscribe = store.subscribe(() => {
    followQuery();
    draw();
  });
  return () => {
    pausePlaying();
    state.turn = -Infinity;
    unsubscribe();
  };
}

/**
 * Return the log-probability of the text up to a step.
 * @param {InspectionRecord} record
 * @param {number} step
 */
function sumLogProbabilities(record, step) {
  return sumNumbers(record.written.slice(0, step + 1).map((token) => token.log_probability));
}

/**
 * Return whether the model can copy tokens of its source.
 * @param {InspectionRecord} record
 */
function canCopy(record) {
  return record.written.some((token) => token.copy_probability !== null);
}

/** @param {InspectionRecord} record */
function listColumns(record) {
  return ["step", "token", "probability", "log-probability", "sum", ...(canCopy(record) ? ["copied"] : []), "alternatives"];
}

/**
 * @param {InspectionRecord} record
 * @returns {(string | number)[][]}
 */
function buildTableRows(record) {
  return record.written.map(({ token, log_probability: logProbability, alternatives, copy_probability: copied }, i) => [
    i + 1, formatToken(token), formatNumber(Math.exp(logProbability), 4), formatNumber(logProbability, 4),
    formatNumber(sumLogProbabilities(record, i), 4),
    ...(canCopy(record) ? [copied === null ? "" : formatNumber(copied, 4)] : []),
    alternatives.map(([other, each]) => `${formatToken(other)} ${formatNumber(Math.exp(each), 3)}`).join(", "),
  ]);
}

/**
 * Create a button for each generated token. The tokens of later steps are faint.
 * @param {InspectionRecord} record
 * @param {number} step
 * @param {(step: number) => void} selectStep
 */
function createTokenSection(record, step, selectStep) {
  const tokens = record.written.map(({ token }, i) =>
    createElement("button", {
      type: "button",
      class: i < step ? "word" : i === step ? "word is-current" : "word is-later",
      "aria-current": i === step ? "step" : null,
      "aria-label": `step ${i + 1}: ${formatToken(token)}`,
      "data-step": i,
      onclick: () => selectStep(i),
    }, formatToken(token)),
  );
  return createElement("section", { class: "decoding-text" }, createElement("h2", {}, "Generated text"), createElement("div", { class: "words" }, tokens));
}

/**
 * Create the text that one query attends to, shaded by weight. The largest weight has the full colour, because means of
 * many heads are small.
 * @param {MapSelection} selection
 * @param {number[]} weights of the query
 * @param {GetColour} getColour
 * @returns {HTMLElement}
 */
export function createWeightsSection({ map, head }, weights, getColour) {
  const { name, tokens } = map.keyAxis;
  return createElement(
    "section",
    { class: "decoding-attention" },
    createElement("h2", {}, "Attention"),
    createWordRegion(`Tokens of ${name}, shaded by weight`, createShadedWords(tokens, weights, getColour)),
    createElement("p", { class: "soft small" },
      `${name}: ${map.label}, ${formatHead(head, map.heads.length)}. The largest weight is ${formatNumber(findMax(weights), 3)}.`),
  );
}

/**
 * Create a list of the generated token and its alternatives.
 * @param {InspectionRecord} record
 * @param {number} step
 */
function createAlternativesSection(record, step) {
  const { token, log_probability: logProbability, alternatives, copy_probability: copied } = record.written[step];
  /** @type {TokenAlternative[]} */
  const options = alternatives.some(([other]) => other === token) ? alternatives : [[token, logProbability], ...alternatives];
  const rows = options.map(([other, each]) =>
    createElement(
      "tr",
      { class: other === token ? "is-written" : "" },
      createElement("th", { scope: "row" }, formatToken(other)),
      createElement("td", {}, createBar(Math.exp(each), formatNumber(Math.exp(each), 3), other === token ? "of-written" : "")),
      createElement("td", { class: "number" }, formatNumber(each, 3)),
    ),
  );
  const header = ["Token", "Probability", "Log-probability"].map((text) => createElement("th", { scope: "col" }, text));
  const sum = sumLogProbabilities(record, step);
  return createElement(
    "section",
    { class: "decoding-options" },
    createElement("h2", {}, `Step ${step + 1}`),
    createElement("table", { class: "bars" }, createElement("thead", {}, createElement("tr", {}, header)), createElement("tbody", {}, rows)),
    copied !== null && createElement("p", { class: "copying" },
      `Copies a token of the source with probability ${formatNumber(copied, 3)}, generates one with ${formatNumber(1 - copied, 3)}.`),
    createElement("p", { class: "soft small" },
      `Log-probability of the text up to this token: ${formatNumber(sum, 3)} nats (${formatNumber(sum / (step + 1), 3)} per token).`),
  );
}
