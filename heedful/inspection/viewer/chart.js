/** Small charts: a line with axes, and bars. */

import { element, svg } from "heedful/dom.js";
import { written } from "heedful/strips.js";

const SIZE = { width: 460, height: 220, left: 56, right: 14, top: 28, bottom: 36 };

/**
 * Round numbers that divide a range.
 * @param {number} low @param {number} high @param {number} count about how many
 * @returns {number[]}
 */
export function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/**
 * @param {object} chart
 * @param {[number, number][]} chart.points from left to right
 * @param {string} chart.across what the lower axis counts
 * @param {string} chart.up what the other one does
 * @param {string} chart.label
 * @returns {SVGElement}
 */
export function lineChart({ points, across, up, label }) {
  const { width, height, left, right, top, bottom } = SIZE;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [Math.min(0, ...ys), Math.max(0, ...ys)];
  const x = (value) => left + ((value - x0) / (x1 - x0 || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - y0) / (y1 - y0 || 1)) * (height - top - bottom);
  const levels = ticks(y0, y1, 4);
  const digits = Math.max(0, Math.min(4, 1 - Math.floor(Math.log10((levels[1] ?? 1) - levels[0] || 1))));
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: from ${written(Math.min(...ys))} to ${written(Math.max(...ys))}` },
    levels.map((each) => [
      svg("line", { class: each === 0 ? "axis" : "rule", x1: left, x2: width - right, y1: y(each), y2: y(each) }),
      svg("text", { x: left - 8, y: y(each), "text-anchor": "end", "dominant-baseline": "central" }, written(each, digits)),
    ]),
    ticks(x0, x1, 6).map((each) => svg("text", { x: x(each), y: height - bottom + 16, "text-anchor": "middle" }, written(each, Number.isInteger(each) ? 0 : 1))),
    svg("line", { class: "axis", x1: x(0), x2: x(0), y1: top, y2: height - bottom }),
    svg("polyline", { class: "line", points: points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }),
    points.map(([a, b]) => svg("circle", { class: "dot", cx: x(a), cy: y(b), r: points.length > 80 ? 1.5 : 2.5 }, svg("title", {}, `${across} ${a}: ${written(b, 4)}`))),
    svg("text", { class: "axis-name", x: width - right, y: height - 4, "text-anchor": "end" }, across),
    svg("text", { class: "axis-name", x: 6, y: 14 }, up),
  );
}

/**
 * A bar from 0 to 1 with its number.
 * @param {number} share
 * @param {string} text
 * @param {string} [kind] a class
 * @returns {HTMLElement}
 */
export function bar(share, text, kind = "") {
  const width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return element("span", { class: `bar-line ${kind}` }, element("span", { class: "bar", "aria-hidden": "true" }, element("span", { style: { width } })), element("span", { class: "bar-text" }, text));
}
