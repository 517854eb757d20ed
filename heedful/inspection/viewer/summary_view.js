/** Show the measures of all heads in a table, which users sort to find interesting heads. */

import { getHeadColour } from "heedful/colour.js";
import { createElement } from "heedful/dom.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { HeadMeasures } from "heedful/record.js" */
/** @import { Store } from "heedful/store.js" */
/** @typedef {HeadMeasures & {index: number, role: string, layer: number, head: number}} SummaryRow */
/** @typedef {Exclude<keyof SummaryRow, "index" | "uniform" | "unchanging">} ColumnName */

/** @type {{name: ColumnName, title: string, about: string, digits: number}[]} */
const SUMMARY_COLUMNS = [
  { name: "role", title: "Attention", about: "role of the attention", digits: 0 },
  { name: "layer", title: "Layer", about: "from 0", digits: 0 },
  { name: "head", title: "Head", about: "from 0", digits: 0 },
  { name: "entropy", title: "Entropy", about: "relative to equal weights: 0 for one token, 1 for all tokens alike", digits: 3 },
  { name: "distance", title: "Distance", about: "tokens between query and key", digits: 2 },
  { name: "diagonal", title: "Diagonal", about: "weight on the token with the same number as the query", digits: 3 },
  { name: "previous", title: "Previous", about: "weight on the token before that one", digits: 3 },
  { name: "next", title: "Next", about: "weight on the token after that one", digits: 3 },
  { name: "first", title: "First", about: "weight on the first token", digits: 3 },
  { name: "last", title: "Last", about: "weight on the last token", digits: 3 },
  { name: "largest", title: "Largest", about: "largest weight of each query", digits: 3 },
];
const SHARE_COLUMNS = new Set(["entropy", "diagonal", "previous", "next", "first", "last", "largest"]);
const MAX_LISTED_HEADS = 12;

/** @type {PageView} */
export const summaryView = {
  id: "summary",
  title: "Summary",
  help:
    "Each row is a head; each number is a mean over the queries. Sort by a column to find heads that attend to the token " +
    "before (Previous), follow the other text word by word (Diagonal), read everything alike (Entropy near 1) or stay at one " +
    "place (First, Last). Choose a head to open its map.",
  controls: [],
  isAvailable: (record) => record.maps.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  const rows = record.maps.flatMap(({ role, layer, heads, measures }, index) =>
    heads.map((head, place) => ({ ...measures[place], index, role, layer, head })));
  host.append(createBanner(rows, store), createSortableTable(rows, store));
  return () => {};
}

/**
 * Return a warning about a head that attends to all tokens alike, or always to the same tokens.
 * @param {HeadMeasures} measures
 * @returns {string} empty if there is no warning
 */
export function describeWarning({ uniform, unchanging }) {
  if (uniform) return "This attention is uniform: it gives the same weight to every visible token. Its entropy is above 99 % of the maximum for every query.";
  if (unchanging) return "This attention never changes: all queries that see the same tokens have the same weights.";
  return "";
}

/**
 * @param {SummaryRow[]} rows
 * @param {Store} store
 */
function createBanner(rows, store) {
  const found = rows.filter((row) => describeWarning(row));
  if (!found.length) return createElement("p", { class: "soft" }, "No head is uniform, and no head has the same weights for every query.");
  const createItem = (/** @type {SummaryRow} */ row) =>
    createElement("li", {}, createHeadLink(row, store, `${row.role} layer ${row.layer}, head ${row.head}`), ` ${describeWarning(row)}`);
  const rest = found.length - MAX_LISTED_HEADS;
  return createElement(
    "div",
    { class: "banner", role: "note" },
    createElement("p", {}, `${found.length} of ${rows.length} heads ${found.length === 1 ? "does" : "do"} not distinguish tokens:`),
    createElement("ul", {}, found.slice(0, MAX_LISTED_HEADS).map(createItem), rest > 0 && createElement("li", {}, `and ${rest} more, which the table marks`)),
  );
}

/**
 * @param {SummaryRow} row
 * @param {Store} store
 */
function openHead({ index, head }, store) {
  store.set({ view: "alignment", map: index, head });
}

/**
 * @param {SummaryRow} row
 * @param {Store} store
 * @param {string} text
 */
function createHeadLink(row, store, text) {
  return createElement("button", { type: "button", class: "link", onclick: () => openHead(row, store) }, text);
}

/**
 * @param {SummaryRow[]} rows
 * @param {Store} store
 */
function createSortableTable(rows, store) {
  /** @type {{name: ColumnName | null, descending: boolean}} */ let order = { name: null, descending: true };
  const body = createElement("tbody");
  const headings = SUMMARY_COLUMNS.map(({ name, title, about }) => createElement("th", { scope: "col", title: about }, createElement("button", {
    type: "button",
    class: "sort",
    onclick: () => {
      order = { name, descending: order.name === name ? !order.descending : SHARE_COLUMNS.has(name) };
      fillTable();
    },
  }, title)));
  const fillTable = () => {
    headings.forEach((heading, i) => {
      const isSorted = SUMMARY_COLUMNS[i].name === order.name;
      heading.setAttribute("aria-sort", isSorted ? (order.descending ? "descending" : "ascending") : "none");
    });
    body.replaceChildren(...sortRows(rows, order).map((row) => createTableRow(row, store)));
  };
  fillTable();
  const head = createElement("thead", {}, createElement("tr", {}, headings, createElement("th", { scope: "col" }, "")));
  const caption = createElement("caption", {}, "Means over the queries. Choose a heading to sort by it.");
  const table = createElement("table", { class: "numbers summary" }, caption, head, body);
  return createElement("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Heads" }, table);
}

/**
 * Sort rows by a column. Rows without a value are last.
 * @param {SummaryRow[]} rows
 * @param {{name: ColumnName | null, descending: boolean}} order
 */
function sortRows(rows, { name, descending }) {
  if (name === null) return rows;
  const known = rows.filter((row) => row[name] !== null);
  const compare = (/** @type {SummaryRow} */ one, /** @type {SummaryRow} */ other) => {
    const [a, b] = [one[name] ?? 0, other[name] ?? 0];
    return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1);
  };
  return [...known.sort(compare), ...rows.filter((row) => row[name] === null)];
}

/**
 * @param {SummaryRow} row
 * @param {Store} store
 */
function createTableRow(row, store) {
  const cells = SUMMARY_COLUMNS.map(({ name, digits }) => {
    const value = row[name];
    if (name === "role") return createElement("th", { scope: "row" }, createHeadLink(row, store, row.role));
    if (name === "head") {
      const swatch = createElement("span", { class: "swatch", style: { background: getHeadColour(row.head) } });
      return createElement("td", {}, createElement("span", { class: "with-swatch" }, swatch, row.head));
    }
    const share = SHARE_COLUMNS.has(name) && typeof value === "number" ? { class: "share", style: { "--share": value.toFixed(3) } } : {};
    return createElement("td", share, typeof value === "number" ? value.toFixed(digits) : "–");
  });
  const warning = row.uniform ? "uniform" : row.unchanging ? "never changes" : "";
  const onclick = (/** @type {MouseEvent} */ event) => {
    if (!(event.target instanceof HTMLButtonElement)) openHead(row, store);
  };
  return createElement("tr", { onclick, "data-map": row.index, "data-head": row.head },
    cells, createElement("td", { class: "odd", title: describeWarning(row) }, warning));
}
