/** Vectors as strips of colour: orange above 0, blue below, paper at 0; numbers on hover. */

import { signed, css } from "heedful/colour.js";
import { canvasFor, element } from "heedful/dom.js";

const HEIGHT = 14;
const WIDEST = 16;

/**
 * A number as text.
 * @param {number} value
 * @param {number} [digits] after the point
 * @returns {string}
 */
export function written(value, digits = 2) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "?" : value > 0 ? "∞" : "−∞";
  const text = Math.abs(value) >= 1e4 ? value.toExponential(1) : value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/**
 * The largest size of any number in these vectors, 0 included.
 * @param {...number[]} vectors
 * @returns {number}
 */
export function largest(...vectors) {
  return vectors.reduce((most, vector) => vector.reduce((size, each) => Math.max(size, Math.abs(each)), most), 0);
}

/**
 * @param {number[]} vector
 * @param {object} look
 * @param {string} look.name what the vector is, for those who hear the page and for the readout
 * @param {number} look.most the size of a number in full colour
 * @param {boolean} look.dark
 * @param {number} look.width most pixels that it may take
 * @param {(text: string) => void} [look.tell] gets what is under the pointer
 * @returns {HTMLElement}
 */
export function strip(vector, { name, most, dark, width, tell = () => {} }) {
  const cell = Math.min(WIDEST, width / vector.length);
  const { canvas, context } = canvasFor(Math.round(cell * vector.length), HEIGHT);
  const full = most > 0 ? most : 1;
  vector.forEach((each, i) => {
    context.fillStyle = css(signed(each / full, dark));
    const left = Math.round(i * cell);
    context.fillRect(left, 0, Math.round((i + 1) * cell) - left, HEIGHT);
  });
  const ends = `${written(Math.min(...vector))} to ${written(Math.max(...vector))}`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${name}: ${vector.length} numbers, ${ends}`);
  canvas.addEventListener("mousemove", (event) => {
    const shown = canvas.clientWidth || cell * vector.length; // a narrow window squeezes it
    const place = Math.min(vector.length - 1, Math.max(0, Math.floor((event.offsetX / shown) * vector.length)));
    const text = `${name}, dimension ${place}: ${written(vector[place], 4)}`;
    canvas.title = text;
    tell(text);
  });
  return element("span", { class: "strip" }, canvas);
}

/**
 * The meaning of the strips' colours.
 * @param {number|null} most the size of a number in full colour; null where it differs @param {boolean} dark
 * @returns {HTMLElement}
 */
export function stripKey(most, dark) {
  const size = most ?? 1;
  const steps = Array.from({ length: 41 }, (_, i) => ((i - 20) / 20) * size);
  return element(
    "span",
    { class: "strip-key" },
    most === null ? "below 0" : written(-most),
    strip(steps, { name: "Colours of numbers", most: size, dark, width: 123 }),
    most === null ? "above 0" : written(most),
  );
}
