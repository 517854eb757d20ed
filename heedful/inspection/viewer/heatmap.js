/** Create a heat map of weights with a cursor, zoom and scrolling; its labels stay visible. */

import { drawCells, drawLabels, getBlockSize, measureMargins, renderImage } from "heedful/heatmap_drawing.js";
import { createScroller } from "heedful/scroller.js";

/** @import { CanvasColours, HeatmapCell, HeatmapImage, HeatmapPicture } from "heedful/heatmap_drawing.js" */
/**
 * @typedef {object} Heatmap
 * @property {HTMLElement} node
 * @property {(picture: HeatmapPicture) => void} show
 * @property {(factor: number) => void} zoom 0 fits the whole matrix into the window
 * @property {() => void} destroy
 */

const MAX_FIT_CELL = 42; // side of a cell if the matrix fits into the window
const MAX_CELL = 72;
const STEPS = /** @type {Record<string, [number, number]>} */ ({
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  Home: [0, -Infinity], End: [0, Infinity], PageUp: [-10, 0], PageDown: [10, 0],
});

/**
 * @param {{queries: string[], keys: string[]}} tokens
 * @param {object} events
 * @param {(cell: HeatmapCell | null, byKeyboard: boolean) => void} events.onMove is called when the cursor moves to a
 *   cell, or leaves all cells
 * @param {(query: number) => void} events.onSelect is called when a row is selected by click or Enter
 * @returns {Heatmap}
 */
export function createHeatmap({ queries, keys }, { onMove, onSelect }) {
  const layout = { rows: queries.length, columns: keys.length, cell: 0, left: 0, top: 0, right: 0 };
  /** @type {HeatmapPicture | null} */ let picture = null;
  /** @type {HeatmapImage | null} */ let image = null;
  /** @type {HeatmapCell | null} */ let cursor = null;
  let largest = /** @type {number[]} */ ([]);
  let totals = /** @type {number[]} */ ([]);
  let zoomedCell = 0; // side of a cell after zooming; 0 if the matrix fits into the window
  const print = matchMedia("print");

  const scroller = createScroller((shown) => {
    if (!picture || !image) return;
    if (Math.abs(computeCell() - layout.cell) > 0.01) resize(computeCell());
    if (image.block !== getBlockSize(layout)) image = renderImage(picture, layout);
    drawCells(shown, layout, picture, image, largest, getCanvasColours(scroller.node));
    drawLabels(shown, layout, picture, { queries, keys, totals, cursor });
  });
  const { node } = scroller;
  node.tabIndex = 0;
  node.setAttribute("role", "application");
  node.setAttribute("aria-roledescription", "heat map");

  const computeFit = () => {
    const room = Math.min(0.78 * innerHeight, 900);
    const width = (node.closest(".view")?.clientWidth || 800) - layout.left - layout.right;
    return Math.max(0.3, Math.min(MAX_FIT_CELL, width / layout.columns, (room - layout.top) / layout.rows));
  };
  const computeCell = () => (zoomedCell && !print.matches ? zoomedCell : computeFit()); // print shows the whole matrix
  const resize = (/** @type {number} */ cell) => {
    layout.cell = cell;
    scroller.resize(layout.left + layout.columns * cell + layout.right, layout.top + layout.rows * cell + 4);
    Object.assign(node.dataset, { cell, left: layout.left, top: layout.top });
  };
  const getCellAt = (/** @type {MouseEvent} */ event) => {
    const { x, y } = scroller.getPosition(event);
    const [q, k] = [(y - layout.top + node.scrollTop) / layout.cell, (x - layout.left + node.scrollLeft) / layout.cell];
    const isInside = x >= layout.left && y >= layout.top && q >= 0 && k >= 0 && q < layout.rows && k < layout.columns;
    return isInside ? { q: Math.floor(q), k: Math.floor(k) } : null;
  };
  const moveCursor = (/** @type {HeatmapCell | null} */ cell, byKeyboard = false) => {
    if (cell?.q === cursor?.q && cell?.k === cursor?.k) return;
    cursor = cell;
    if (cell && byKeyboard) {
      const { cell: side } = layout;
      scroller.scrollTo({ x: cell.k * side, y: cell.q * side, width: side, height: side }, layout);
    }
    scroller.redraw();
    onMove(cell, byKeyboard);
  };
  const zoom = (/** @type {number} */ factor) => {
    const before = layout.cell;
    zoomedCell = factor && Math.min(MAX_CELL, Math.max(computeFit(), before * factor));
    resize(computeCell());
    node.scrollLeft *= layout.cell / before;
    node.scrollTop *= layout.cell / before;
    scroller.redraw();
  };
  addListeners(node, { getCellAt, moveCursor, zoom, onSelect, getCursor: () => cursor, layout });

  return {
    node,
    zoom,
    destroy: scroller.destroy,
    show: (next) => {
      if (!picture || picture.sums !== next.sums) Object.assign(layout, measureMargins(queries, keys, next.sums));
      picture = next;
      ({ largest, totals } = measureRows(next.data, layout));
      resize(computeCell());
      image = renderImage(next, layout);
      scroller.redraw();
      if (cursor) onMove(cursor, false);
    },
  };
}

/**
 * Move the cursor, zoom and select rows by pointer and keyboard.
 * @param {HTMLElement} node
 * @param {object} heatmap
 * @param {(event: MouseEvent) => HeatmapCell | null} heatmap.getCellAt
 * @param {(cell: HeatmapCell | null, byKeyboard?: boolean) => void} heatmap.moveCursor
 * @param {(factor: number) => void} heatmap.zoom
 * @param {(query: number) => void} heatmap.onSelect
 * @param {() => HeatmapCell | null} heatmap.getCursor
 * @param {{rows: number, columns: number}} heatmap.layout
 */
function addListeners(node, { getCellAt, moveCursor, zoom, onSelect, getCursor, layout }) {
  node.addEventListener("pointermove", (event) => moveCursor(getCellAt(event)));
  node.addEventListener("pointerleave", () => moveCursor(null));
  node.addEventListener("click", (event) => {
    const cell = getCellAt(event);
    if (cell) onSelect(cell.q);
  });
  node.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls; browsers report a pinch as a wheel with Ctrl
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300));
  }, { passive: false });
  node.addEventListener("keydown", (event) => {
    const cursor = getCursor();
    const step = STEPS[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (step) moveCursor(cursor ? moveCell(cursor, step, layout) : { q: 0, k: 0 }, true);
    else if (event.key === "Enter" && cursor) onSelect(cursor.q);
    else if (event.key === "Escape") moveCursor(null, true);
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") zoom(0);
    else return;
    event.preventDefault();
  });
}

/**
 * Return the cell that lies some steps away, inside the matrix.
 * @param {HeatmapCell} cell
 * @param {[down: number, right: number]} step
 * @param {{rows: number, columns: number}} layout
 * @returns {HeatmapCell}
 */
function moveCell({ q, k }, [down, right], { rows, columns }) {
  const clamp = (/** @type {number} */ place, /** @type {number} */ count) => Math.min(count - 1, Math.max(0, place));
  return { q: clamp(q + down, rows), k: clamp(k + right, columns) };
}

/**
 * Compute the sum of each row, and the column of its largest weight: -1 if all its weights are equal.
 * @param {Float32Array} data
 * @param {{rows: number, columns: number}} layout
 */
function measureRows(data, { rows, columns }) {
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
 * Return the present colours of the page for a canvas.
 * @param {HTMLElement} node
 * @returns {CanvasColours}
 */
function getCanvasColours(node) {
  const style = getComputedStyle(node);
  return { paper: style.backgroundColor, line: style.borderTopColor };
}
