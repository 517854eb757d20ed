/** Show the attention of each head as lines between tokens. */

import { argmax, getSubarray } from "heedful/arrays.js";
import { getHeadColour } from "heedful/colour.js";
import { createElement, createTable, createTableToggle } from "heedful/dom.js";
import { formatToken } from "heedful/formatting.js";
import { computeLayout, computeThreshold, drawLines, drawTokens } from "heedful/head_lines.js";
import { getTokens } from "heedful/record.js";
import { createScroller } from "heedful/scroller.js";
import { getNeighbourMap } from "heedful/shortcuts.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { HeadLines, LinesLayout, SideToken } from "heedful/head_lines.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, InspectionRecord } from "heedful/record.js" */
/** @import { Scroller } from "heedful/scroller.js" */
/** @import { Store } from "heedful/store.js" */
/**
 * @typedef {object} HeadsScene
 * @property {AttentionMap} map
 * @property {NumberArray} weights
 * @property {Set<number>} shownHeads heads whose lines are drawn
 * @property {number | null} threshold set by the user; null for the default
 * @property {{heads: string, threshold: number}} [defaultThreshold] of these heads, so that it is computed once
 * @property {SideToken | null} pointed token under the pointer or cursor
 */

const MAX_LINES = 3000;

/** @type {PageView} */
export const headsView = {
  id: "heads",
  title: "Heads",
  help:
    "Queries are on the left, keys are on the right. A line is a weight: the larger the weight, the more opaque the " +
    "line. The colour of a line shows its head. Lines of several heads between the same tokens run side by side. Weak " +
    "lines are left out; the more heads are shown, the more lines are left out. “Lines from” changes this limit. Point at " +
    "a token, or move with the arrow keys, to see only its lines, and its weight for every token of the other side.",
  controls: ["map"],
  isAvailable: (record) => record.maps.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  /** @type {HeadsScene | null} */ let scene = null;
  let turn = 0;
  const readout = createElement("output", { class: "readout" });
  const spoken = createElement("div", { class: "visually-hidden", "aria-live": "polite", role: "status" });
  const controls = createControls(record, store, () => scene, () => redraw());
  let layout = computeLayout([""], [""], 800, 1);

  const scroller = createScroller((shown) => {
    if (!scene) return;
    const lines = buildLines(scene, store);
    drawLines(shown, layout, lines);
    const { queries, keys, heads } = scene.map;
    drawTokens(shown, layout, lines, { queries: `${queries} (queries)`, keys: `${keys} (keys)`, heads: heads.length });
  });
  const redraw = () => {
    controls.refresh();
    scroller.redraw();
  };
  const moveCursor = (/** @type {SideToken | null} */ token, byKeyboard = false) => {
    if (!scene || (token?.side === scene.pointed?.side && token?.place === scene.pointed?.place)) return;
    scene.pointed = token;
    if (token && byKeyboard) scroller.scrollTo({ x: 0, y: token.place * layout.row, width: 0, height: layout.row }, { left: 0, top: layout.top });
    scroller.redraw();
    readout.replaceChildren(...describeToken(scene));
    if (byKeyboard) spoken.textContent = readout.textContent;
  };
  const refresh = async () => {
    const { map: index, head } = store.get();
    const map = record.maps[index];
    const now = (turn += 1);
    const weights = await map.loadWeights();
    if (now !== turn) return;
    const hasSameHeads = scene?.map.heads.join() === map.heads.join();
    const shownHeads = scene && hasSameHeads ? scene.shownHeads : new Set(head === "mean" ? map.heads : [head]);
    scene = { map, weights, shownHeads, threshold: null, pointed: null };
    const { queries, keys } = getTokens(map);
    layout = computeLayout(queries, keys, host.clientWidth, map.heads.length);
    scroller.resize(layout.width, layout.height);
    Object.assign(scroller.node.dataset, layout);
    scroller.node.setAttribute("aria-label", `${map.label}: ${queries.length} queries attend to ${keys.length} keys. Arrow keys move between tokens.`);
    readout.replaceChildren(...describeToken(scene));
    redraw();
    host.dataset.shown = String(index);
  };
  const onSelect = (/** @type {number} */ query) => store.set({ query: store.get().query === query ? null : query });
  addListeners(scroller, () => ({ layout, scene }), moveCursor, onSelect);
  host.append(controls.node, readout, scroller.node, spoken, createTableToggle(() => buildTable(/** @type {HeadsScene} */ (scene))));
  refresh();
  const unsubscribe = store.subscribe((state, before) => {
    if (scene && state.head !== before.head) scene.shownHeads = new Set(state.head === "mean" ? scene.map.heads : [state.head]);
    if (state.map !== before.map) refresh();
    else redraw();
  });
  return () => {
    unsubscribe();
    turn += 1;
    scroller.destroy();
  };
}

/**
 * Return the weights of the shown heads.
 * @param {HeadsScene} scene
 */
function getShownHeads({ map, weights, shownHeads }) {
  return map.heads.flatMap((head, i) => (shownHeads.has(head) ? [{ head, data: getSubarray(weights, i).data }] : []));
}

/** @param {HeadsScene} scene */
function getThreshold(scene) {
  if (scene.threshold !== null) return scene.threshold;
  const heads = [...scene.shownHeads].sort().join();
  if (scene.defaultThreshold?.heads !== heads) {
    scene.defaultThreshold = { heads, threshold: computeThreshold(getShownHeads(scene), MAX_LINES) };
  }
  return scene.defaultThreshold.threshold;
}

/**
 * @param {HeadsScene} scene
 * @param {Store} store
 * @returns {HeadLines}
 */
function buildLines(scene, store) {
  const { query } = store.get();
  /** @type {SideToken | null} */
  const selected = query === null ? null : { side: "query", place: query };
  return { ...getTokens(scene.map), heads: getShownHeads(scene), threshold: getThreshold(scene), only: scene.pointed ?? selected };
}

/**
 * Create the buttons of heads and layers, and the slider of the threshold.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {() => HeadsScene | null} getScene
 * @param {() => void} onChange
 */
function createControls(record, store, getScene, onChange) {
  const createLayerButton = (/** @type {string} */ text, /** @type {number} */ step) =>
    createElement("button", { type: "button", onclick: () => store.set({ map: getNeighbourMap(record, store, step) }) }, text);
  const [previous, next] = [createLayerButton("‹ layer", -1), createLayerButton("layer ›", 1)];
  const chips = createElement("div", { class: "chips", role: "group", "aria-label": "Heads" });
  const slider = createElement("input", { type: "range", min: 0, max: 50, step: 1, oninput: () => {
    const scene = getScene();
    if (scene) scene.threshold = Math.max(0.001, Number(slider.value) / 100);
    onChange();
  } });
  const percentage = createElement("span", { class: "soft" });
  const all = createElement("button", { type: "button", class: "chip", onclick: () => {
    const scene = getScene();
    if (scene) scene.shownHeads = new Set(scene.shownHeads.size === scene.map.heads.length ? [] : scene.map.heads);
    onChange();
  } }, "all");
  const refresh = () => {
    const scene = getScene();
    if (!scene) return;
    previous.disabled = getNeighbourMap(record, store, -1) === store.get().map;
    next.disabled = getNeighbourMap(record, store, 1) === store.get().map;
    const focused = [...chips.children].findIndex((chip) => chip === document.activeElement);
    const buttons = [all, ...scene.map.heads.map((head) => createHeadChip(scene, head, onChange))];
    chips.replaceChildren(...buttons);
    buttons[focused]?.focus();
    slider.value = String(Math.round(getThreshold(scene) * 100));
    slider.setAttribute("aria-valuetext", `${slider.value} percent`);
    percentage.textContent = `${slider.value} %`;
  };
  const threshold = createElement("label", { class: "labelled" }, createElement("span", {}, "Lines from"), slider, percentage);
  return { node: createElement("div", { class: "controls" }, createElement("span", { class: "group" }, previous, next), chips, threshold), refresh };
}

/**
 * Create the button that shows or hides a head.
 * @param {HeadsScene} scene
 * @param {number} head
 * @param {() => void} onChange
 */
function createHeadChip(scene, head, onChange) {
  const swatch = createElement("span", { class: "swatch", style: { background: getHeadColour(head) } });
  return createElement("button", {
    type: "button",
    class: "chip",
    "aria-pressed": String(scene.shownHeads.has(head)),
    "aria-label": `head ${head}`,
    onclick: () => {
      if (!scene.shownHeads.delete(head)) scene.shownHeads.add(head);
      onChange();
    },
  }, swatch, head);
}

/**
 * Move the cursor and select queries by pointer and keyboard.
 * @param {Scroller} scroller
 * @param {() => {layout: LinesLayout, scene: HeadsScene | null}} getState
 * @param {(token: SideToken | null, byKeyboard?: boolean) => void} moveCursor
 * @param {(query: number) => void} onSelect
 */
function addListeners(scroller, getState, moveCursor, onSelect) {
  const { node } = scroller;
  node.tabIndex = 0;
  node.setAttribute("role", "application");
  node.setAttribute("aria-roledescription", "lines between tokens");
  /**
   * @param {MouseEvent} event
   * @returns {SideToken | null}
   */
  const getTokenAt = (event) => {
    const { layout, scene } = getState();
    const { x, y } = scroller.getPosition(event);
    const left = x + node.scrollLeft;
    const place = Math.floor((y - layout.top + node.scrollTop) / layout.row);
    const side = left <= layout.left ? "query" : left >= layout.right ? "key" : null;
    const count = scene && side ? getTokens(scene.map)[side === "query" ? "queries" : "keys"].length : 0;
    return side && y >= layout.top - 6 && place >= 0 && place < count ? { side, place } : null;
  };
  node.addEventListener("pointermove", (event) => moveCursor(getTokenAt(event)));
  node.addEventListener("pointerleave", () => moveCursor(null));
  node.addEventListener("click", (event) => {
    const token = getTokenAt(event);
    if (token?.side === "query") onSelect(token.place);
  });
  node.addEventListener("keydown", (event) => {
    const { scene } = getState();
    if (!scene || event.ctrlKey || event.metaKey || event.altKey) return;
    const { side, place } = scene.pointed ?? { side: /** @type {const} */ ("query"), place: -1 };
    const counts = { query: getTokens(scene.map).queries.length, key: getTokens(scene.map).keys.length };
    const moveTo = (/** @type {"query" | "key"} */ nextSide, /** @type {number} */ wanted) =>
      moveCursor({ side: nextSide, place: Math.min(counts[nextSide] - 1, Math.max(0, wanted)) }, true);
    if (event.key === "ArrowDown") moveTo(side, place + 1);
    else if (event.key === "ArrowUp") moveTo(side, place - 1);
    else if (event.key === "ArrowRight") moveTo("key", place);
    else if (event.key === "ArrowLeft") moveTo("query", place);
    else if (event.key === "Home") moveTo(side, 0);
    else if (event.key === "End") moveTo(side, Infinity);
    else if (event.key === "Enter" && side === "query" && place >= 0) onSelect(place);
    else if (event.key === "Escape") moveCursor(null, true);
    else return;
    event.preventDefault();
  });
}

/**
 * Describe the largest weights of the token under the pointer or cursor.
 * @param {HeadsScene} scene
 * @returns {(string | Node)[]}
 */
function describeToken(scene) {
  const { pointed, map } = scene;
  if (!pointed) return [createElement("span", { class: "soft hint" }, "Point at a token to see only its lines. Click a query to keep them.")];
  const { queries, keys } = getTokens(map);
  const isQuery = pointed.side === "query";
  const others = isQuery ? keys : queries;
  const weights = getShownHeads(scene).flatMap(({ head, data }) => others.map((token, other) => {
    const [q, k] = isQuery ? [pointed.place, other] : [other, pointed.place];
    return { head, token, weight: data[q * keys.length + k] };
  }));
  const best = weights.sort((one, other) => other.weight - one.weight).slice(0, 3);
  const parts = best.map(({ head, token, weight }) => `${formatToken(token)} ${weight.toFixed(4)} (head ${head})`);
  const name = createElement("b", {}, formatToken((isQuery ? queries : keys)[pointed.place]));
  if (parts.length === 0) return [name, ": no head is shown"];
  return [name, isQuery ? " attends most to " : " gets most attention from ", parts.join(", ")];
}

/** @param {HeadsScene} scene */
function buildTable(scene) {
  const { queries, keys } = getTokens(scene.map);
  const heads = getShownHeads(scene);
  const rows = queries.map((token, q) => [`${q} ${formatToken(token)}`, ...heads.map(({ data }) => {
    const row = data.subarray(q * keys.length, (q + 1) * keys.length);
    const best = argmax(row);
    return `${best} ${formatToken(keys[best])} ${row[best].toFixed(4)}`;
  })]);
  return createTable(["query", ...heads.map(({ head }) => `head ${head}`)], rows, `${scene.map.label}: the largest weight of each query`);
}
