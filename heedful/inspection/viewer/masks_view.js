/** Show each different mask of the record once, with the attention maps that use it. */

import { createGrid } from "heedful/cell_grid.js";
import { createElement, createTable, createTableToggle } from "heedful/dom.js";
import { capitalizeText, formatToken } from "heedful/formatting.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { Colour } from "heedful/colour.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap } from "heedful/record.js" */
/** @typedef {Record<"light" | "dark", Colour>} ThemeColours */
/** @typedef {{visible: NumberArray, maps: AttentionMap[]}} MaskGroup */

/** @type {ThemeColours} */
const VISIBLE_COLOURS = { light: [42, 91, 215], dark: [92, 130, 214] };
/** @type {ThemeColours} */
const MASKED_COLOURS = { light: [232, 234, 240], dark: [38, 40, 49] };

/** @type {PageView} */
export const masksView = {
  id: "masks",
  title: "Masks",
  help:
    "A row is a query, a column is a key. A query can attend to the filled cells. All other cells are masked: their " +
    "weight is 0 for every score. Attention maps with the same mask share a picture.",
  controls: [],
  isAvailable: (record) => record.maps.length > 0,
  show,
};

/**
 * Return the kind of a mask, from its elements.
 * @param {{shape: number[], data: ArrayLike<number>}} visible [Q, K]
 * @returns {string}
 */
export function describeMask({ shape: [queries, keys], data }) {
  const matches = (/** @type {(q: number, k: number) => boolean} */ rule) =>
    checkCells(queries, keys, (q, k) => Boolean(data[q * keys + k]) === rule(q, k));
  if (matches(() => true)) return "every key is visible";
  if (matches(() => false)) return "no key is visible";
  const shift = keys - queries;
  if (shift >= 0 && matches((q, k) => k <= q + shift)) return "causal: the token itself and all before it";
  const { before, after } = measureReach(queries, keys, data);
  if (matches((q, k) => k - q >= -before && k - q <= after)) {
    if (before === 0 && after === 0) return "only the token itself";
    if (before === after) return `window of ${before} tokens on each side`;
    return after === 0 ? `causal window of ${before} tokens before` : `window of ${before} before and ${after} after`;
  }
  const firstRow = Array.from({ length: keys }, (_, k) => Boolean(data[k]));
  if (matches((q, k) => firstRow[k])) return `${firstRow.filter((each) => !each).length} keys are masked for all queries`;
  return "another kind of mask";
}

/**
 * Return whether all cells fulfil a condition.
 * @param {number} queries
 * @param {number} keys
 * @param {(q: number, k: number) => boolean} condition
 */
function checkCells(queries, keys, condition) {
  for (let q = 0; q < queries; q++) for (let k = 0; k < keys; k++) if (!condition(q, k)) return false;
  return true;
}

/**
 * Return how far the most distant visible keys are before and after their queries.
 * @param {number} queries
 * @param {number} keys
 * @param {ArrayLike<number>} data
 */
function measureReach(queries, keys, data) {
  let [before, after] = [-Infinity, -Infinity];
  for (let q = 0; q < queries; q++) {
    for (let k = 0; k < keys; k++) {
      if (!data[q * keys + k]) continue;
      before = Math.max(before, q - k);
      after = Math.max(after, k - q);
    }
  }
  return { before, after };
}

/**
 * Group maps that have the same axes and the same mask.
 * @param {AttentionMap[]} maps
 * @returns {Promise<MaskGroup[]>}
 */
async function groupMaps(maps) {
  /** @type {MaskGroup[]} */ const groups = [];
  for (const map of maps) {
    const visible = await map.loadVisible();
    const hasSameMask = (/** @type {MaskGroup} */ { visible: { data }, maps: [other] }) =>
      other.queries === map.queries && other.keys === map.keys && data.every((each, i) => each === visible.data[i]);
    const group = groups.find(hasSameMask);
    if (group) group.maps.push(map);
    else groups.push({ visible, maps: [map] });
  }
  return groups;
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const readout = createElement("output", { class: "readout" }, "\u00a0");
  const place = createElement("div", { class: "masks" });
  const onPoint = (/** @type {string} */ text) => { readout.textContent = text; };
  host.append(readout, place);
  let isClosed = false;
  const draw = async () => {
    const groups = await groupMaps(record.maps);
    if (!isClosed) place.replaceChildren(...groups.map((group) => createMaskCard(group, store.isDark(), onPoint)));
  };
  draw();
  const unsubscribe = store.subscribe((now, before) => {
    if (now.theme !== before.theme || now === before) draw();
  });
  return () => {
    isClosed = true;
    unsubscribe();
  };
}

/**
 * @param {MaskGroup} group
 * @param {boolean} dark
 * @param {(text: string) => void} onPoint
 */
function createMaskCard({ visible, maps }, dark, onPoint) {
  const [{ queryAxis, keyAxis }] = maps;
  const [queries, keys] = [queryAxis.tokens, keyAxis.tokens];
  const isVisible = (/** @type {number} */ q, /** @type {number} */ k) => Boolean(visible.data[q * keys.length + k]);
  const theme = dark ? "dark" : "light";
  const count = visible.data.reduce((sum, each) => sum + (each ? 1 : 0), 0);
  const name = describeMask(visible);
  const picture = createGrid({
    rows: queries,
    columns: keys,
    getColour: (q, k) => (isVisible(q, k) ? VISIBLE_COLOURS : MASKED_COLOURS)[theme],
    describeCell: (q, k) => `${formatToken(queries[q])} (${q}) ${isVisible(q, k) ? "can attend to" : "cannot attend to"} ${formatToken(keys[k])} (${k})`,
    onPoint,
    label: `Mask: ${name}`,
    width: 400,
    maxCell: 18,
  });
  const rows = queries.map((token, q) => [formatToken(token), keys.map((key, k) => (isVisible(q, k) ? formatToken(key) : "·")).join(" ")]);
  return createElement(
    "section",
    { class: "mask-card" },
    createElement("h2", {}, capitalizeText(name)),
    createElement("p", { class: "soft" }, maps.map((map) => map.label).join(", ")),
    createElement("p", { class: "soft small" }, `${queryAxis.name} to ${keyAxis.name}: ${count} of ${queries.length * keys.length} pairs are visible`),
    createElement("div", { class: "grid-scroll" }, picture),
    createTableToggle(() => createTable(["query", "visible keys"], rows)),
  );
}
