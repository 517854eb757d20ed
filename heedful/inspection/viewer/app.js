/** What is chosen on the page; views read it, change it and hear of changes. */

import { onPaper as rampOnPaper } from "heedful/colour.js";

/** @typedef {import("heedful/record.js").Inspection} Inspection */
/**
 * @typedef {object} State
 * @property {string} view id of the view
 * @property {number} map index into the record's maps
 * @property {number | "mean"} head a head's number in the model, or the mean over heads
 * @property {number | null} query index of the chosen query token
 * @property {"auto" | "light" | "dark"} theme
 * @property {string} ramp name of the colours of weights
 */
/**
 * @typedef {object} App
 * @property {() => State} get
 * @property {(changes: Partial<State>) => void} set
 * @property {(listener: (state: State, before: State) => void) => () => void} subscribe returns how to stop
 * @property {() => boolean} dark whether the page is dark now; never on paper
 * @property {() => {query: number, key: number} | null} spot a cell of the chosen map that is pointed out
 * @property {(spot: {query: number, key: number} | null) => void} point
 * @property {() => string} ramp the colours of weights as they are on the page's paper now
 */

const THEMES = ["auto", "light", "dark"];

/**
 * @param {Inspection} record
 * @param {{views: string[], ramps: string[]}} names what may be chosen, the defaults first
 * @returns {App}
 */
export function createApp(record, names) {
  /** @type {Set<(state: State, before: State) => void>} */
  const listeners = new Set();
  /** @type {{query: number, key: number} | null} */ let spot = null;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const onPaper = matchMedia("print");
  const first = Math.max(0, record.maps.findLastIndex((map) => ["cross", "summary"].includes(map.role)));
  let state = valid(record, names, {
    view: "", map: first, head: "mean", query: null, theme: "auto", ramp: "", ...fromHash(location.hash),
  });

  const dark = () => !onPaper.matches && (state.theme === "dark" || (state.theme === "auto" && prefersDark.matches));
  const tell = (/** @type {State} */ before) => [...listeners].forEach((listener) => listener(state, before));
  for (const media of [prefersDark, onPaper]) media.addEventListener("change", () => tell(state));
  addEventListener("hashchange", () => set(fromHash(location.hash)));

  /** @param {Partial<State>} changes */
  function set(changes) {
    const before = state;
    const other = changes.map !== undefined && changes.map !== before.map && changes.query === undefined;
    state = valid(record, names, { ...before, ...changes, ...(other && !sameQueries(before.map, changes.map ?? 0) ? { query: null } : {}) });
    if (toHash(state) === toHash(before)) return;
    keep(toHash(state));
    tell(before);
  }
  const sameQueries = (/** @type {number} */ one, /** @type {number} */ two) => record.maps[one]?.queries === record.maps[two]?.queries;

  return {
    get: () => state,
    set,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    dark,
    spot: () => spot,
    point: (wanted) => {
      if (wanted?.query === spot?.query && wanted?.key === spot?.key) return;
      spot = wanted;
      tell(state);
    },
    ramp: () => rampOnPaper(state.ramp, dark()),
  };
}

/**
 * The nearest state that this record has.
 * @param {Inspection} record
 * @param {{views: string[], ramps: string[]}} names
 * @param {State} state
 * @returns {State}
 */
function valid(record, { views, ramps }, state) {
  const map = record.maps[state.map] ? state.map : 0;
  const { heads = [], queryAxis = null } = record.maps[map] ?? {};
  const known = state.head !== "mean" && heads.includes(state.head);
  const inside = state.query !== null && state.query >= 0 && state.query < (queryAxis?.tokens.length ?? 0);
  return Object.freeze({
    view: views.includes(state.view) ? state.view : views[0],
    map,
    head: known ? state.head : heads.length === 1 ? heads[0] : "mean",
    query: inside ? state.query : null,
    theme: THEMES.includes(state.theme) ? state.theme : "auto",
    ramp: ramps.includes(state.ramp) ? state.ramp : ramps[0],
  });
}

/** @param {State} state */
function toHash(state) {
  const shown = Object.entries(state).filter(([, value]) => value !== null);
  return `#${new URLSearchParams(shown.map(([name, value]) => [name, String(value)]))}`;
}

/**
 * @param {string} hash
 * @returns {Partial<State>}
 */
function fromHash(hash) {
  const read = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  const number = (/** @type {string} */ name) => (/^\d+$/.test(read[name] ?? "") ? { [name]: Number(read[name]) } : {});
  const text = (/** @type {string} */ name) => (name in read ? { [name]: read[name] } : {});
  return {
    ...text("view"), ...text("theme"), ...text("ramp"), ...number("map"), ...number("query"),
    ...(read.head === "mean" ? { head: "mean" } : number("head")),
  };
}

/**
 * A frame without an address of its own (a notebook's) keeps nothing: there a new hash would load the page around it.
 * @param {string} hash
 */
function keep(hash) {
  if (location.protocol === "file:" || location.protocol.startsWith("http")) history.replaceState(null, "", hash);
}
