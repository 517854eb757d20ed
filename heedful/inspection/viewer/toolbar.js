/** Create the toolbar: which attention is shown, and in which colours and theme. */

import { getHeadColour, RAMP_CHOICES } from "heedful/colour.js";
import { createElement, createLabel } from "heedful/dom.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionRole, InspectionRecord } from "heedful/record.js" */
/** @import { Store } from "heedful/store.js" */

/** @type {Record<AttentionRole, string>} */
const ROLE_NAMES = {
  encoder: "encoder self-attention",
  decoder: "decoder self-attention",
  cross: "cross attention",
  summary: "summary",
};
const NEXT_THEME = /** @type {const} */ ({ auto: "light", light: "dark", dark: "auto" });

/**
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {PageView[]} views
 * @param {() => void} showShortcuts
 * @param {HTMLElement[]} [buttons] that the toolbar contains too
 * @returns {HTMLElement}
 */
export function createToolbar(record, store, views, showShortcuts, buttons = []) {
  const role = createSelect((value) => selectRole(record, store, value));
  const layer = createSelect((value) => store.set({ map: Number(value) }));
  const head = createSelect((value) => store.set({ head: value === "mean" ? "mean" : Number(value) }));
  const ramp = createSelect((value) => store.set({ ramp: value }));
  const theme = createElement("button", { type: "button", class: "theme", title: "Key: t", onclick: () => switchTheme(store) });
  const swatch = createElement("span", { class: "swatch", "aria-hidden": "true" });
  const controls = {
    map: [createLabel("Attention", role), createLabel("Layer", layer)],
    head: [createLabel("Head", createElement("span", { class: "with-swatch" }, head, swatch))],
    ramp: [createLabel("Colours", ramp)],
  };
  const fold = createElement("button", { type: "button", class: "fold", "aria-expanded": "false", onclick: () => {
    const open = document.documentElement.toggleAttribute("data-unfolded");
    fold.setAttribute("aria-expanded", String(open));
  } }, "Controls");
  fillSelect(role, record.listRoles().map((name) => [name, ROLE_NAMES[name]]));
  fillSelect(ramp, RAMP_CHOICES.map(({ name, title }) => [name, title]));

  const refresh = () => {
    const state = store.get();
    const map = record.maps[state.map];
    if (map) {
      const layers = record.listMaps(map.role);
      const hasSeveralKeys = layers.some(({ keys }) => keys !== map.keys);
      fillSelect(layer, layers.map((each) =>
        [String(record.maps.indexOf(each)), hasSeveralKeys ? `${each.layer} (${each.keys})` : String(each.layer)]));
      const mean = map.heads.length > 1 ? [["mean", "mean of all"]] : [];
      fillSelect(head, [...mean, ...map.heads.map((number) => [String(number), String(number)])]);
      role.value = map.role;
      layer.value = String(state.map);
      head.value = String(state.head);
      swatch.style.background = state.head === "mean" ? "transparent" : getHeadColour(state.head);
    }
    ramp.value = state.ramp;
    theme.textContent = `Theme: ${state.theme}`;
    const used = views.find(({ id }) => id === state.view)?.controls ?? ["map", "head", "ramp"];
    for (const name of /** @type {const} */ (["map", "head", "ramp"])) {
      for (const control of controls[name]) control.hidden = !map || !used.includes(name);
    }
  };
  refresh();
  store.subscribe(refresh);
  return createElement(
    "div",
    { class: "toolbar", role: "toolbar", "aria-label": "Attention and appearance" },
    fold,
    createElement("span", { class: "choices", id: "choices" }, Object.values(controls)),
    createElement("span", { class: "space" }),
    createElement("span", { class: "group" }, buttons, theme,
      createElement("button", { type: "button", onclick: showShortcuts, "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }, "?")),
  );
}

/**
 * Switch to the next theme: system, light, dark.
 * @param {Store} store
 */
export function switchTheme(store) {
  store.set({ theme: NEXT_THEME[store.get().theme] });
}

/**
 * Select the map of another role, of the same layer if there is one.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {string} role
 */
function selectRole(record, store, role) {
  const maps = record.listMaps(role);
  const { layer } = record.maps[store.get().map];
  store.set({ map: record.maps.indexOf(maps.find((map) => map.layer === layer) ?? maps[maps.length - 1]) });
}

/** @param {(value: string) => void} onSelect */
function createSelect(onSelect) {
  const select = createElement("select", { onchange: () => { onSelect(select.value); } });
  return select;
}

/**
 * Set the options of a select, unless it has them already.
 * @param {HTMLSelectElement} select
 * @param {string[][]} options values and texts
 */
function fillSelect(select, options) {
  const isFilled = [...select.options].map(({ value }) => value).join() === options.map(([value]) => value).join();
  if (!isFilled) select.replaceChildren(...options.map(([value, text]) => createElement("option", { value }, text)));
}
