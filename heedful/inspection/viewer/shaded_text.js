/** Create texts and tables that are shaded by attention weights. */

import { findMax, getVector } from "heedful/arrays.js";
import { formatColour, getContrastColour } from "heedful/colour.js";
import { createElement } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { Colour } from "heedful/colour.js" */
/** @typedef {(weight: number) => Colour} GetColour returns the colour of a weight from 0 to 1 */

/**
 * Return one row of a matrix, with weights clipped to the range from 0 to 1.
 * @param {NumberArray} weights
 * @param {number} row
 * @returns {number[]}
 */
export function getWeightRow(weights, row) {
  return getVector(weights, row).map((weight) => Math.min(1, Math.max(0, weight)));
}

/**
 * Return the style of a colour as background, with letters in black or white.
 * @param {Colour} colour
 */
export function getColourStyle(colour) {
  return { background: formatColour(colour), color: getContrastColour(colour) };
}

/**
 * Create one word for each token, shaded by its weight.
 * @param {string[]} tokens
 * @param {number[]} weights
 * @param {GetColour} getColour
 * @param {number} [maxWeight] the weight that has the colour of 1
 * @returns {HTMLElement[]}
 */
export function createShadedWords(tokens, weights, getColour, maxWeight = findMax(weights)) {
  return tokens.map((token, k) => createElement("span", {
    class: "word shaded",
    style: getColourStyle(getColour(maxWeight > 0 ? weights[k] / maxWeight : 0)),
    title: `${formatToken(token)}: ${formatNumber(weights[k], 4)}`,
    "data-weight": weights[k],
  }, formatToken(token)));
}

/**
 * Create a region for words, which scrolls if there are many.
 * @param {string} label
 * @param {import("heedful/dom.js").Child} words
 * @returns {HTMLElement}
 */
export function createWordRegion(label, words) {
  return createElement("div", { class: "words", tabindex: 0, role: "region", "aria-label": label }, words);
}

/**
 * Create a section with a text that is shaded by weights.
 * @param {string} title
 * @param {string[]} tokens
 * @param {number[]} weights
 * @param {GetColour} getColour
 * @param {number} [maxWeight] the weight that has the colour of 1
 * @returns {HTMLElement}
 */
export function createShadedText(title, tokens, weights, getColour, maxWeight) {
  return createElement("section", {}, createElement("h2", {}, title),
    createWordRegion(`${title}: tokens shaded by weight`, createShadedWords(tokens, weights, getColour, maxWeight)));
}

/**
 * Create a table with one row for each text and one column of shaded weights for each step. Texts that are known to
 * matter have a mark.
 * @param {object} content
 * @param {string} content.title of the column of texts
 * @param {string[]} content.texts
 * @param {string[]} content.steps
 * @param {number[][]} content.weights of each step, of each text
 * @param {number[]} content.marked indices of texts
 * @param {GetColour} content.getColour
 * @param {number} [content.selected] a step
 * @returns {HTMLElement}
 */
export function createWeightTable({ title, texts, steps, weights, marked, getColour, selected = -1 }) {
  const maxWeight = findMax(weights.flat());
  const createCell = (/** @type {number} */ step, /** @type {number} */ i) => {
    const weight = weights[step][i];
    const style = getColourStyle(getColour(maxWeight > 0 ? weight / maxWeight : 0));
    return createElement("td", { style, "data-weight": weight }, formatNumber(weight, 3));
  };
  const header = createElement("tr", {}, createElement("th", { scope: "col" }, title),
    steps.map((name, step) => createElement("th", { scope: "col", class: step === selected ? "is-chosen" : "" }, name)));
  const rows = texts.map((text, i) => {
    const isMarked = marked.includes(i);
    const name = createElement("th", { scope: "row" },
      isMarked && createElement("span", { class: "known" }, "● "),
      formatToken(text),
      isMarked && createElement("span", { class: "visually-hidden" }, " (known to matter)"));
    return createElement("tr", { class: isMarked ? "is-marked" : "" }, name, steps.map((_, step) => createCell(step, i)));
  });
  return createElement("div", { class: "wide", tabindex: 0, role: "region", "aria-label": title },
    createElement("table", { class: "numbers weights" }, createElement("thead", {}, header), createElement("tbody", {}, rows)));
}
