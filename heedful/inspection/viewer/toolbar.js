/** What is looked at: role, layer and head; and how: colours and theme. */

import { headColour, ramps } from "heedful/colour.js";
import { element, labelled } from "heedful/dom.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */

/** Names of roles for users. */
const ROLES = { encoder: "encoder: source to source", decoder: "decoder: to the text read so far", cross: "cross: written text to its input" };
const NEXT_THEME = /** @type {const} */ ({ auto: "light", light: "dark", dark: "auto" });

/**
 * @param {Inspection} record
 * @param {App} app
 * @param {import("heedful/main.js").View[]} views
 * @param {() => void} showKeys
 * @param {HTMLElement[]} [more] buttons of others
 * @returns {HTMLElement}
 */
export function toolbar(record, app, views, showKeys, more = []) {
  const role = select((value) => chooseRole(record, app, value));
  const layer = select((value) => app.set({ map: Number(value) }));
  const head = select((value) => app.set({ head: value === "mean" ? "mean" : Number(value) }));
  const colours = select((value) => app.set({ ramp: value }));
  const theme = element("button", { type: "button", class: "theme", title: "t", onclick: () => nextTheme(app) });
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  const controls = {
    map: [labelled("Attention", role), labelled("Layer", layer)],
    head: [labelled("Head", element("span", { class: "with-swatch" }, head, swatch))],
    ramp: [labelled("Colours", colours)],
  };
  const fold = element("button", { type: "button", class: "fold", "aria-expanded": "false", onclick: () => {
    const open = document.documentElement.toggleAttribute("data-unfolded");
    fold.setAttribute("aria-expanded", String(open));
  } }, "Controls");
  fill(role, record.roles().map((name) => [name, ROLES[name] ?? name]));
  fill(colours, ramps.map(({ name, title }) => [name, title]));

  const refresh = () => {
    const state = app.get();
    const map = record.maps[state.map];
    if (map) {
      const layers = record.layers(map.role);
      const several = layers.some(({ keys }) => keys !== map.keys);
      fill(layer, layers.map((each) => [String(record.maps.indexOf(each)), several ? `${each.layer} (${each.keys})` : String(each.layer)]));
      const mean = map.heads.length > 1 ? [["mean", "mean of all"]] : [];
      fill(head, [...mean, ...map.heads.map((number) => [String(number), String(number)])]);
      role.value = map.role;
      layer.value = String(state.map);
      head.value = String(state.head);
      swatch.style.background = state.head === "mean" ? "transparent" : headColour(state.head);
    }
    colours.value = state.ramp;
    theme.textContent = `Theme: ${state.theme}`;
    const wanted = views.find(({ id }) => id === state.view)?.chooses ?? ["map", "head", "ramp"];
    for (const [name, parts] of Object.entries(controls)) {
      for (const part of parts) part.hidden = !map || !wanted.includes(/** @type {any} */ (name));
    }
  };
  refresh();
  app.subscribe(refresh);
  return element(
    "div",
    { class: "toolbar", role: "toolbar", "aria-label": "What is shown" },
    fold,
    element("span", { class: "choices", id: "choices" }, Object.values(controls)),
    element("span", { class: "space" }),
    element("span", { class: "group" }, more, theme,
      element("button", { type: "button", onclick: showKeys, "aria-label": "Keys", title: "?" }, "?")),
  );
}

/** @param {App} app */
export function nextTheme(app) {
  app.set({ theme: NEXT_THEME[app.get().theme] });
}

/**
 * The map of another role, in the same layer where it is there.
 * @param {Inspection} record
 * @param {App} app
 * @param {string} role
 */
function chooseRole(record, app, role) {
  const maps = record.layers(/** @type {any} */ (role));
  const layer = record.maps[app.get().map].layer;
  app.set({ map: record.maps.indexOf(maps.find((map) => map.layer === layer) ?? maps[maps.length - 1]) });
}

/** @param {(value: string) => void} chosen */
function select(chosen) {
  const made = element("select", { onchange: () => chosen(made.value) });
  return made;
}

/**
 * @param {HTMLSelectElement} control
 * @param {string[][]} options
 */
function fill(control, options) {
  const same = [...control.options].map(({ value }) => value).join() === options.map(([value]) => value).join();
  if (!same) control.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
}
