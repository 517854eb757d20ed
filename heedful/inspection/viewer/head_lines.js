/** Draw lines from queries to the keys that they attend to: compute the layout and the threshold, and draw. */

import { findMax } from "heedful/arrays.js";
import { getHeadColour } from "heedful/colour.js";
import { createSvg } from "heedful/dom.js";
import { formatToken, shortenText } from "heedful/formatting.js";
import { measureText } from "heedful/text_width.js";

/** @import { ScrollWindow } from "heedful/scroller.js" */
/** @typedef {{side: "query" | "key", place: number}} SideToken */
/** @typedef {{head: number, data: Float32Array}} HeadWeights weights [Q, K] of a head */
/**
 * @typedef {object} HeadLines
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {HeadWeights[]} heads that are shown
 * @property {number} threshold smaller weights have no line
 * @property {SideToken | null} only a token whose lines are drawn alone
 */
/**
 * @typedef {object} LinesLayout lengths in CSS pixels
 * @property {number} row height of a token
 * @property {number} top room above the first token
 * @property {number} left start of the lines
 * @property {number} right end of the lines
 * @property {number} width
 * @property {number} height
 * @property {boolean} narrow whether there is little room for names
 */

const OPACITY_LEVELS = 20; // all lines of a level are one stroke, which makes many lines fast
const MIN_OPACITY = 0.06;
const MAX_LABEL_LENGTH = 28;
const NARROW = { room: 500, maxLabelLength: 11 };

/**
 * Compute the layout of tokens and lines.
 * @param {string[]} queries
 * @param {string[]} keys
 * @param {number} room width in CSS pixels
 * @param {number} heads number of heads that can be shown
 * @returns {LinesLayout}
 */
export function computeLayout(queries, keys, room, heads) {
  const count = Math.max(queries.length, keys.length);
  const narrow = room < NARROW.room;
  const row = count <= 40 ? 27 : count <= 120 ? 21 : 16;
  const measureWidest = (/** @type {string[]} */ tokens) =>
    Math.max(narrow ? 40 : 120, ...tokens.map((token) => measureText(formatLabel(token, narrow), "14px")));
  const space = getBarWidth(heads, narrow) * heads + 10;
  const [before, after] = [Math.ceil(measureWidest(queries)) + space + 22, Math.ceil(measureWidest(keys)) + space + 22];
  const width = Math.min(room, before + after + 420);
  return { row, top: 34, left: before, right: width - after, width, height: 34 + count * row + 6, narrow };
}

/**
 * @param {number} heads
 * @param {boolean} narrow
 */
function getBarWidth(heads, narrow) {
  return narrow ? Math.min(9, 24 / heads) : Math.max(3, Math.min(9, Math.floor(72 / heads)));
}

/**
 * @param {string} token
 * @param {boolean} narrow
 */
function formatLabel(token, narrow) {
  return shortenText(formatToken(token), narrow ? NARROW.maxLabelLength : MAX_LABEL_LENGTH);
}

/**
 * Compute a threshold with which there are at most `maxLines` lines.
 * @param {HeadWeights[]} heads
 * @param {number} maxLines
 * @returns {number}
 */
function limitLines(heads, maxLines) {
  const counts = new Uint32Array(101);
  for (const { data } of heads) for (let i = 0; i < data.length; i += 1) counts[Math.max(0, Math.min(100, Math.floor(data[i] * 100)))] += 1;
  let lines = 0;
  for (let percent = 100; percent > 1; percent -= 1) {
    lines += counts[percent];
    if (lines > maxLines) return Math.min(1, (percent + 1) / 100);
  }
  return 0.01;
}

/**
 * Compute a threshold that keeps lines apart: the more heads are shown, the larger is the weight that a line needs, up
 * to half of the largest weight.
 * @param {HeadWeights[]} heads that are shown
 * @param {number} maxLines
 * @returns {number}
 */
export function computeThreshold(heads, maxLines) {
  const largest = Math.max(0, ...heads.map(({ data }) => findMax(data)));
  const wanted = Math.min(0.3, 0.05 + 0.02 * Math.max(0, heads.length - 1));
  return Math.max(limitLines(heads, maxLines), Math.min(wanted, Math.max(0.01, Math.floor(50 * largest) / 100)));
}

/**
 * Return how far the lines of a head run below the middle of their tokens, so that lines between the same tokens lie
 * side by side.
 * @param {number} index of the head among the shown heads
 * @param {number} count of the shown heads
 * @param {number} row height of a token
 * @returns {{offset: number, gap: number}} the offset, and the distance between neighbouring lines
 */
export function getLineOffset(index, count, row) {
  const gap = Math.min(3, (row - 6) / Math.max(1, count - 1));
  return { offset: (index - (count - 1) / 2) * gap, gap };
}

/**
 * Draw the visible lines of all shown heads.
 * @param {ScrollWindow} shown
 * @param {LinesLayout} layout
 * @param {HeadLines} lines
 */
export function drawLines(shown, layout, lines) {
  const { context, top } = shown;
  context.save();
  context.beginPath();
  context.rect(0, layout.top - 6, shown.width, shown.height);
  context.clip();
  context.translate(-shown.left, layout.top - top);
  const count = lines.heads.length;
  context.lineWidth = Math.max(0.75, Math.min(lines.only ? 2 : 1.4, count > 1 ? getLineOffset(0, count, layout.row).gap : Infinity));
  for (const [index, { head, data }] of lines.heads.entries()) {
    context.strokeStyle = getHeadColour(head);
    buildPaths(shown, layout, lines, data, getLineOffset(index, count, layout.row).offset).forEach((path, level) => {
      context.globalAlpha = MIN_OPACITY + ((1 - MIN_OPACITY) * (level + 1)) / OPACITY_LEVELS;
      context.stroke(path);
    });
  }
  context.globalAlpha = 1;
  if (lines.only) drawBars(context, layout, lines, lines.only);
  context.restore();
}

/**
 * Build the paths of the visible lines of a head, by level of opacity.
 * @param {ScrollWindow} shown
 * @param {LinesLayout} layout
 * @param {HeadLines} lines
 * @param {Float32Array} data
 * @param {number} offset from the middle of the tokens
 */
function buildPaths(shown, layout, { queries, keys, threshold, only }, data, offset) {
  /** @type {Map<number, Path2D>} */
  const paths = new Map();
  const first = Math.floor(shown.top / layout.row);
  const last = Math.ceil((shown.top + shown.height - layout.top) / layout.row);
  const middle = (layout.left + layout.right) / 2;
  for (let q = 0; q < queries.length; q += 1) {
    if (only?.side === "query" && q !== only.place) continue;
    for (let k = 0; k < keys.length; k += 1) {
      const weight = data[q * keys.length + k];
      const isShown = weight >= threshold && Math.max(q, k) >= first && Math.min(q, k) <= last;
      if (!isShown || (only?.side === "key" && k !== only.place)) continue;
      const level = Math.min(OPACITY_LEVELS - 1, Math.floor(weight * OPACITY_LEVELS));
      const path = paths.get(level) ?? new Path2D();
      paths.set(level, path);
      const [y1, y2] = [(q + 0.5) * layout.row + offset, (k + 0.5) * layout.row + offset];
      path.moveTo(layout.left, y1);
      path.bezierCurveTo(middle, y1, middle, y2, layout.right, y2);
    }
  }
  return paths;
}

/**
 * Draw the weights of one token as bars beside the tokens of the other side, one bar for each head.
 * @param {CanvasRenderingContext2D} context
 * @param {LinesLayout} layout
 * @param {HeadLines} lines
 * @param {SideToken} token
 */
function drawBars(context, layout, { queries, keys, heads }, { side, place }) {
  const width = getBarWidth(heads.length, layout.narrow);
  const count = side === "query" ? keys.length : queries.length;
  for (let other = 0; other < count; other += 1) {
    heads.forEach(({ head, data }, i) => {
      const [q, k] = side === "query" ? [place, other] : [other, place];
      const x = side === "query" ? layout.right + 5 + i * width : layout.left - 5 - (heads.length - i) * width;
      context.fillStyle = getHeadColour(head);
      context.globalAlpha = Math.min(1, Math.max(0, data[q * keys.length + k]));
      context.fillRect(x, other * layout.row + 3, Math.max(1, width - 1), layout.row - 6);
    });
  }
}

/**
 * Draw the visible tokens of both sides.
 * @param {ScrollWindow} shown
 * @param {LinesLayout} layout
 * @param {HeadLines} lines
 * @param {{queries: string, keys: string, heads: number}} titles of the sides, and the number of heads that can have bars
 */
export function drawTokens(shown, layout, { queries, keys, only }, titles) {
  const inset = getBarWidth(titles.heads, layout.narrow) * titles.heads + (layout.narrow ? 8 : 14);
  const sides = /** @type {const} */ ([
    { side: "query", tokens: queries, x: layout.left - inset, anchor: "end", title: layout.narrow ? titles.queries.split(" ")[0] : titles.queries },
    { side: "key", tokens: keys, x: layout.right + inset, anchor: "start", title: layout.narrow ? titles.keys.split(" ")[0] : titles.keys },
  ]);
  for (const { side, tokens, x, anchor, title } of sides) {
    shown.overlay.append(createSvg("text", { x: x - shown.left, y: 14, "text-anchor": anchor, "font-size": 12, class: "soft" }, title));
    const first = Math.max(0, Math.ceil((shown.top - 6) / layout.row - 0.3));
    const last = Math.min(tokens.length, Math.ceil((shown.top + shown.height - layout.top) / layout.row));
    for (let place = first; place < last; place += 1) {
      const y = layout.top - shown.top + (place + 0.5) * layout.row;
      const isSelected = only?.side === side && only.place === place;
      const size = Math.min(14, layout.row * 0.75);
      const attributes = { x: x - shown.left, y, dy: "0.35em", "text-anchor": anchor, "font-size": size, class: isSelected && "chosen" };
      shown.overlay.append(createSvg("text", attributes, formatLabel(tokens[place], layout.narrow)));
    }
  }
}
