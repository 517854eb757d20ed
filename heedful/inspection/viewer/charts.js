/** Create small charts: a line with axes, and bars. */

import { createElement, createSvg } from "heedful/dom.js";
import { formatNumber } from "heedful/formatting.js";

const CHART_SIZE = { width: 460, height: 220, left: 56, right: 14, top: 28, bottom: 36 };

/**
 * Compute round numbers that divide a range.
 * @param {number} low
 * @param {number} high
 * @param {number} count approximate number of ticks
 * @returns {number[]}
 */
function computeTicks(low, high, count) {
  if (!(high > low)) return [low];
  const distance = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(distance));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= distance) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/**
 * @param {object} chart
 * @param {[x: number, y: number][]} chart.points from left to right
 * @param {string} chart.xLabel
 * @param {string} chart.yLabel
 * @param {string} chart.label of the chart
 * @returns {SVGElement}
 */
export function createLineChart({ points, xLabel, yLabel, label }) {
  const { width, height, left, right, top, bottom } = CHART_SIZE;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [Math.min(0, ...ys), Math.max(0, ...ys)];
  const scaleX = (/** @type {number} */ value) => left + ((value - x0) / (x1 - x0 || 1)) * (width - left - right);
  const scaleY = (/** @type {number} */ value) => height - bottom - ((value - y0) / (y1 - y0 || 1)) * (height - top - bottom);
  const yTicks = computeTicks(y0, y1, 4);
  const digits = Math.max(0, Math.min(4, 1 - Math.floor(Math.log10((yTicks[1] ?? 1) - yTicks[0] || 1))));
  const range = `from ${formatNumber(Math.min(...ys))} to ${formatNumber(Math.max(...ys))}`;
  return createSvg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${range}` },
    yTicks.map((tick) => [
      createSvg("line", { class: tick === 0 ? "axis" : "rule", x1: left, x2: width - right, y1: scaleY(tick), y2: scaleY(tick) }),
      createSvg("text", { x: left - 8, y: scaleY(tick), "text-anchor": "end", "dominant-baseline": "central" }, formatNumber(tick, digits)),
    ]),
    computeTicks(x0, x1, 6).map((tick) =>
      createSvg("text", { x: scaleX(tick), y: height - bottom + 16, "text-anchor": "middle" }, formatNumber(tick, Number.isInteger(tick) ? 0 : 1))),
    createSvg("line", { class: "axis", x1: scaleX(0), x2: scaleX(0), y1: top, y2: height - bottom }),
    createSvg("polyline", { class: "line", points: points.map(([x, y]) => `${scaleX(x).toFixed(1)},${scaleY(y).toFixed(1)}`).join(" ") }),
    points.map(([x, y]) => createSvg("circle", { class: "dot", cx: scaleX(x), cy: scaleY(y), r: points.length > 80 ? 1.5 : 2.5 },
      createSvg("title", {}, `${xLabel} ${x}: ${formatNumber(y, 4)}`))),
    createSvg("text", { class: "axis-name", x: width - right, y: height - 4, "text-anchor": "end" }, xLabel),
    createSvg("text", { class: "axis-name", x: 6, y: 14 }, yLabel),
  );
}

/**
 * Create a bar with its number.
 * @param {number} share length, from 0 to 1
 * @param {string} text
 * @param {string} [className]
 * @returns {HTMLElement}
 */
export function createBar(share, text, className = "") {
  const width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return createElement("span", { class: `bar-line ${className}` },
    createElement("span", { class: "bar", "aria-hidden": "true" }, createElement("span", { style: { width } })),
    createElement("span", { class: "bar-text" }, text));
}
