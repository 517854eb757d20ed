/** All heads in numbers, to find the interesting ones. */

import { headColour } from "heedful/colour.js";
import { element } from "heedful/dom.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {import("heedful/record.js").Measures} Measures */
/** @typedef {Measures & {index: number, role: string, layer: number, head: number}} Row */

/** @type {{name: keyof Row, title: string, about: string, digits: number}[]} */
const COLUMNS = [
  { name: "role", title: "Attention", about: "who looks at whom", digits: 0 },
  { name: "layer", title: "Layer", about: "from 0", digits: 0 },
  { name: "head", title: "Head", about: "from 0", digits: 0 },
  { name: "entropy", title: "Entropy", about: "relative to equal weights: 0 looks at one token, 1 at all equally", digits: 3 },
  { name: "distance", title: "Distance", about: "tokens between the one that looks and the one looked at", digits: 2 },
  { name: "diagonal", title: "Diagonal", about: "weight on the token with the same number", digits: 3 },
  { name: "previous", title: "Previous", about: "weight on the token before that one", digits: 3 },
  { name: "next", title: "Next", about: "weight on the token after it", digits: 3 },
  { name: "first", title: "First", about: "weight on the first token", digits: 3 },
  { name: "last", title: "Last", about: "weight on the last token", digits: 3 },
  { name: "largest", title: "Largest", about: "the largest weight of each query", digits: 3 },
];
const SHARES = new Set(["entropy", "diagonal", "previous", "next", "first", "last", "largest"]);

export const view = {
  id: "summary",
  title: "Summary",
  help:
    "One line for each head; every number is a mean over the tokens that look. Sort by a column to find heads that " +
    "look at the token before (Previous), follow the other text word by word (Diagonal), gather everything (Entropy " +
    "near 1) or rest on one place (First, Last). Choose a head to see its map.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ ([]),
  available: (/** @type {Inspection} */ record) => record.maps.length > 0,
  show,
};

/**
 * @param {HTMLElement} host
 * @param {Inspection} record
 * @param {App} app
 * @returns {() => void}
 */
function show(host, record, app) {
  const rows = record.maps.flatMap(({ role, layer, heads, measures }, index) =>
    heads.map((head, place) => ({ index, role, layer, head, ...measures[place] })));
  host.append(banner(rows, app), sortable(rows, app));
  return () => {};
}

/**
 * The note about a head that looks at nothing in particular, or always at the same tokens.
 * @param {Measures} measured
 * @returns {string} empty where there is nothing to say
 */
export function warning({ uniform, unchanging }) {
  if (uniform) return "Every token that it sees gets the same weight: its entropy is above 99 % of the largest for every query.";
  if (unchanging) return "It never changes: the weights are the same for all queries that see the same tokens.";
  return "";
}

/**
 * @param {Row[]} rows
 * @param {App} app
 */
function banner(rows, app) {
  const odd = rows.filter((row) => warning(row));
  if (!odd.length) return element("p", { class: "soft" }, "No head is uniform or has the same weights for every query.");
  const name = (/** @type {Row} */ row) =>
    element("li", {}, opener(row, app, `${row.role} layer ${row.layer}, head ${row.head}`), ` ${warning(row)}`);
  return element(
    "div",
    { class: "banner", role: "note" },
    element("p", {}, `${odd.length} of ${rows.length} heads ${odd.length === 1 ? "tells" : "tell"} nothing about single tokens:`),
    element("ul", {}, odd.slice(0, 12).map(name), odd.length > 12 && element("li", {}, `and ${odd.length - 12} more, marked in the table`)),
  );
}

/**
 * @param {Row} row
 * @param {App} app
 * @param {string} text
 */
function opener(row, app, text) {
  return element("button", { type: "button", class: "link", onclick: () => app.set({ view: "alignment", map: row.index, head: row.head }) }, text);
}

/**
 * @param {Row[]} rows
 * @param {App} app
 */
function sortable(rows, app) {
  /** @type {{name: keyof Row | "", down: boolean}} */ let order = { name: "", down: true };
  const body = element("tbody");
  const headings = COLUMNS.map((column) => element("th", { scope: "col", title: column.about }, element("button", {
    type: "button",
    class: "sort",
    onclick: () => {
      order = { name: column.name, down: order.name === column.name ? !order.down : SHARES.has(column.name) };
      fill();
    },
  }, column.title)));
  const fill = () => {
    headings.forEach((heading, i) => {
      const here = COLUMNS[i].name === order.name;
      heading.setAttribute("aria-sort", here ? (order.down ? "descending" : "ascending") : "none");
    });
    body.replaceChildren(...sorted(rows, order).map((row) => line(row, app)));
  };
  fill();
  const head = element("thead", {}, element("tr", {}, headings, element("th", { scope: "col" }, "")));
  const caption = element("caption", {}, "Means over the tokens that look. Choose a heading to sort.");
  const table = element("table", { class: "numbers summary" }, caption, head, body);
  return element("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Heads" }, table);
}

/**
 * @param {Row[]} rows
 * @param {{name: keyof Row | "", down: boolean}} order
 */
function sorted(rows, { name, down }) {
  if (!name) return rows;
  const known = rows.filter((row) => row[name] !== null);
  const compare = (/** @type {any} */ one, /** @type {any} */ two) => (one < two ? -1 : one > two ? 1 : 0) * (down ? -1 : 1);
  return [...known.sort((one, two) => compare(one[name], two[name])), ...rows.filter((row) => row[name] === null)];
}

/**
 * @param {Row} row
 * @param {App} app
 */
function line(row, app) {
  const cells = COLUMNS.map(({ name, digits }) => {
    const value = row[name];
    if (name === "role") return element("th", { scope: "row" }, opener(row, app, row.role));
    if (name === "head") {
      const swatch = element("span", { class: "swatch", style: { background: headColour(row.head) } });
      return element("td", {}, element("span", { class: "with-swatch" }, swatch, row.head));
    }
    const share = SHARES.has(name) && typeof value === "number" ? { class: "share", style: { "--share": value.toFixed(3) } } : {};
    return element("td", share, typeof value === "number" ? value.toFixed(digits) : "–");
  });
  const odd = row.uniform ? "uniform" : row.unchanging ? "never changes" : "";
  const go = (/** @type {MouseEvent} */ event) => {
    if (!(event.target instanceof HTMLButtonElement)) app.set({ view: "alignment", map: row.index, head: row.head });
  };
  const mark = element("td", { class: "odd", title: warning(row) }, odd);
  return element("tr", { onclick: go, "data-map": row.index, "data-head": row.head }, cells, mark);
}
