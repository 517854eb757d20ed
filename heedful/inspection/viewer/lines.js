/** Lines from tokens that look to tokens looked at: where they are, and how they are drawn. */

import { headColour } from "heedful/colour.js";
import { element, svg } from "heedful/dom.js";
import { display, shortened } from "heedful/record.js";

/** @typedef {import("heedful/scroller.js").Window} Window */
/** @typedef {{side: "query" | "key", place: number}} Token */
/**
 * @typedef {object} Lines
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {{head: number, data: Float32Array}[]} heads those that are on, each with its weights [Q, K]
 * @property {number} threshold smaller weights have no line
 * @property {Token | null} only the token whose lines are drawn alone
 */
/**
 * @typedef {object} Layout lengths in CSS pixels
 * @property {number} row height of a token
 * @property {number} top room above the first one
 * @property {number} left where lines begin
 * @property {number} right where they end
 * @property {boolean} narrow whether there is little room for names
 */

const LEVELS = 20; // of opacity: lines of one level are one stroke, which is what makes many of them fast
const FAINTEST = 0.06;
const LONGEST = 28;
const NARROW = { room: 500, longest: 11 };
const FONT = '14px ui-sans-serif, system-ui, "Segoe UI", "Noto Sans", sans-serif';

/**
 * @param {string[]} queries
 * @param {string[]} keys
 * @param {number} room
 * @param {number} heads how many may be on
 * @returns {Layout & {width: number, height: number}}
 */
export function layoutOf(queries, keys, room, heads) {
  const most = Math.max(queries.length, keys.length);
  const narrow = room < NARROW.room;
  const row = most <= 40 ? 27 : most <= 120 ? 21 : 16;
  const context = /** @type {CanvasRenderingContext2D} */ (element("canvas").getContext("2d"));
  context.font = FONT;
  const widest = (/** @type {string[]} */ tokens) =>
    Math.max(narrow ? 40 : 120, ...tokens.map((token) => context.measureText(labelOf(token, narrow)).width));
  const space = barWidth(heads, narrow) * heads + 10;
  const [before, after] = [Math.ceil(widest(queries)) + space + 22, Math.ceil(widest(keys)) + space + 22];
  const width = Math.min(room, before + after + 420);
  return { row, top: 34, left: before, right: width - after, width, height: 34 + most * row + 6, narrow };
}

/** @param {number} heads @param {boolean} narrow */
function barWidth(heads, narrow) {
  return narrow ? Math.min(9, 24 / heads) : Math.max(3, Math.min(9, Math.floor(72 / heads)));
}

/** @param {string} token @param {boolean} narrow */
function labelOf(token, narrow) {
  return shortened(display(token), narrow ? NARROW.longest : LONGEST);
}

/**
 * A threshold that leaves so many lines at most.
 * @param {Lines["heads"]} heads
 * @param {number} most
 * @returns {number}
 */
export function quiet(heads, most) {
  const counts = new Uint32Array(101);
  for (const { data } of heads) for (let i = 0; i < data.length; i += 1) counts[Math.max(0, Math.min(100, Math.floor(data[i] * 100)))] += 1;
  let lines = 0;
  for (let percent = 100; percent > 1; percent -= 1) {
    lines += counts[percent];
    if (lines > most) return Math.min(1, (percent + 1) / 100);
  }
  return 0.01;
}

/**
 * A threshold that keeps the lines of many heads apart: the more heads, the larger a weight must be to have a line.
 * Where no weight is so large, half the largest.
 * @param {Lines["heads"]} heads those that are on
 * @param {number} most lines in all
 * @returns {number}
 */
export function thresholdOf(heads, most) {
  const largest = heads.reduce((found, { data }) => data.reduce((size, each) => Math.max(size, each), found), 0);
  const wanted = Math.min(0.3, 0.05 + 0.02 * Math.max(0, heads.length - 1));
  return Math.max(quiet(heads, most), Math.min(wanted, Math.max(0.01, Math.floor(50 * largest) / 100)));
}

/**
 * How far below the middle of its token a head's lines run, so that those between the same tokens lie side by side.
 * @param {number} place of the head among those that are on
 * @param {number} count of these
 * @param {number} row height of a token
 * @returns {{down: number, gap: number}} and how far they are apart
 */
export function lane(place, count, row) {
  const gap = Math.min(3, (row - 6) / Math.max(1, count - 1));
  return { down: (place - (count - 1) / 2) * gap, gap };
}

/**
 * @param {Window} shown
 * @param {Layout} layout
 * @param {Lines} lines
 */
export function drawLines(shown, layout, lines) {
  const { context, top } = shown;
  context.save();
  context.beginPath();
  context.rect(0, layout.top - 6, shown.width, shown.height);
  context.clip();
  context.translate(-shown.left, layout.top - top);
  const count = lines.heads.length;
  context.lineWidth = Math.max(0.75, Math.min(lines.only ? 2 : 1.4, count > 1 ? lane(0, count, layout.row).gap : Infinity));
  for (const [place, { head, data }] of lines.heads.entries()) {
    context.strokeStyle = headColour(head);
    levels(shown, layout, lines, data, lane(place, count, layout.row).down).forEach((path, level) => {
      context.globalAlpha = FAINTEST + ((1 - FAINTEST) * (level + 1)) / LEVELS;
      context.stroke(path);
    });
  }
  context.globalAlpha = 1;
  if (lines.only) bars(context, layout, lines);
  context.restore();
}

/**
 * Lines of a head that show, by their opacity.
 * @param {Window} shown
 * @param {Layout} layout
 * @param {Lines} lines
 * @param {Float32Array} data
 * @param {number} down from the middle of tokens
 */
function levels(shown, layout, { queries, keys, threshold, only }, data, down) {
  /** @type {Map<number, Path2D>} */
  const paths = new Map();
  const first = Math.floor(shown.top / layout.row);
  const last = Math.ceil((shown.top + shown.height - layout.top) / layout.row);
  const middle = (layout.left + layout.right) / 2;
  for (let q = 0; q < queries.length; q += 1) {
    if (only?.side === "query" && q !== only.place) continue;
    for (let k = 0; k < keys.length; k += 1) {
      const weight = data[q * keys.length + k];
      const seen = weight >= threshold && Math.max(q, k) >= first && Math.min(q, k) <= last;
      if (!seen || (only?.side === "key" && k !== only.place)) continue;
      const level = Math.min(LEVELS - 1, Math.floor(weight * LEVELS));
      const path = paths.get(level) ?? new Path2D();
      paths.set(level, path);
      const [y1, y2] = [(q + 0.5) * layout.row + down, (k + 0.5) * layout.row + down];
      path.moveTo(layout.left, y1);
      path.bezierCurveTo(middle, y1, middle, y2, layout.right, y2);
    }
  }
  return paths;
}

/**
 * Beside each token of the other side, how much of the chosen one's weight each head has there.
 * @param {CanvasRenderingContext2D} context
 * @param {Layout} layout
 * @param {Lines} lines
 */
function bars(context, layout, { queries, keys, heads, only }) {
  const width = barWidth(heads.length, layout.narrow);
  const count = only?.side === "query" ? keys.length : queries.length;
  for (let other = 0; other < count; other += 1) {
    heads.forEach(({ head, data }, i) => {
      const [q, k] = only?.side === "query" ? [only.place, other] : [other, only?.place ?? 0];
      const x = only?.side === "query" ? layout.right + 5 + i * width : layout.left - 5 - (heads.length - i) * width;
      context.fillStyle = headColour(head);
      context.globalAlpha = Math.min(1, Math.max(0, data[q * keys.length + k]));
      context.fillRect(x, other * layout.row + 3, Math.max(1, width - 1), layout.row - 6);
    });
  }
}

/**
 * @param {Window} shown
 * @param {Layout} layout
 * @param {Lines} lines
 * @param {{queries: string, keys: string, bars: number}} about names of the sides, and how many heads may have bars
 */
export function drawTokens(shown, layout, { queries, keys, only }, about) {
  const inset = barWidth(about.bars, layout.narrow) * about.bars + (layout.narrow ? 8 : 14);
  const sides = /** @type {const} */ ([
    { side: "query", tokens: queries, x: layout.left - inset, anchor: "end", name: layout.narrow ? about.queries.split(" ")[0] : about.queries },
    { side: "key", tokens: keys, x: layout.right + inset, anchor: "start", name: layout.narrow ? about.keys.split(" ")[0] : about.keys },
  ]);
  for (const { side, tokens, x, anchor, name } of sides) {
    shown.overlay.append(svg("text", { x: x - shown.left, y: 14, "text-anchor": anchor, "font-size": 12, class: "soft" }, name));
    const first = Math.max(0, Math.ceil((shown.top - 6) / layout.row - 0.3));
    const last = Math.min(tokens.length, Math.ceil((shown.top + shown.height - layout.top) / layout.row));
    for (let place = first; place < last; place += 1) {
      const y = layout.top - shown.top + (place + 0.5) * layout.row;
      const chosen = only?.side === side && only.place === place;
      const size = Math.min(14, layout.row * 0.75);
      const where = { x: x - shown.left, y, dy: "0.35em", "text-anchor": anchor, "font-size": size, class: chosen && "chosen" };
      shown.overlay.append(svg("text", where, labelOf(tokens[place], layout.narrow)));
    }
  }
}
