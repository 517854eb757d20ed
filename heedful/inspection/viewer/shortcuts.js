/** Add the keyboard shortcuts of the page, and list them in a dialog. */

import { createElement } from "heedful/dom.js";
import { switchTheme } from "heedful/toolbar.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { InspectionRecord } from "heedful/record.js" */
/** @import { Store } from "heedful/store.js" */

/**
 * Create the dialog that lists the shortcuts.
 * @param {PageView[]} views
 * @returns {HTMLDialogElement}
 */
export function createShortcutsDialog(views) {
  const shortcuts = [
    ...views.slice(0, 9).map(({ title }, i) => [String(i + 1), title]),
    ["[  ]", "previous layer, next layer"],
    [",  .", "previous head, next head"],
    ["m", "mean of all heads"],
    ["t", "theme: system, light, dark"],
    ["arrows", "move in a picture or between tabs"],
    ["?", "show this list"],
  ];
  const list = shortcuts.map(([key, meaning]) =>
    [createElement("dt", {}, createElement("kbd", {}, key)), createElement("dd", {}, meaning)]);
  return createElement(
    "dialog",
    { id: "keys", "aria-labelledby": "keys-title" },
    createElement("h2", { id: "keys-title" }, "Keyboard shortcuts"),
    createElement("dl", {}, list),
    createElement("form", { method: "dialog" }, createElement("button", {}, "Close")),
  );
}

/**
 * Listen to the shortcuts.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {PageView[]} views
 * @param {HTMLDialogElement} dialog
 */
export function addShortcuts(record, store, views, dialog) {
  /** @type {Record<string, () => void>} */
  const actions = {
    "[": () => store.set({ map: getNeighbourMap(record, store, -1) }),
    "]": () => store.set({ map: getNeighbourMap(record, store, 1) }),
    ",": () => store.set({ head: getNextHead(record, store, -1) }),
    ".": () => store.set({ head: getNextHead(record, store, 1) }),
    m: () => store.set({ head: "mean" }),
    t: () => switchTheme(store),
    "?": () => dialog.showModal(),
    ...Object.fromEntries(views.slice(0, 9).map(({ id }, i) => [String(i + 1), () => store.set({ view: id })])),
  };
  addEventListener("keydown", (event) => {
    const isInput = event.target instanceof Element && event.target.closest("input[type=text], input[type=search], textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || isInput || dialog.open || event.defaultPrevented) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/**
 * Return the index of the map in another layer of the same role, or of the present map if there is no such layer.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {number} step 1 for the next layer, -1 for the previous one
 * @returns {number}
 */
export function getNeighbourMap(record, store, step) {
  const { map } = store.get();
  if (!record.maps[map]) return map;
  const layers = record.listMaps(record.maps[map].role);
  const place = layers.indexOf(record.maps[map]) + step;
  return layers[place] ? record.maps.indexOf(layers[place]) : map;
}

/**
 * Return the next or previous head of the selected map, or the present one if there is no other.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {number} step 1 for the next head, -1 for the previous one
 * @returns {number | "mean"}
 */
function getNextHead(record, store, step) {
  const { map, head } = store.get();
  const heads = record.maps[map]?.heads ?? [];
  if (head === "mean") return heads[step > 0 ? 0 : heads.length - 1] ?? "mean";
  return heads[heads.indexOf(head) + step] ?? head;
}
