/** Measure texts, and shorten them to a width. */

import { createElement, getContext } from "heedful/dom.js";
import { shortenText } from "heedful/formatting.js";

const FONT_FAMILY = 'ui-sans-serif, system-ui, "Segoe UI", "Noto Sans", sans-serif'; // of the page, as in style.css
const MAX_FITTED_LENGTH = 60; // characters

/** Measures all texts. @type {CanvasRenderingContext2D | null} */
let measuringContext = null;

/**
 * Return the font of the page, for canvases.
 * @param {string} font weight and size, such as "650 12px"
 */
export function getFont(font) {
  return `${font} ${FONT_FAMILY}`;
}

/**
 * Measure the width of a text in CSS pixels.
 * @param {string} text
 * @param {string} font weight and size
 * @returns {number}
 */
export function measureText(text, font) {
  measuringContext ??= getContext(createElement("canvas"));
  measuringContext.font = getFont(font);
  return measuringContext.measureText(text).width;
}

/**
 * Shorten a text to a width, with an ellipsis at the end if something is missing.
 * @param {string} text
 * @param {number} width maximum, in CSS pixels
 * @param {string} font weight and size
 * @returns {string}
 */
export function fitText(text, width, font) {
  for (let length = Math.min([...text].length, MAX_FITTED_LENGTH); length > 1; length--) {
    const shortened = shortenText(text, length);
    if (measureText(shortened, font) <= width) return shortened;
  }
  return shortenText(text, 1);
}
