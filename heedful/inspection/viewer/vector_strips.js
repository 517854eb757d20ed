/** Create strips of colours for vectors: orange above 0, blue below, the background at 0, with the numbers on hover. */

import { formatColour, getSignedColour } from "heedful/colour.js";
import { createCanvas, createElement } from "heedful/dom.js";
import { formatNumber } from "heedful/formatting.js";

const HEIGHT = 14;
const MAX_CELL_WIDTH = 16;

/**
 * @typedef {object} StripOptions
 * @property {string} name of the vector, for the readout and for screen readers
 * @property {number} maxAbs absolute value that has the full colour
 * @property {boolean} dark
 * @property {number} width maximum, in CSS pixels
 * @property {(text: string) => void} [onPoint] receives the description of the number under the pointer
 */

/**
 * @param {number[]} vector
 * @param {StripOptions} options
 * @returns {HTMLElement}
 */
export function createStrip(vector, { name, maxAbs, dark, width, onPoint = () => {} }) {
  const cell = Math.min(MAX_CELL_WIDTH, width / vector.length);
  const { canvas, context } = createCanvas(Math.round(cell * vector.length), HEIGHT);
  vector.forEach((each, i) => {
    context.fillStyle = formatColour(getSignedColour(each / (maxAbs > 0 ? maxAbs : 1), dark));
    const left = Math.round(i * cell);
    context.fillRect(left, 0, Math.round((i + 1) * cell) - left, HEIGHT);
  });
  const range = `from ${formatNumber(Math.min(...vector))} to ${formatNumber(Math.max(...vector))}`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${name}: ${vector.length} numbers, ${range}`);
  canvas.addEventListener("mousemove", (event) => {
    const shownWidth = canvas.clientWidth || cell * vector.length; // a narrow window squeezes the strip
    const place = Math.min(vector.length - 1, Math.max(0, Math.floor((event.offsetX / shownWidth) * vector.length)));
    const text = `${name}, dimension ${place}: ${formatNumber(vector[place], 4)}`;
    canvas.title = text;
    onPoint(text);
  });
  return createElement("span", { class: "strip" }, canvas);
}

/**
 * Create the legend of the colours of strips.
 * @param {number | null} maxAbs absolute value that has the full colour; null if it differs between strips
 * @param {boolean} dark
 * @returns {HTMLElement}
 */
export function createColourKey(maxAbs, dark) {
  const size = maxAbs ?? 1;
  const numbers = Array.from({ length: 41 }, (_, i) => ((i - 20) / 20) * size);
  return createElement(
    "span",
    { class: "strip-key" },
    maxAbs === null ? "below 0" : formatNumber(-maxAbs),
    createStrip(numbers, { name: "Colours of numbers", maxAbs: size, dark, width: 123 }),
    maxAbs === null ? "above 0" : formatNumber(maxAbs),
  );
}
