/** Create a matrix as a picture with names on two sides, which users read by pointer or arrow keys. */

import { formatColour } from "heedful/colour.js";
import { createCanvas, createElement, createSvg, getContext } from "heedful/dom.js";
import { formatToken, shortenText } from "heedful/formatting.js";
import { measureText } from "heedful/text_width.js";

/** @import { Colour } from "heedful/colour.js" */
/** @typedef {{width: number, height: number}} CellSize in CSS pixels */

const FONT = "650 12px"; // of the selected name, which is the widest
const MAX_NAME_LENGTH = 14;
const MIN_TEXT_HEIGHT = 12;
const LABEL_STRIDES = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 200, 500, 1000];

/**
 * @typedef {object} GridContent
 * @property {string[]} rows names from top to bottom
 * @property {string[]} columns names from left to right
 * @property {(i: number, j: number) => Colour} getColour of a cell
 * @property {(i: number, j: number) => string} describeCell
 * @property {(text: string) => void} onPoint receives the description of the cell under the pointer or cursor
 * @property {string} label of the whole grid
 * @property {number} width of all cells, at most, in CSS pixels
 * @property {number} [height] of all cells, at most; without it, cells are squares
 * @property {number} [maxCell] side of a cell, at most
 * @property {number} [selected] a row
 * @property {(row: number) => void} [onSelect] receives the row that is selected by click or Enter
 */

/**
 * @param {GridContent} content
 * @returns {HTMLElement}
 */
export function createGrid({ rows, columns, getColour, describeCell, onPoint, label, width, height, maxCell = 26, selected, onSelect }) {
  const cell = computeCellSize({ rows: rows.length, columns: columns.length, width, height, maxCell });
  const left = measureNames(rows) + 8;
  const isTurned = !columns.every(isInteger);
  const top = isTurned ? measureNames(columns) * 0.8 + 14 : 20;
  const { canvas, context } = createCanvas(columns.length * cell.width, rows.length * cell.height);
  const gap = Math.min(cell.width, cell.height) > 7 ? 1 : 0;
  if (gap) paintCells(context, { rows: rows.length, columns: columns.length, cell, gap, getColour });
  else paintPixels(context, { rows: rows.length, columns: columns.length, cell, getColour });
  const frame = createSvg("rect", { class: "grid-cursor", width: cell.width, height: cell.height, visibility: "hidden" });
  const size = { width: left + columns.length * cell.width + (isTurned ? measureNames(columns) * 0.6 : 10), height: top + rows.length * cell.height + 2 };
  const names = createSvg("svg", { ...size, "aria-hidden": "true" },
    drawRowNames(rows, { cell, left, top, selected }), drawColumnNames(columns, { cell, left, top, isTurned }), frame);
  canvas.style.left = `${left}px`;
  canvas.style.top = `${top}px`;
  const node = createElement("div", { class: "grid", tabindex: 0, role: "img", "aria-label": `${label}. Arrow keys read the cells.` }, canvas, names);
  const moveCursor = (/** @type {number} */ i, /** @type {number} */ j) => {
    frame.setAttribute("x", String(left + j * cell.width - gap / 2));
    frame.setAttribute("y", String(top + i * cell.height - gap / 2));
    frame.setAttribute("visibility", "visible");
    onPoint(describeCell(i, j));
    node.setAttribute("aria-label", `${label}. ${describeCell(i, j)}`);
  };
  addGridListeners(node, { area: canvas, cell, shape: [rows.length, columns.length], first: selected ?? 0, moveCursor, onSelect });
  if (onSelect) node.classList.add("selectable");
  return node;
}

/**
 * Compute the size of a cell: a square, unless the height of the grid is limited too.
 * @param {{rows: number, columns: number, width: number, height: number | undefined, maxCell: number}} limits
 * @returns {CellSize}
 */
function computeCellSize({ rows, columns, width, height, maxCell }) {
  const cellWidth = Math.max(2, Math.min(maxCell, Math.floor(width / columns)));
  if (height) return { width: cellWidth, height: Math.max(2, Math.min(maxCell, Math.floor(height / rows))) };
  const side = Math.min(cellWidth, Math.max(2, Math.floor(900 / rows)));
  return { width: side, height: side };
}

/**
 * @typedef {object} CellColours
 * @property {number} rows
 * @property {number} columns
 * @property {CellSize} cell
 * @property {(i: number, j: number) => Colour} getColour
 */

/**
 * Paint each cell as a rectangle.
 * @param {CanvasRenderingContext2D} context
 * @param {CellColours & {gap: number}} cells
 */
function paintCells(context, { rows, columns, cell, gap, getColour }) {
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      context.fillStyle = formatColour(getColour(i, j));
      context.fillRect(j * cell.width, i * cell.height, cell.width - gap, cell.height - gap);
    }
  }
}

/**
 * Paint many small cells as the pixels of a picture that is enlarged.
 * @param {CanvasRenderingContext2D} context
 * @param {CellColours} cells
 */
function paintPixels(context, { rows, columns, cell, getColour }) {
  const canvas = createElement("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) image.data.set([...getColour(i, j), 255], 4 * (i * columns + j));
  }
  getContext(canvas).putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, columns * cell.width, rows * cell.height);
}

/**
 * Move the cursor of a grid by pointer and arrow keys, and select rows by click and Enter.
 * @param {HTMLElement} node
 * @param {object} grid
 * @param {Element} grid.area the element that the cells fill
 * @param {CellSize} grid.cell
 * @param {[rows: number, columns: number]} grid.shape
 * @param {number} grid.first row in which the cursor starts
 * @param {(i: number, j: number) => void} grid.moveCursor
 * @param {(i: number) => void} [grid.onSelect]
 */
export function addGridListeners(node, { area, cell, shape: [rows, columns], first, moveCursor, onSelect }) {
  const now = { i: first, j: 0 };
  const moveTo = (/** @type {number} */ i, /** @type {number} */ j) => {
    Object.assign(now, { i, j });
    moveCursor(i, j);
  };
  const getCellAt = (/** @type {MouseEvent} */ event) => {
    const box = area.getBoundingClientRect();
    const [i, j] = [Math.floor((event.clientY - box.top) / cell.height), Math.floor((event.clientX - box.left) / cell.width)];
    return i >= 0 && i < rows && j < columns ? { i, j } : null;
  };
  node.addEventListener("mousemove", (event) => {
    const place = getCellAt(event);
    if (place && place.j >= 0) moveTo(place.i, place.j);
  });
  node.addEventListener("click", (event) => {
    const place = getCellAt(event);
    if (place && onSelect) onSelect(place.i);
  });
  node.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (down || right) moveTo(clampIndex(now.i + down, rows), clampIndex(now.j + right, columns));
    else if (event.key === "Enter" && onSelect) onSelect(now.i);
    else return;
    event.preventDefault();
  });
}

/**
 * @param {number} index
 * @param {number} count
 */
function clampIndex(index, count) {
  return Math.max(0, Math.min(count - 1, index));
}

/** @param {string} name */
function isInteger(name) {
  return /^-?\d+$/.test(name);
}

/** @param {string} name */
function formatName(name) {
  return shortenText(formatToken(name), MAX_NAME_LENGTH);
}

/**
 * Measure the width of the longest name.
 * @param {string[]} names
 */
function measureNames(names) {
  return Math.max(...names.map((name) => measureText(formatName(name), FONT)));
}

/**
 * Return n if there is room for every n-th name.
 * @param {number} cell side of a cell
 * @param {number} room that a name needs
 * @returns {number}
 */
function getLabelStride(cell, room) {
  return LABEL_STRIDES.find((stride) => stride * cell >= room) ?? LABEL_STRIDES[LABEL_STRIDES.length - 1];
}

/**
 * Draw the names of rows that fit. The selected row always has its name.
 * @param {string[]} rows
 * @param {{cell: CellSize, left: number, top: number, selected: number | undefined}} layout
 */
function drawRowNames(rows, { cell, left, top, selected }) {
  const stride = getLabelStride(cell.height, MIN_TEXT_HEIGHT);
  const isNearSelected = (/** @type {number} */ i) => selected !== undefined && Math.abs(i - selected) * cell.height < MIN_TEXT_HEIGHT;
  return rows.map((name, i) => {
    if (i !== selected && (i % stride !== 0 || isNearSelected(i))) return null;
    const attributes = { x: left - 6, y: top + (i + 0.5) * cell.height, "text-anchor": "end", "dominant-baseline": "central" };
    return createSvg("text", { ...attributes, class: i === selected ? "chosen" : "" }, formatName(name));
  });
}

/**
 * Draw the names of columns that fit.
 * @param {string[]} columns
 * @param {{cell: CellSize, left: number, top: number, isTurned: boolean}} layout
 */
function drawColumnNames(columns, { cell, left, top, isTurned }) {
  const stride = getLabelStride(cell.width, isTurned ? MIN_TEXT_HEIGHT : measureNames(columns) + 6);
  return columns.map((name, j) => {
    if (j % stride !== 0) return null;
    const [x, y] = [left + (j + 0.5) * cell.width, top - 6];
    const attributes = isTurned ? { "text-anchor": "start", transform: `rotate(-55 ${x} ${y})` } : { "text-anchor": "middle" };
    return createSvg("text", { x, y, ...attributes }, formatName(name));
  });
}
