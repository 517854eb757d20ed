/** Draw the cells of a heat map and the labels beside them. */

import { maxPool } from "heedful/arrays.js";
import { formatColour, getContrastColour, getPixelRamp, getRamp } from "heedful/colour.js";
import { createElement, createSvg, getContext } from "heedful/dom.js";
import { formatToken, shortenText } from "heedful/formatting.js";
import { getFont, measureText } from "heedful/text_width.js";

/** @import { ScrollWindow } from "heedful/scroller.js" */
/** @import { MapCell } from "heedful/store.js" */
/**
 * @typedef {object} HeatmapPicture what is drawn
 * @property {Float32Array} data [Q, K]
 * @property {Float32Array | null} visible [Q, K]; null if all keys are visible
 * @property {number} maxWeight the weight at the end of the colour ramp
 * @property {string} ramp name of the colour ramp
 * @property {boolean} marks whether a dot marks the largest weight of each row
 * @property {boolean} sums whether a column shows the sums of the rows
 * @property {boolean} numbers whether weights are written into the cells, if there is room
 * @property {number | null} selected a row
 * @property {MapCell | null} highlight a cell
 */
/**
 * @typedef {object} HeatmapLayout lengths in CSS pixels
 * @property {number} rows
 * @property {number} columns
 * @property {number} cell side of a cell
 * @property {number} left room for the labels of rows
 * @property {number} top room for the labels of columns
 * @property {number} right room beyond the last column
 */
/** @typedef {{canvas: HTMLCanvasElement, block: number}} HeatmapImage one pixel for each cell, or for each block of cells */
/** @typedef {{q: number, k: number}} HeatmapCell */
/** @typedef {{paper: string, line: string}} CanvasColours background of the page, and colour of lines */
/** @typedef {{firstRow: number, lastRow: number, firstColumn: number, lastColumn: number}} CellRange without the last ones */

const LABEL_ANGLE = 50; // degrees
const MAX_LABEL_LENGTH = 24;
const MAX_MEASURED_LABELS = 4000;
const MIN_GAP_CELL = 14; // side of a cell from which on there are gaps between cells
const MIN_HATCH_CELL = 5;
const MIN_MARK_CELL = 5;
const MIN_NUMBER_CELL = 32;

/**
 * Measure the room for labels around the matrix.
 * @param {string[]} queries
 * @param {string[]} keys
 * @param {boolean} sums whether there is a column of sums
 * @returns {{left: number, top: number, right: number}}
 */
export function measureMargins(queries, keys, sums) {
  const measureWidest = (/** @type {string[]} */ tokens) =>
    Math.max(...tokens.slice(0, MAX_MEASURED_LABELS).map((token) => measureText(formatLabel(token), "14px")));
  const length = measureWidest(keys);
  const angle = (Math.PI * LABEL_ANGLE) / 180;
  return {
    left: Math.ceil(measureWidest(queries)) + 18,
    top: Math.ceil(length * Math.sin(angle)) + 24,
    right: Math.max(Math.ceil(length * Math.cos(angle)) + 8, sums ? 64 : 0),
  };
}

/** @param {string} token */
function formatLabel(token) {
  return shortenText(formatToken(token), MAX_LABEL_LENGTH);
}

/**
 * Draw the whole matrix on a canvas, with at most the resolution of the screen.
 * @param {HeatmapPicture} picture
 * @param {HeatmapLayout} layout
 * @returns {HeatmapImage}
 */
export function renderImage({ data, maxWeight, ramp }, layout) {
  const block = getBlockSize(layout);
  const pooled = maxPool({ shape: [layout.rows, layout.columns], data }, block);
  const [rows, columns] = pooled.shape;
  const canvas = createElement("canvas", { width: columns, height: rows });
  const getPixel = getPixelRamp(ramp);
  const words = new Uint32Array(rows * columns);
  for (let i = 0; i < words.length; i += 1) words[i] = getPixel(pooled.data[i] / maxWeight);
  getContext(canvas).putImageData(new ImageData(new Uint8ClampedArray(words.buffer), columns, rows), 0, 0);
  return { canvas, block };
}

/**
 * Return the number of cells along the side of a block that is drawn as one pixel.
 * @param {HeatmapLayout} layout
 */
export function getBlockSize({ cell }) {
  return cell < 1 ? Math.ceil(1 / cell) : 1;
}

/**
 * Return the visible rows and columns.
 * @param {ScrollWindow} shown
 * @param {HeatmapLayout} layout
 * @returns {CellRange}
 */
function getVisibleRange({ left, top, width, height }, layout) {
  const { cell, rows, columns } = layout;
  return {
    firstRow: Math.floor(top / cell),
    lastRow: Math.min(rows, Math.ceil((top + height - layout.top) / cell)),
    firstColumn: Math.floor(left / cell),
    lastColumn: Math.min(columns, Math.ceil((left + width - layout.left) / cell)),
  };
}

/**
 * Draw the visible cells.
 * @param {ScrollWindow} shown
 * @param {HeatmapLayout} layout
 * @param {HeatmapPicture} picture
 * @param {HeatmapImage} image
 * @param {number[]} largest column of the largest weight of each row, -1 for none
 * @param {CanvasColours} colours
 */
export function drawCells(shown, layout, picture, image, largest, colours) {
  const { context, left, top, width, height } = shown;
  const { cell, columns } = layout;
  const side = cell * image.block;
  context.save();
  context.beginPath();
  context.rect(layout.left, layout.top, width - layout.left, height - layout.top);
  context.clip();
  context.translate(layout.left - left, layout.top - top);
  context.imageSmoothingEnabled = false;
  context.drawImage(image.canvas, 0, 0, image.canvas.width * side, image.canvas.height * side);
  const range = getVisibleRange(shown, layout);
  if (picture.visible && cell >= MIN_HATCH_CELL) drawMaskedCells(context, range, cell, columns, picture.visible, colours);
  if (cell >= MIN_GAP_CELL) drawGaps(context, range, cell, colours.paper);
  if (picture.numbers && cell >= MIN_NUMBER_CELL) drawNumbers(context, range, cell, columns, picture);
  else if (picture.marks && cell >= MIN_MARK_CELL) drawMarks(context, range, cell, columns, picture, largest);
  context.restore();
}

/**
 * Draw a stroke in each cell whose key is masked.
 * @param {CanvasRenderingContext2D} context
 * @param {CellRange} range
 * @param {number} cell
 * @param {number} columns
 * @param {Float32Array} visible
 * @param {CanvasColours} colours
 */
function drawMaskedCells(context, range, cell, columns, visible, { paper, line }) {
  context.beginPath();
  for (let q = range.firstRow; q < range.lastRow; q += 1) {
    for (let k = range.firstColumn; k < range.lastColumn; k += 1) {
      if (visible[q * columns + k]) continue;
      context.fillStyle = paper;
      context.fillRect(k * cell, q * cell, cell, cell);
      context.moveTo((k + 0.3) * cell, (q + 0.7) * cell);
      context.lineTo((k + 0.7) * cell, (q + 0.3) * cell);
    }
  }
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.stroke();
}

/**
 * Draw lines between the cells.
 * @param {CanvasRenderingContext2D} context
 * @param {CellRange} range
 * @param {number} cell
 * @param {string} paper colour
 */
function drawGaps(context, { firstRow, lastRow, firstColumn, lastColumn }, cell, paper) {
  context.beginPath();
  for (let q = firstRow; q <= lastRow; q += 1) {
    context.moveTo(firstColumn * cell, q * cell);
    context.lineTo(lastColumn * cell, q * cell);
  }
  for (let k = firstColumn; k <= lastColumn; k += 1) {
    context.moveTo(k * cell, firstRow * cell);
    context.lineTo(k * cell, lastRow * cell);
  }
  context.strokeStyle = paper;
  context.lineWidth = cell > 24 ? 2 : 1;
  context.stroke();
}

/**
 * Draw a dot on the largest weight of each row.
 * @param {CanvasRenderingContext2D} context
 * @param {CellRange} range
 * @param {number} cell
 * @param {number} columns
 * @param {HeatmapPicture} picture
 * @param {number[]} largest
 */
function drawMarks(context, { firstRow, lastRow }, cell, columns, { data, ramp, maxWeight }, largest) {
  const getColour = getRamp(ramp);
  for (let q = firstRow; q < lastRow; q += 1) {
    const k = largest[q];
    if (k < 0) continue;
    context.fillStyle = getContrastColour(getColour(data[q * columns + k] / maxWeight));
    context.beginPath();
    context.arc((k + 0.5) * cell, (q + 0.5) * cell, Math.max(1, cell / 12), 0, 2 * Math.PI);
    context.fill();
  }
}

/**
 * Write the weights into the cells.
 * @param {CanvasRenderingContext2D} context
 * @param {CellRange} range
 * @param {number} cell
 * @param {number} columns
 * @param {HeatmapPicture} picture
 */
function drawNumbers(context, { firstRow, lastRow, firstColumn, lastColumn }, cell, columns, { data, visible, ramp, maxWeight }) {
  const getColour = getRamp(ramp);
  context.font = getFont(`${Math.min(13, cell / 3)}px`);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let q = firstRow; q < lastRow; q += 1) {
    for (let k = firstColumn; k < lastColumn; k += 1) {
      const place = q * columns + k;
      if (visible && !visible[place]) continue;
      context.fillStyle = getContrastColour(getColour(data[place] / maxWeight));
      context.fillText(data[place].toFixed(2).replace(/^0/, ""), (k + 0.5) * cell, (q + 0.5) * cell + 0.5);
    }
  }
}

/**
 * Draw the labels that fit, the sums, the highlighted cell and the cursor.
 * @param {ScrollWindow} shown
 * @param {HeatmapLayout} layout
 * @param {HeatmapPicture} picture
 * @param {{queries: string[], keys: string[], totals: number[], cursor: HeatmapCell | null}} content
 */
export function drawLabels(shown, layout, picture, { queries, keys, totals, cursor }) {
  const { cell } = layout;
  const range = getVisibleRange(shown, layout);
  const size = Math.min(14, Math.max(9, 0.8 * cell));
  const [x0, y0] = [layout.left - shown.left, layout.top - shown.top];
  const step = Math.ceil((size * 1.05) / cell);
  /** @type {SVGElement[]} */ const labels = [];
  for (let q = Math.ceil(range.firstRow / step) * step; q < range.lastRow; q += step) {
    const y = y0 + (q + 0.5) * cell;
    if (y < layout.top) continue;
    const name = q === picture.selected || q === cursor?.q || q === picture.highlight?.query ? "chosen" : null;
    const place = { x: layout.left - 9, y, dy: "0.35em", "text-anchor": "end", "font-size": size, class: name };
    labels.push(createSvg("text", place, formatLabel(queries[q])));
    const x = x0 + layout.columns * cell + 9;
    if (picture.sums && x > layout.left) {
      labels.push(createSvg("text", { x, y, dy: "0.35em", "font-size": Math.min(13, size), class: "soft" }, totals[q].toFixed(3)));
    }
  }
  for (let k = Math.ceil(range.firstColumn / step) * step; k < range.lastColumn; k += step) {
    const x = x0 + (k + 0.5) * cell;
    if (x < layout.left) continue;
    const name = k === cursor?.k || k === picture.highlight?.key ? "chosen" : null;
    const transform = `translate(${x} ${layout.top - 8}) rotate(${-LABEL_ANGLE})`;
    labels.push(createSvg("text", { transform, dy: "0.3em", "font-size": size, class: name }, formatLabel(keys[k])));
  }
  shown.overlay.append(...labels);
  const { highlight } = picture;
  if (highlight) drawFrame(shown, layout, { q: highlight.query, k: highlight.key }, "spot");
  if (cursor) drawFrame(shown, layout, cursor, "cursor");
}

/**
 * Draw a frame around a cell.
 * @param {ScrollWindow} shown
 * @param {HeatmapLayout} layout
 * @param {HeatmapCell} cell
 * @param {string} className
 */
function drawFrame(shown, { cell, left, top }, { q, k }, className) {
  const box = { x: left - shown.left + k * cell, y: top - shown.top + q * cell };
  if (box.x < left - 1 || box.y < top - 1) return;
  const side = Math.max(cell, 3);
  for (const name of [`${className} below`, className]) {
    shown.overlay.append(createSvg("rect", { ...box, width: side, height: side, rx: Math.min(3, cell / 5), class: name }));
  }
}

/**
 * Create a bar with the colours of a ramp, from 0 to its end.
 * @param {string} ramp
 * @returns {HTMLCanvasElement}
 */
export function createRampBar(ramp) {
  const canvas = createElement("canvas", { width: 120, height: 10, "aria-hidden": "true" });
  const context = getContext(canvas);
  const getColour = getRamp(ramp);
  for (let x = 0; x < 120; x += 1) {
    context.fillStyle = formatColour(getColour(x / 119));
    context.fillRect(x, 0, 1, 10);
  }
  return canvas;
}
