/** Explain how to read a view. The explanation is open the first time, and then as the reader left it. */

import { createElement } from "heedful/dom.js";

const STORAGE_KEY = "heedful.explanations";

/** Whether the explanation of a view will be open the next time, by view. @type {Record<string, boolean>} */
const openStates = readOpenStates();

/**
 * Create the explanation of a view.
 * @param {{id: string, help: string}} view
 * @returns {HTMLElement}
 */
export function createExplanation({ id, help }) {
  const hasTour = "touring" in document.documentElement.dataset; // the tour explains its stops itself
  const details = createElement("details", { class: "help", open: !hasTour && (openStates[id] ?? true) },
    createElement("summary", { onclick: () => { saveOpenState(id, !details.open); } }, "How to read this"),
    createElement("p", {}, help));
  if (!hasTour) saveOpenState(id, openStates[id] ?? false);
  return details;
}

/**
 * @param {string} id
 * @param {boolean} open
 */
function saveOpenState(id, open) {
  openStates[id] = open;
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify(openStates));
  } catch {
    // A frame without an address has no storage, nor do files in some browsers: there the state lasts as long as the page.
  }
}

/** @returns {Record<string, boolean>} */
function readOpenStates() {
  try {
    const states = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "{}");
    return typeof states === "object" && states !== null ? states : {};
  } catch {
    return {};
  }
}
