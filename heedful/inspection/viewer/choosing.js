/** Controls that several views share: which token, which map, which head. */

import { element, labelled } from "heedful/dom.js";
import { display } from "heedful/record.js";

/**
 * Tokens in a row, one of them chosen by click or arrow keys.
 * @param {string[]} tokens
 * @param {object} about
 * @param {string} about.label
 * @param {number|null} about.chosen
 * @param {(place: number) => void} about.choose
 * @returns {{node: HTMLElement, mark: (chosen: number|null) => void, buttons: HTMLElement[]}}
 */
export function tokenRow(tokens, { label, chosen, choose }) {
  const buttons = tokens.map((token, place) =>
    element("button", { type: "button", class: "token", role: "radio", "data-row": place, onclick: () => choose(place) }, display(token)),
  );
  let now = chosen;
  const mark = (place) => {
    now = place;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-checked", String(i === place));
      button.tabIndex = i === (place ?? 0) ? 0 : -1;
    });
  };
  const onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const ends = { Home: 0, End: tokens.length - 1 }[event.key];
    if (step === undefined && ends === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const place = ends ?? Math.min(tokens.length - 1, Math.max(0, (now ?? 0) + step));
    choose(place);
    buttons[place].focus();
  };
  mark(chosen);
  return { node: element("div", { class: "token-row", role: "radiogroup", "aria-label": label, onkeydown }, buttons), mark, buttons };
}

/**
 * A list to choose from.
 * @param {string} label
 * @param {[string, string][]} options value and text
 * @param {string} chosen
 * @param {(value: string) => void} choose
 * @returns {{node: HTMLElement, select: HTMLSelectElement}}
 */
export function choice(label, options, chosen, choose) {
  const select = element("select", {}, options.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => choose(select.value));
  return { node: labelled(label, select), select };
}
