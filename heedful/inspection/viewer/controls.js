/** Create controls that several views use. */

import { createElement, createLabel } from "heedful/dom.js";
import { formatToken } from "heedful/formatting.js";

/**
 * @typedef {object} TokenRow
 * @property {HTMLElement} node
 * @property {(place: number | null) => void} mark marks a token as selected; null marks none
 * @property {HTMLButtonElement[]} buttons
 */

/**
 * Create a row of tokens from which users select one by click or arrow keys.
 * @param {string[]} tokens
 * @param {object} options
 * @param {string} options.label
 * @param {number | null} options.selected
 * @param {(place: number) => void} options.onSelect
 * @returns {TokenRow}
 */
export function createTokenRow(tokens, { label, selected, onSelect }) {
  const buttons = tokens.map((token, place) =>
    createElement("button", { type: "button", class: "token", role: "radio", "data-row": place, onclick: () => onSelect(place) }, formatToken(token)),
  );
  let now = selected;
  const mark = (/** @type {number | null} */ place) => {
    now = place;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-checked", String(i === place));
      button.tabIndex = i === (place ?? 0) ? 0 : -1;
    });
  };
  const onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const end = { Home: 0, End: tokens.length - 1 }[event.key];
    if (step === undefined && end === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const place = end ?? Math.min(tokens.length - 1, Math.max(0, (now ?? 0) + (step ?? 0)));
    onSelect(place);
    buttons[place].focus();
  };
  mark(selected);
  return { node: createElement("div", { class: "token-row", role: "radiogroup", "aria-label": label, onkeydown }, buttons), mark, buttons };
}

/**
 * Create a select with its label.
 * @param {string} label
 * @param {string[][]} options values and texts
 * @param {string} selected
 * @param {(value: string) => void} onSelect
 * @returns {{node: HTMLElement, select: HTMLSelectElement}}
 */
export function createSelect(label, options, selected, onSelect) {
  const select = createElement("select", {}, options.map(([value, text]) => createElement("option", { value }, text)));
  select.value = selected;
  select.addEventListener("change", () => onSelect(select.value));
  return { node: createLabel(label, select), select };
}
