/** How the cells of a matrix and the labels beside them are drawn. */

import { pooled } from "heedful/arrays.js";
import { css, pixels, ramp, standingOut } from "heedful/colour.js";
import { element, svg } from "heedful/dom.js";
import { display, shortened } from "heedful/record.js";

/** @typedef {import("heedful/scroller.js").Window} Window */
/**
 * @typedef {object} Picture what is drawn
 * @property {Float32Array} data [Q, K]
 * @property {Float32Array | null} visible [Q, K]; null where everything is
 * @property {number} most the weight at the end of the ramp
 * @property {string} ramp
 * @property {boolean} marks a dot on each row's largest weight
 * @property {boolean} sums a column with the rows' sums
 * @property {boolean} numbers weights as digits, where they fit
 * @property {number | null} chosen a row
 * @property {{query: number, key: number} | null} [spot] a cell that is pointed out
 */
/**
 * @typedef {object} Layout lengths in CSS pixels
 * @property {number} rows
 * @property {number} columns
 * @property {number} cell side of a cell
 * @property {number} left room for the labels of rows
 * @property {number} top room for the labels of columns
 * @property {number} right room beyond the last column
 */

const FONT = 'px ui-sans-serif, system-ui, "Segoe UI", "Noto Sans", sans-serif';
const TILT = 50;
const LONGEST = 24;
const GAPS_FROM = 14;
const HATCH_FROM = 5;
const MARKS_FROM = 5;
const NUMBERS_FROM = 32;

/**
 * Room around the matrix, by the widest labels.
 * @param {string[]} queries
 * @param {string[]} keys
 * @param {boolean} sums
 * @returns {{left: number, top: number, right: number}}
 */
export function margins(queries, keys, sums) {
  const context = /** @type {CanvasRenderingContext2D} */ (element("canvas").getContext("2d"));
  context.font = `14${FONT}`;
  const widest = (/** @type {string[]} */ tokens) =>
    Math.max(...tokens.slice(0, 4000).map((token) => context.measureText(labelOf(token)).width));
  const reach = widest(keys);
  const slope = (Math.PI * TILT) / 180;
  return {
    left: Math.ceil(widest(queries)) + 18,
    top: Math.ceil(reach * Math.sin(slope)) + 24,
    right: Math.max(Math.ceil(reach * Math.cos(slope)) + 8, sums ? 64 : 0),
  };
}

/** @param {string} token */
function labelOf(token) {
  return shortened(display(token), LONGEST);
}

/** @typedef {{canvas: HTMLCanvasElement, block: number}} Image a pixel for each cell, or for each block of cells */

/**
 * The whole matrix, no finer than the screen.
 * @param {Picture} picture
 * @param {Layout} layout
 * @returns {Image}
 */
export function imageOf({ data, most, ramp: name }, layout) {
  const block = blockOf(layout);
  const small = pooled({ shape: [layout.rows, layout.columns], data }, block);
  const [rows, columns] = small.shape;
  const canvas = element("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const colour = pixels(name);
  const words = new Uint32Array(rows * columns);
  for (let i = 0; i < words.length; i += 1) words[i] = colour(small.data[i] / most);
  context.putImageData(new ImageData(new Uint8ClampedArray(words.buffer), columns, rows), 0, 0);
  return { canvas, block };
}

/**
 * Cells along the side of what is drawn as one pixel.
 * @param {Layout} layout
 */
export function blockOf({ cell }) {
  return cell < 1 ? Math.ceil(1 / cell) : 1;
}

/**
 * Rows and columns that show.
 * @param {Window} shown
 * @param {Layout} layout
 */
export function range({ left, top, width, height }, layout) {
  const { cell, rows, columns } = layout;
  return {
    firstRow: Math.floor(top / cell),
    lastRow: Math.min(rows, Math.ceil((top + height - layout.top) / cell)),
    firstColumn: Math.floor(left / cell),
    lastColumn: Math.min(columns, Math.ceil((left + width - layout.left) / cell)),
  };
}

/**
 * @param {Window} shown
 * @param {Layout} layout
 * @param {Picture} picture
 * @param {Image} image
 * @param {number[]} largest column of each row's largest weight, -1 for none
 * @param {{paper: string, line: string}} colours
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
  const seen = range(shown, layout);
  if (picture.visible && cell >= HATCH_FROM) hatch(context, seen, cell, columns, picture.visible, colours);
  if (cell >= GAPS_FROM) gaps(context, seen, cell, colours.paper);
  if (picture.numbers && cell >= NUMBERS_FROM) numbers(context, seen, cell, columns, picture);
  else if (picture.marks && cell >= MARKS_FROM) marks(context, seen, cell, columns, picture, largest);
  context.restore();
}

/** @typedef {ReturnType<typeof range>} Seen */

/**
 * Cells that are hidden from their query.
 * @param {CanvasRenderingContext2D} context
 * @param {Seen} seen
 * @param {number} cell
 * @param {number} columns
 * @param {Float32Array} visible
 * @param {{paper: string, line: string}} colours
 */
function hatch(context, seen, cell, columns, visible, { paper, line }) {
  context.beginPath();
  for (let q = seen.firstRow; q < seen.lastRow; q += 1) {
    for (let k = seen.firstColumn; k < seen.lastColumn; k += 1) {
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
 * @param {CanvasRenderingContext2D} context
 * @param {Seen} seen
 * @param {number} cell
 * @param {string} paper
 */
function gaps(context, { firstRow, lastRow, firstColumn, lastColumn }, cell, paper) {
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
 * @param {CanvasRenderingContext2D} context
 * @param {Seen} seen
 * @param {number} cell
 * @param {number} columns
 * @param {Picture} picture
 * @param {number[]} largest
 */
function marks(context, { firstRow, lastRow }, cell, columns, { data, ramp: name, most }, largest) {
  const colour = ramp(name);
  for (let q = firstRow; q < lastRow; q += 1) {
    const k = largest[q];
    if (k < 0) continue;
    context.fillStyle = standingOut(colour(data[q * columns + k] / most));
    context.beginPath();
    context.arc((k + 0.5) * cell, (q + 0.5) * cell, Math.max(1, cell / 12), 0, 2 * Math.PI);
    context.fill();
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Seen} seen
 * @param {number} cell
 * @param {number} columns
 * @param {Picture} picture
 */
function numbers(context, { firstRow, lastRow, firstColumn, lastColumn }, cell, columns, { data, visible, ramp: name, most }) {
  const colour = ramp(name);
  context.font = `${Math.min(13, cell / 3)}${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let q = firstRow; q < lastRow; q += 1) {
    for (let k = firstColumn; k < lastColumn; k += 1) {
      const place = q * columns + k;
      if (visible && !visible[place]) continue;
      context.fillStyle = standingOut(colour(data[place] / most));
      context.fillText(data[place].toFixed(2).replace(/^0/, ""), (k + 0.5) * cell, (q + 0.5) * cell + 0.5);
    }
  }
}

/**
 * Labels where they fit, and what lies above the cells: sums and the cursor.
 * @param {Window} shown
 * @param {Layout} layout
 * @param {Picture} picture
 * @param {{queries: string[], keys: string[], totals: number[], cursor: {q: number, k: number} | null}} about
 */
export function drawLabels(shown, layout, picture, { queries, keys, totals, cursor }) {
  const { cell } = layout;
  const seen = range(shown, layout);
  const size = Math.min(14, Math.max(9, 0.8 * cell));
  const [x0, y0] = [layout.left - shown.left, layout.top - shown.top];
  const step = Math.ceil((size * 1.05) / cell);
  const rows = element("div"); // collects; only its children are kept
  for (let q = Math.ceil(seen.firstRow / step) * step; q < seen.lastRow; q += step) {
    const y = y0 + (q + 0.5) * cell;
    if (y < layout.top) continue;
    const name = q === picture.chosen || q === cursor?.q || q === picture.spot?.query ? "chosen" : null;
    const place = { x: layout.left - 9, y, dy: "0.35em", "text-anchor": "end", "font-size": size, class: name };
    rows.append(svg("text", place, labelOf(queries[q])));
    if (picture.sums) {
      const x = x0 + layout.columns * cell + 9;
      if (x > layout.left) rows.append(svg("text", { x, y, dy: "0.35em", "font-size": Math.min(13, size), class: "soft" }, totals[q].toFixed(3)));
    }
  }
  for (let k = Math.ceil(seen.firstColumn / step) * step; k < seen.lastColumn; k += step) {
    const x = x0 + (k + 0.5) * cell;
    if (x < layout.left) continue;
    const place = `translate(${x} ${layout.top - 8}) rotate(${-TILT})`;
    rows.append(svg("text", { transform: place, dy: "0.3em", "font-size": size, class: (k === cursor?.k || k === picture.spot?.key) && "chosen" }, labelOf(keys[k])));
  }
  shown.overlay.append(...rows.childNodes);
  if (picture.spot) drawCursor(shown, layout, { q: picture.spot.query, k: picture.spot.key }, x0, y0, "spot");
  if (cursor) drawCursor(shown, layout, cursor, x0, y0);
}

/**
 * @param {Window} shown
 * @param {Layout} layout
 * @param {{q: number, k: number}} cursor
 * @param {number} x0
 * @param {number} y0
 * @param {string} [kind]
 */
function drawCursor(shown, { cell, left, top }, { q, k }, x0, y0, kind = "cursor") {
  const box = { x: x0 + k * cell, y: y0 + q * cell };
  if (box.x < left - 1 || box.y < top - 1) return;
  const side = Math.max(cell, 3);
  for (const name of [`${kind} below`, kind]) {
    shown.overlay.append(svg("rect", { ...box, width: side, height: side, rx: Math.min(3, cell / 5), class: name }));
  }
}

/**
 * The ramp from 0 to its end.
 * @param {string} name
 * @returns {HTMLCanvasElement}
 */
export function rampBar(name) {
  const canvas = element("canvas", { width: 120, height: 10, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const colour = ramp(name);
  for (let x = 0; x < 120; x += 1) {
    context.fillStyle = css(colour(x / 119));
    context.fillRect(x, 0, 1, 10);
  }
  return canvas;
}
