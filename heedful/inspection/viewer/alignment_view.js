/** Show the weights of one head of a map, or their mean over heads, as a heat map. */

import { findMax } from "heedful/arrays.js";
import { createCheckbox, createElement, createLabel, createTable, createTableToggle } from "heedful/dom.js";
import { formatToken } from "heedful/formatting.js";
import { createHeatmap } from "heedful/heatmap.js";
import { createRampBar } from "heedful/heatmap_drawing.js";
import { getTokens, loadHeadWeights } from "heedful/record.js";
import { createStrongestKeys } from "heedful/strongest_keys.js";
import { describeWarning } from "heedful/summary_view.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { Heatmap } from "heedful/heatmap.js" */
/** @import { HeatmapCell, HeatmapPicture } from "heedful/heatmap_drawing.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap } from "heedful/record.js" */
/** @typedef {{map: AttentionMap, weights: NumberArray, visible: NumberArray}} AlignmentScene */
/** @typedef {{marks: boolean, sums: boolean, numbers: boolean, fullScale: boolean | null}} AlignmentOptions */

const MAX_TABLE_CELLS = 2500; // larger tables contain only the largest weights of each row
const KEYS_PER_ROW = 5;
const FULL_SCALE_KEYS = 64; // with more keys, the default scale ends at the largest weight

/** Options that stay when the view is closed and opened again. @type {AlignmentOptions} */
const options = { marks: true, sums: false, numbers: false, fullScale: null };

/** @type {PageView} */
export const alignmentView = {
  id: "alignment",
  title: "Alignment",
  help:
    "Each row is a query, each column is a key. The colour of a cell is the weight that the query gives to the key. " +
    "The weights of a row sum to 1. A dot marks the largest weight of its row. A weight shows what the model read. It " +
    "does not show why the model decided as it did, because the values and all later layers count too.",
  isAvailable: (record) => record.maps.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  const place = createElement("div");
  const strongest = createElement("div");
  const warnings = createElement("div");
  const readout = createElement("output", { id: "readout", class: "readout" });
  const spoken = createElement("div", { class: "visually-hidden", "aria-live": "polite", role: "status" });
  const legend = createElement("div", { class: "legend" });
  /** @type {Heatmap | null} */ let heatmap = null;
  /** @type {AlignmentScene | null} */ let scene = null;
  let turn = 0;

  const buildPicture = (/** @type {AlignmentScene} */ { map, weights, visible }) => {
    const { query } = store.get();
    const ramp = store.getRampName();
    const hasMask = visible.data.includes(0);
    const fullScale = options.fullScale ?? map.keyAxis.tokens.length <= FULL_SCALE_KEYS;
    controls.scale.value = fullScale ? "1" : "most";
    const maxWeight = fullScale ? 1 : findMax(weights.data) || 1;
    strongest.replaceChildren(createStrongestKeys(map, weights.data, visible.data, query));
    legend.replaceChildren(
      createElement("span", {}, "0"),
      createRampBar(ramp),
      createElement("span", {}, String(Number(maxWeight.toFixed(3)))),
      createElement("span", {}, hasMask ? "· a stroke in a cell: masked" : ""),
    );
    /** @type {HeatmapPicture} */
    const picture = {
      ...options, data: weights.data, visible: hasMask ? visible.data : null, maxWeight, ramp, selected: query, highlight: store.getHighlight(),
    };
    return picture;
  };
  const redraw = () => {
    if (scene) heatmap?.show(buildPicture(scene));
  };
  const refresh = async () => {
    const { map: index, head } = store.get();
    const map = record.maps[index];
    const now = (turn += 1);
    const [weights, visible] = await Promise.all([loadHeadWeights(map, head), map.loadVisible()]);
    if (now !== turn) return;
    const hasSameAxes = heatmap && scene && scene.map.queries === map.queries && scene.map.keys === map.keys;
    scene = { map, weights, visible };
    if (!hasSameAxes) {
      heatmap?.destroy();
      const onSelect = (/** @type {number} */ query) => store.set({ query: store.get().query === query ? null : query });
      heatmap = createHeatmap(getTokens(map), { onMove: showCell, onSelect });
      place.replaceChildren(heatmap.node);
      showReadout(readout, scene, null);
    }
    const warning = describeWarning(map.measures[head === "mean" ? map.heads.length : map.heads.indexOf(head)]);
    warnings.replaceChildren(...(warning ? [createElement("p", { class: "banner", role: "note" }, warning)] : []));
    const size = weights.shape.join(" by ");
    const name = head === "mean" ? "mean of all heads" : `head ${head}`;
    heatmap?.node.setAttribute("aria-label", `${map.label}, ${name}: ${size} weights. Arrow keys move from cell to cell.`);
    if (place.isConnected) redraw();
    host.dataset.shown = `${index}/${head}`;
  };
  const showCell = (/** @type {HeatmapCell | null} */ cell, /** @type {boolean} */ byKeyboard) => {
    showReadout(readout, scene, cell);
    if (byKeyboard && cell) spoken.textContent = readout.textContent;
  };

  const controls = createControls(redraw, (factor) => heatmap?.zoom(factor));
  host.append(
    controls.node,
    warnings,
    readout,
    createElement("div", { class: "split" }, createElement("div", {}, place, createElement("div", { class: "below" }, legend)), strongest),
    spoken,
    createTableToggle(() => buildTable(/** @type {AlignmentScene} */ (scene))),
  );
  showReadout(readout, null, null);
  refresh();
  const unsubscribe = store.subscribe((state, before) => {
    if (state.map !== before.map || state.head !== before.head) refresh();
    else redraw();
  });
  return () => {
    unsubscribe();
    turn += 1;
    heatmap?.destroy();
  };
}

/**
 * @param {() => void} onChange
 * @param {(factor: number) => void} zoom
 */
function createControls(onChange, zoom) {
  const createOption = (/** @type {"marks" | "sums" | "numbers"} */ name, /** @type {string} */ text) =>
    createCheckbox(text, options[name], (checked) => {
      options[name] = checked;
      onChange();
    });
  const scale = createElement("select", { onchange: () => {
    options.fullScale = scale.value === "1";
    onChange();
  } }, createElement("option", { value: "1" }, "0 to 1"), createElement("option", { value: "most" }, "0 to the largest weight"));
  const createZoomButton = (/** @type {string} */ text, /** @type {string} */ name, /** @type {number} */ factor) =>
    createElement("button", { type: "button", "aria-label": name, title: name, onclick: () => zoom(factor) }, text);
  const zoomButtons = createElement("span", { class: "group" },
    createZoomButton("−", "Zoom out", 1 / 1.5), createZoomButton("+", "Zoom in", 1.5), createZoomButton("Fit", "Fit into the window", 0));
  const node = createElement(
    "div",
    { class: "controls" },
    createLabel("Scale", scale),
    createOption("marks", "largest of each row"),
    createOption("sums", "row sums"),
    createOption("numbers", "numbers"),
    zoomButtons,
  );
  return { node, scale };
}

/**
 * Describe the cell under the pointer or cursor.
 * @param {HTMLElement} readout
 * @param {AlignmentScene | null} scene
 * @param {HeatmapCell | null} cell
 */
function showReadout(readout, scene, cell) {
  if (!scene || !cell) {
    delete readout.dataset.value;
    readout.replaceChildren(createElement("span", { class: "soft hint" }, "Point at a cell, or move with the arrow keys, to read its weight."));
    return;
  }
  const { queries, keys } = getTokens(scene.map);
  const place = cell.q * keys.length + cell.k;
  const value = scene.weights.data[place];
  Object.assign(readout.dataset, { value, query: cell.q, key: cell.k });
  readout.replaceChildren(
    createElement("b", {}, formatToken(queries[cell.q])),
    ` (${cell.q}) attends to `,
    createElement("b", {}, formatToken(keys[cell.k])),
    ` (${cell.k}): `,
    createElement("b", {}, value.toFixed(4)),
    scene.visible.data[place] ? "" : ", masked",
  );
}

/**
 * Build a table of all weights, or of the largest weights of each row if there are too many.
 * @param {AlignmentScene} scene
 */
function buildTable({ map, weights: { data, shape: [rows, columns] } }) {
  const { queries, keys } = getTokens(map);
  const getRow = (/** @type {number} */ q) => [...data.subarray(q * columns, (q + 1) * columns)];
  if (rows * columns <= MAX_TABLE_CELLS) {
    const numbers = queries.map((token, q) => [formatToken(token), ...getRow(q).map((weight) => weight.toFixed(4))]);
    return createTable(["query \\ key", ...keys.map(formatToken)], numbers, `${map.label}: weights`);
  }
  const strongest = queries.map((token, q) => {
    const sorted = getRow(q).map((weight, k) => ({ weight, k })).sort((one, other) => other.weight - one.weight);
    return [`${q} ${formatToken(token)}`, ...sorted.slice(0, KEYS_PER_ROW).map(({ weight, k }) => `${k} ${formatToken(keys[k])} ${weight.toFixed(4)}`)];
  });
  const names = Array.from({ length: Math.min(KEYS_PER_ROW, columns) }, (_, i) => (i ? `${i + 1}.` : "largest"));
  return createTable(["query", ...names], strongest, `${map.label}: the largest weights of each query`);
}
