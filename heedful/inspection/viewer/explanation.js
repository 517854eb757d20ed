/** How to read a view: open when it is shown for the first time, then as its reader left it. */

import { element } from "heedful/dom.js";

const KEY = "heedful.explanations";

/** By view, whether its explanation is open the next time. @type {Record<string, boolean>} */
const kept = read();

/**
 * @param {{id: string, help: string}} view
 * @returns {HTMLElement}
 */
export function explanation({ id, help }) {
  const toured = "touring" in document.documentElement.dataset; // the tour explains by itself, so this one is for later
  const details = element("details", { class: "help", open: !toured && (kept[id] ?? true) },
    element("summary", { onclick: () => keep(id, !details.open) }, "How to read this"), element("p", {}, help));
  if (!toured) keep(id, kept[id] ?? false);
  return details;
}

/**
 * @param {string} id
 * @param {boolean} open
 */
function keep(id, open) {
  kept[id] = open;
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // frames without an address, and some browsers for files, have no storage: then it lasts as long as the page
  }
}

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof found === "object" && found !== null ? found : {};
  } catch {
    return {};
  }
}
