/** A matrix of weights that one can point at, walk through by keys, zoom and scroll; its labels stay in sight. */

import { blockOf, drawCells, drawLabels, imageOf, margins } from "heedful/cells.js";
import { scroller } from "heedful/scroller.js";

/** @typedef {import("heedful/cells.js").Picture} Picture */
/** @typedef {{q: number, k: number}} Cell */
/**
 * @typedef {object} Matrix
 * @property {HTMLElement} node
 * @property {(picture: Picture) => void} show
 * @property {() => void} redraw
 * @property {(factor: number) => void} zoom 0 fits the whole matrix into the window
 * @property {() => void} stop
 */

const LARGEST_FIT = 42;
const LARGEST = 72;
const STEPS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  Home: [0, -Infinity], End: [0, Infinity], PageUp: [-10, 0], PageDown: [10, 0],
});

/**
 * @param {{queries: string[], keys: string[]}} tokens
 * @param {object} events
 * @param {(cell: Cell | null, byKey: boolean) => void} events.point a cell is pointed at, or none any more
 * @param {(query: number) => void} events.choose a cell of this row is clicked, or Enter pressed on it
 * @returns {Matrix}
 */
export function createMatrix({ queries, keys }, { point, choose }) {
  const layout = { rows: queries.length, columns: keys.length, cell: 0, left: 0, top: 0, right: 0 };
  /** @type {Picture | null} */ let picture = null;
  /** @type {import("heedful/cells.js").Image | null} */ let image = null;
  /** @type {Cell | null} */ let cursor = null;
  let largest = /** @type {number[]} */ ([]);
  let totals = /** @type {number[]} */ ([]);
  let zoomed = 0; // side of a cell, where it does not follow the window
  const paper = matchMedia("print");

  const frame = scroller((shown) => {
    if (!picture || !image) return;
    if (Math.abs(wanted() - layout.cell) > 0.01) resize(wanted());
    if (image.block !== blockOf(layout)) image = imageOf(picture, layout);
    drawCells(shown, layout, picture, image, largest, coloursOf(frame.node));
    drawLabels(shown, layout, picture, { queries, keys, totals, cursor });
  });
  const { node } = frame;
  node.tabIndex = 0;
  node.setAttribute("role", "application");
  node.setAttribute("aria-roledescription", "heat map");

  const fit = () => {
    const room = Math.min(0.78 * innerHeight, 900);
    const width = (node.closest(".view")?.clientWidth || 800) - layout.left - layout.right;
    return Math.max(0.3, Math.min(LARGEST_FIT, width / layout.columns, (room - layout.top) / layout.rows));
  };
  const wanted = () => (zoomed && !paper.matches ? zoomed : fit()); // paper does not scroll, so all of it shows
  const resize = (/** @type {number} */ cell) => {
    layout.cell = cell;
    frame.resize(layout.left + layout.columns * cell + layout.right, layout.top + layout.rows * cell + 4);
    Object.assign(node.dataset, { cell, left: layout.left, top: layout.top });
  };
  const cellAt = (/** @type {MouseEvent} */ event) => {
    const { x, y } = frame.place(event);
    const [q, k] = [(y - layout.top + node.scrollTop) / layout.cell, (x - layout.left + node.scrollLeft) / layout.cell];
    const inside = x >= layout.left && y >= layout.top && q >= 0 && k >= 0 && q < layout.rows && k < layout.columns;
    return inside ? { q: Math.floor(q), k: Math.floor(k) } : null;
  };
  const move = (/** @type {Cell | null} */ cell, byKey = false) => {
    if (cell?.q === cursor?.q && cell?.k === cursor?.k) return;
    cursor = cell;
    if (cell && byKey) {
      const { cell: side } = layout;
      frame.reveal({ x: cell.k * side, y: cell.q * side, width: side, height: side }, layout);
    }
    frame.redraw();
    point(cell, byKey);
  };
  const zoom = (/** @type {number} */ factor) => {
    const before = layout.cell;
    zoomed = factor && Math.min(LARGEST, Math.max(fit(), before * factor));
    resize(wanted());
    node.scrollLeft *= layout.cell / before;
    node.scrollTop *= layout.cell / before;
    frame.redraw();
  };
  listen(node, { cellAt, move, zoom, choose, now: () => cursor, layout });

  return {
    node,
    zoom,
    redraw: frame.redraw,
    stop: frame.stop,
    show: (next) => {
      if (!picture || picture.sums !== next.sums) Object.assign(layout, margins(queries, keys, next.sums));
      picture = next;
      ({ largest, totals } = rowsOf(next.data, layout));
      resize(wanted());
      image = imageOf(next, layout);
      frame.redraw();
      if (cursor) point(cursor, false);
    },
  };
}

/**
 * @param {HTMLElement} node
 * @param {object} to
 * @param {(event: MouseEvent) => Cell | null} to.cellAt
 * @param {(cell: Cell | null, byKey?: boolean) => void} to.move
 * @param {(factor: number) => void} to.zoom
 * @param {(query: number) => void} to.choose
 * @param {() => Cell | null} to.now
 * @param {{rows: number, columns: number}} to.layout
 */
function listen(node, { cellAt, move, zoom, choose, now, layout }) {
  node.addEventListener("pointermove", (event) => move(cellAt(event)));
  node.addEventListener("pointerleave", () => move(null));
  node.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) choose(cell.q);
  });
  node.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls; browsers report a pinch as a wheel with Ctrl
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300));
  }, { passive: false });
  node.addEventListener("keydown", (event) => {
    const cursor = now();
    const step = STEPS[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step) move(cursor ? moved(cursor, step, layout) : { q: 0, k: 0 }, true);
    else if (event.key === "Enter" && cursor) choose(cursor.q);
    else if (event.key === "Escape") move(null, true);
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") zoom(0);
    else return;
    event.preventDefault();
  });
}

/**
 * @param {Cell} cell
 * @param {[number, number]} step
 * @param {{rows: number, columns: number}} layout
 * @returns {Cell}
 */
function moved({ q, k }, [down, right], { rows, columns }) {
  const within = (/** @type {number} */ place, /** @type {number} */ count) => Math.min(count - 1, Math.max(0, place));
  return { q: within(q + down, rows), k: within(k + right, columns) };
}

/**
 * Of each row, its sum and the place of its largest weight, -1 where all are equal.
 * @param {Float32Array} data
 * @param {{rows: number, columns: number}} layout
 */
function rowsOf(data, { rows, columns }) {
  const [largest, totals] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  for (let q = 0; q < rows; q += 1) {
    const row = data.subarray(q * columns, (q + 1) * columns);
    let [best, least, sum] = [0, Infinity, 0];
    for (let k = 0; k < columns; k += 1) {
      sum += row[k];
      if (row[k] > row[best]) best = k;
      least = Math.min(least, row[k]);
    }
    largest.push(columns > 1 && row[best] === least ? -1 : best);
    totals.push(sum);
  }
  return { largest, totals };
}

/**
 * Colours of the page as it is now, for a canvas.
 * @param {HTMLElement} node
 */
function coloursOf(node) {
  const style = getComputedStyle(node);
  return { paper: style.backgroundColor, line: style.borderTopColor };
}
