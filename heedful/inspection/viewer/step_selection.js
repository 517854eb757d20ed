/** Share what views with one query at a time need: which map and which query are shown, and the names of the steps. */

import { getRamp } from "heedful/colour.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { loadHeadWeights } from "heedful/record.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { Colour } from "heedful/colour.js" */
/** @import { AttentionMap, InspectionRecord } from "heedful/record.js" */
/** @import { Store } from "heedful/store.js" */
/** @typedef {{map: AttentionMap, head: number | "mean"}} MapSelection */
/**
 * @typedef {object} StepScene
 * @property {AttentionMap} map
 * @property {NumberArray} weights [Q, K]
 * @property {number} step selected query
 * @property {string[]} names of the steps
 * @property {(weight: number) => Colour} getColour of a weight
 * @property {(step: number) => void} selectStep
 */

/**
 * Select the map that a view shows: the selected map if it fits, else the last one that fits, cross attention first.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {(map: AttentionMap) => boolean} fits
 * @returns {MapSelection | null} null if no map fits
 */
export function selectMap(record, store, fits) {
  const { map: index, head } = store.get();
  const selected = record.maps[index];
  if (selected && fits(selected)) return { map: selected, head };
  const fitting = record.maps.filter(fits);
  const map = fitting.findLast((each) => each.role === "cross") ?? fitting[fitting.length - 1];
  return map ? { map, head: "mean" } : null;
}

/**
 * Return the names of the queries of a map. Generated tokens have their probability, as in A(1.00).
 * @param {InspectionRecord} record
 * @param {AttentionMap} map
 * @returns {string[]}
 */
export function formatStepNames(record, map) {
  const { tokens } = map.queryAxis;
  const isGenerated = map.queries === "written" && record.written.length === tokens.length;
  return tokens.map((token, i) =>
    (isGenerated ? `${formatToken(token)}(${formatNumber(Math.exp(record.written[i].log_probability))})` : formatToken(token)));
}

/**
 * Draw the selected step, and draw again when the selection changes. An outdated drawing is never shown.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {object} options
 * @param {(map: AttentionMap) => boolean} options.fits whether the view can show a map
 * @param {(scene: StepScene) => void} options.draw
 * @returns {{redraw: () => void, stop: () => void}}
 */
export function followSteps(record, store, { fits, draw }) {
  const state = { step: 0, turn: 0 };
  const redraw = async () => {
    const turn = ++state.turn;
    const selection = selectMap(record, store, fits);
    if (!selection) return;
    const { map, head } = selection;
    const { query } = store.get();
    const isSelected = map === record.maps[store.get().map];
    if (isSelected && query !== null) state.step = query;
    state.step = Math.min(state.step, map.queryAxis.tokens.length - 1);
    const weights = await loadHeadWeights(map, head);
    if (turn !== state.turn) return;
    const selectStep = (/** @type {number} */ step) => {
      state.step = step;
      if (isSelected && store.get().query !== step) store.set({ query: step });
      else redraw();
    };
    draw({ map, weights, step: state.step, names: formatStepNames(record, map), getColour: getRamp(store.getRampName()), selectStep });
  };
  const unsubscribe = store.subscribe(redraw);
  redraw();
  return { redraw, stop: () => {
    unsubscribe();
    state.turn = -Infinity;
  } };
}
