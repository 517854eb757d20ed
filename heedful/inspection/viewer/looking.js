/** What views share that show one step of looking at a time: which map, which step, what steps are called. */

import { css, ramp, standingOut } from "heedful/colour.js";
import { element } from "heedful/dom.js";
import { at, display, matrixOf } from "heedful/record.js";
import { written } from "heedful/strips.js";

/**
 * The map that is shown: the chosen one where it fits, else the last that does, of those to a memory before others.
 * @returns {{map: import("heedful/record.js").AttentionMap, head: number | "mean"} | null}
 */
export function fitting(record, app, fits) {
  const { map: index, head } = app.get();
  const chosen = record.maps[index];
  if (chosen && fits(chosen)) return { map: chosen, head };
  const fit = record.maps.filter(fits);
  const map = fit.findLast((each) => each.role === "cross") ?? fit[fit.length - 1];
  return map ? { map, head: "mean" } : null;
}

/** What the steps of a map are called: words with their probability, such as A(1.00), where they were written. */
export function stepNames(record, map) {
  const { tokens } = map.queryAxis;
  const wrote = map.queries === "written" && record.written.length === tokens.length;
  return tokens.map((token, i) => (wrote ? `${display(token)}(${written(Math.exp(record.written[i].log_probability))})` : display(token)));
}

/**
 * Draws again whenever something else is chosen; only the latest drawing counts.
 * @param {object} scene
 * @param {(map: import("heedful/record.js").AttentionMap) => boolean} scene.fits which maps it can show
 * @param {(now: {map: any, weights: any, step: number, names: string[], shade: Function, go: (step: number) => void}) => void} scene.draw
 * @returns {{again: () => void, stop: () => void}}
 */
export function stepping(record, app, { fits, draw }) {
  const state = { step: 0, turn: 0 };
  const again = async () => {
    const turn = ++state.turn;
    const shown = fitting(record, app, fits);
    if (!shown) return;
    const { map, head } = shown;
    const { query } = app.get();
    const own = map === record.maps[app.get().map];
    if (own && query !== null) state.step = query;
    state.step = Math.min(state.step, map.queryAxis.tokens.length - 1);
    const weights = await matrixOf(map, head);
    if (turn !== state.turn) return;
    const go = (step) => {
      state.step = step;
      if (own && app.get().query !== step) app.set({ query: step });
      else again();
    };
    draw({ map, weights, step: state.step, names: stepNames(record, map), shade: ramp(app.ramp()), go });
  };
  const unsubscribe = app.subscribe(again);
  again();
  return { again, stop: () => (unsubscribe(), (state.turn = -Infinity)) };
}

/** One row of a matrix, each weight between 0 and 1. */
export function rowAt(weights, row) {
  return Array.from({ length: weights.shape[1] }, (_, k) => Math.min(1, Math.max(0, at(weights, row, k))));
}

/** The largest of many numbers. */
export function largestOf(numbers) {
  return numbers.reduce((most, each) => Math.max(most, each), 0);
}

/** The look of a weight: its colour, and letters that stand out from it. */
export function shaded(shade, weight, most) {
  const colour = shade(most > 0 ? weight / most : 0);
  return { background: css(colour), color: standingOut(colour) };
}

/**
 * Texts below each other with a column of weights for each step, shaded; what is known to matter has a mark.
 * @param {object} table
 * @param {string} table.title of the texts
 * @param {string[]} table.texts
 * @param {string[]} table.steps
 * @param {number[][]} table.weights of each step, of each text
 * @param {number[]} [table.marked] numbers of texts
 * @param {(weight: number) => any} table.shade
 * @param {number} [table.chosen] a step
 */
export function weightTable({ title, texts, steps, weights, marked = [], shade, chosen = -1 }) {
  const most = largestOf(weights.flat());
  const cell = (step, i) =>
    element("td", { style: shaded(shade, weights[step][i], most), "data-weight": weights[step][i] }, written(weights[step][i], 3));
  const head = element("tr", {}, element("th", { scope: "col" }, title),
    steps.map((name, step) => element("th", { scope: "col", class: step === chosen ? "is-chosen" : "" }, name)));
  const rows = texts.map((text, i) => {
    const known = marked.includes(i);
    const name = [known && element("span", { class: "known" }, "● "), display(text), known && element("span", { class: "unseen" }, " (known to matter)")];
    return element("tr", { class: known ? "is-marked" : "" }, element("th", { scope: "row" }, name), steps.map((_, step) => cell(step, i)));
  });
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": title },
    element("table", { class: "numbers weights" }, element("thead", {}, head), element("tbody", {}, rows)));
}
