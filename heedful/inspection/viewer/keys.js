/** Keys that work everywhere on the page, and the list of them. */

import { element } from "heedful/dom.js";
import { nextTheme } from "heedful/toolbar.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */

/**
 * @param {import("heedful/main.js").View[]} views
 * @returns {HTMLDialogElement}
 */
export function keysDialog(views) {
  const keys = [
    ...views.slice(0, 9).map(({ title }, i) => [String(i + 1), title]),
    ["[  ]", "the previous layer, the next layer"],
    [",  .", "the previous head, the next head"],
    ["m", "the mean of all heads"],
    ["t", "theme: system, light, dark"],
    ["arrows", "in a picture: move; in the tabs: another view"],
    ["?", "this list"],
  ];
  const list = keys.map(([key, meaning]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, meaning)]);
  return element(
    "dialog",
    { id: "keys", "aria-labelledby": "keys-title" },
    element("h2", { id: "keys-title" }, "Keys"),
    element("dl", {}, list),
    element("form", { method: "dialog" }, element("button", {}, "Close")),
  );
}

/**
 * @param {Inspection} record
 * @param {App} app
 * @param {import("heedful/main.js").View[]} views
 * @param {HTMLDialogElement} dialog
 */
export function listenToKeys(record, app, views, dialog) {
  const actions = {
    "[": () => app.set({ map: neighbour(record, app, -1) }),
    "]": () => app.set({ map: neighbour(record, app, 1) }),
    ",": () => app.set({ head: nextHead(record, app, -1) }),
    ".": () => app.set({ head: nextHead(record, app, 1) }),
    m: () => app.set({ head: "mean" }),
    t: () => nextTheme(app),
    "?": () => dialog.showModal(),
    ...Object.fromEntries(views.slice(0, 9).map(({ id }, i) => [String(i + 1), () => app.set({ view: id })])),
  };
  addEventListener("keydown", (event) => {
    const writing = event.target instanceof Element && event.target.closest("input[type=text], input[type=search], textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || writing || dialog.open || event.defaultPrevented) return;
    const action = /** @type {Record<string, () => void>} */ (actions)[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/**
 * The map of the layer before or after this one, of the same role; the first and last have no further one.
 * @param {Inspection} record
 * @param {App} app
 * @param {number} step
 * @returns {number}
 */
export function neighbour(record, app, step) {
  const { map } = app.get();
  if (!record.maps[map]) return map;
  const layers = record.layers(record.maps[map].role);
  const place = layers.indexOf(record.maps[map]) + step;
  return layers[place] ? record.maps.indexOf(layers[place]) : map;
}

/**
 * @param {Inspection} record
 * @param {App} app
 * @param {number} step
 * @returns {number | "mean"}
 */
function nextHead(record, app, step) {
  const { map, head } = app.get();
  const heads = record.maps[map]?.heads ?? [];
  if (head === "mean") return heads[step > 0 ? 0 : heads.length - 1] ?? "mean";
  return heads[heads.indexOf(head) + step] ?? head;
}
