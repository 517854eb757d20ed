/** Store the state of the page. Views read it, change it, and are notified of changes. */

import { resolveRamp } from "heedful/colour.js";

/** @import { InspectionRecord } from "heedful/record.js" */

/**
 * @typedef {object} PageState
 * @property {string} view id of the view
 * @property {number} map index of a map of the record
 * @property {number | "mean"} head number of the head in the model, or the mean over heads
 * @property {number | null} query index of the selected query
 * @property {"auto" | "light" | "dark"} theme
 * @property {string} ramp name of the colour ramp of weights
 */
/** @typedef {{query: number, key: number}} MapCell */
/** @typedef {(state: PageState, before: PageState) => void} StateListener */
/**
 * @typedef {object} Store
 * @property {() => PageState} get
 * @property {(changes: Partial<PageState>) => void} set
 * @property {(listener: StateListener) => () => void} subscribe returns the function that ends the subscription
 * @property {() => boolean} isDark whether the page is dark; printed pages never are
 * @property {() => MapCell | null} getHighlight the highlighted cell of the selected map
 * @property {(cell: MapCell | null) => void} setHighlight
 * @property {() => string} getRampName the colour ramp of weights in the present theme
 */
/** @typedef {{views: string[], ramps: string[]}} StateNames names that the state may contain, the defaults first */

const THEMES = ["auto", "light", "dark"];

/** Present ids of views whose id has changed, so that old links still work. @type {Record<string, string>} */
const RENAMED_VIEWS = { mattered: "attribution" };

/**
 * Create the store of a page.
 * @param {InspectionRecord} record
 * @param {StateNames} names
 * @returns {Store}
 */
export function createStore(record, names) {
  /** @type {Set<StateListener>} */
  const listeners = new Set();
  /** @type {MapCell | null} */ let highlight = null;
  const darkScheme = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const first = Math.max(0, record.maps.findLastIndex((map) => ["cross", "summary"].includes(map.role)));
  let state = normalizeState(record, names, {
    view: "", map: first, head: "mean", query: null, theme: "auto", ramp: "", ...parseHash(location.hash),
  });

  const isDark = () => !print.matches && (state.theme === "dark" || (state.theme === "auto" && darkScheme.matches));
  const notifyListeners = (/** @type {PageState} */ before) => [...listeners].forEach((listener) => listener(state, before));
  for (const media of [darkScheme, print]) media.addEventListener("change", () => notifyListeners(state));
  addEventListener("hashchange", () => set(parseHash(location.hash)));

  /** @param {Partial<PageState>} changes */
  function set(changes) {
    const before = state;
    const next = { ...before, ...changes };
    const keepsQuery = changes.query !== undefined || record.maps[next.map]?.queries === record.maps[before.map]?.queries;
    state = normalizeState(record, names, keepsQuery ? next : { ...next, query: null });
    if (formatHash(state) === formatHash(before)) return;
    replaceHash(formatHash(state));
    notifyListeners(before);
  }

  return {
    get: () => state,
    set,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    isDark,
    getHighlight: () => highlight,
    setHighlight: (cell) => {
      if (cell?.query === highlight?.query && cell?.key === highlight?.key) return;
      highlight = cell;
      notifyListeners(state);
    },
    getRampName: () => resolveRamp(state.ramp, isDark()),
  };
}

/**
 * Replace the values that do not fit the record by defaults.
 * @param {InspectionRecord} record
 * @param {StateNames} names
 * @param {PageState} state
 * @returns {PageState}
 */
function normalizeState(record, { views, ramps }, state) {
  const map = record.maps[state.map] ? state.map : 0;
  const { heads = [], queryAxis = null } = record.maps[map] ?? {};
  const hasHead = state.head !== "mean" && heads.includes(state.head);
  const hasQuery = state.query !== null && state.query >= 0 && state.query < (queryAxis?.tokens.length ?? 0);
  return Object.freeze({
    view: views.includes(state.view) ? state.view : views[0],
    map,
    head: hasHead ? state.head : heads.length === 1 ? heads[0] : "mean",
    query: hasQuery ? state.query : null,
    theme: THEMES.includes(state.theme) ? state.theme : "auto",
    ramp: ramps.includes(state.ramp) ? state.ramp : ramps[0],
  });
}

/** @param {PageState} state */
function formatHash(state) {
  const shown = Object.entries(state).filter(([, value]) => value !== null);
  return `#${new URLSearchParams(shown.map(([name, value]) => [name, String(value)]))}`;
}

/**
 * @param {string} hash
 * @returns {Partial<PageState>}
 */
function parseHash(hash) {
  const values = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  const parseNumber = (/** @type {string} */ name) => (/^\d+$/.test(values[name] ?? "") ? { [name]: Number(values[name]) } : {});
  const parseText = (/** @type {string} */ name) => (name in values ? { [name]: values[name] } : {});
  return {
    ...("view" in values ? { view: RENAMED_VIEWS[values.view] ?? values.view } : {}),
    ...parseText("theme"), ...parseText("ramp"), ...parseNumber("map"), ...parseNumber("query"),
    ...(values.head === "mean" ? { head: "mean" } : parseNumber("head")),
  };
}

/**
 * Write the state into the address of the page. A frame without an address of its own, as in a notebook, is left
 * alone: there a new hash would load the page around it.
 * @param {string} hash
 */
function replaceHash(hash) {
  if (location.protocol === "file:" || location.protocol.startsWith("http")) history.replaceState(null, "", hash);
}
