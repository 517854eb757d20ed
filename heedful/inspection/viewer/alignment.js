/** Who looked at whom: the weights of one map and head as a matrix. */

import { rampBar } from "heedful/cells.js";
import { asTable, element, labelled, tableOf, tick } from "heedful/dom.js";
import { createMatrix } from "heedful/matrix.js";
import { display, matrixOf, tokensOf } from "heedful/record.js";
import { rowOf } from "heedful/row.js";
import { warning } from "heedful/summary.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {import("heedful/record.js").AttentionMap} AttentionMap */
/** @typedef {import("heedful/record.js").Numbers} Numbers */
/** @typedef {{map: AttentionMap, weights: Numbers, visible: Numbers}} Scene */
/** @typedef {{marks: boolean, sums: boolean, numbers: boolean, whole: boolean | null}} Choices */

const WHOLE_TABLE = 2500; // cells that a table shows all of
const STRONGEST = 5;
const FEW = 64; // keys whose weights are seen on a scale from 0 to 1

/** Kept while the page is open, also when another view is shown in between. @type {Choices} */
const choices = { marks: true, sums: false, numbers: false, whole: null };

export const view = {
  id: "alignment",
  title: "Alignment",
  help:
    "Each row is a token that looks, each column a token that is looked at; the colour of a cell shows how much of " +
    "the row's attention went there, and a row adds up to 1. The dot marks the largest weight of its row. A weight " +
    "shows what was read, not why the model decided as it did: values and all later layers also count.",
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
  const place = element("div");
  const beside = element("div");
  const warned = element("div");
  const readout = element("output", { id: "readout", class: "readout" });
  const spoken = element("div", { class: "unseen", "aria-live": "polite", role: "status" });
  const legend = element("div", { class: "legend" });
  /** @type {import("heedful/matrix.js").Matrix | null} */ let matrix = null;
  /** @type {Scene | null} */ let now = null;
  let asked = 0;

  const picture = () => {
    const { map, weights, visible } = /** @type {Scene} */ (now);
    const { query } = app.get();
    const ramp = app.ramp();
    const hides = visible.data.includes(0);
    const whole = choices.whole ?? map.keyAxis.tokens.length <= FEW;
    panel.scale.value = whole ? "1" : "most";
    const most = whole ? 1 : weights.data.reduce((largest, each) => Math.max(largest, each), 0) || 1;
    beside.replaceChildren(rowOf(map, weights.data, visible.data, query));
    const words = ["0", String(Number(most.toFixed(3))), hides ? "· struck cells are hidden from their row" : ""];
    const [zero, end, struck] = words.map((text) => element("span", {}, text));
    legend.replaceChildren(zero, rampBar(ramp), end, struck);
    return { ...choices, data: weights.data, visible: hides ? visible.data : null, most, ramp, chosen: query, spot: app.spot() };
  };
  const refresh = async (/** @type {boolean} */ fresh) => {
    const { map: index, head } = app.get();
    const map = record.maps[index];
    const turn = (asked += 1);
    const [weights, visible] = await Promise.all([matrixOf(map, head), map.visible()]);
    if (turn !== asked) return;
    const same = matrix && now && !fresh && now.map.queries === map.queries && now.map.keys === map.keys;
    now = { map, weights, visible };
    if (!same) {
      matrix = renewed(matrix, place, map, point, (query) => app.set({ query: app.get().query === query ? null : query }));
      say(readout, now, null);
    }
    const odd = warning(map.measures[head === "mean" ? map.heads.length : map.heads.indexOf(head)]);
    warned.replaceChildren(odd && element("p", { class: "banner", role: "note" }, odd));
    const size = weights.shape.join(" by ");
    matrix?.node.setAttribute("aria-label", `${map.label}, ${headName(head)}: ${size} weights. Arrow keys move from cell to cell.`);
    if (place.isConnected) matrix?.show(picture());
    host.dataset.shown = `${index}/${head}`;
  };
  const point = (/** @type {import("heedful/matrix.js").Cell | null} */ cell, /** @type {boolean} */ byKey) => {
    say(readout, now, cell);
    if (byKey && cell) spoken.textContent = readout.textContent;
  };

  const redraw = () => matrix?.show(picture());
  const panel = controls(redraw, (factor) => matrix?.zoom(factor));
  host.append(
    panel.node,
    warned,
    readout,
    element("div", { class: "split" }, element("div", {}, place, element("div", { class: "below" }, legend)), beside),
    spoken,
    asTable(() => table(/** @type {Scene} */ (now))),
  );
  say(readout, null, null);
  refresh(true);
  const stop = app.subscribe((state, before) => {
    if (state.map !== before.map || state.head !== before.head) refresh(false);
    else if (now) redraw();
  });
  return () => {
    stop();
    asked += 1;
    matrix?.stop();
  };
}

/**
 * @param {import("heedful/matrix.js").Matrix | null} old
 * @param {HTMLElement} place
 * @param {AttentionMap} map
 * @param {(cell: import("heedful/matrix.js").Cell | null, byKey: boolean) => void} point
 * @param {(query: number) => void} choose
 */
function renewed(old, place, map, point, choose) {
  old?.stop();
  const made = createMatrix(tokensOf(map), { point, choose });
  place.replaceChildren(made.node);
  return made;
}

/**
 * @param {() => void} changed
 * @param {(factor: number) => void} zoom
 */
function controls(changed, zoom) {
  const option = (/** @type {keyof Choices} */ name, /** @type {string} */ text) =>
    tick(text, choices[name] === true, (on) => {
      choices[name] = on;
      changed();
    });
  const scale = element("select", { onchange: () => {
    choices.whole = scale.value === "1";
    changed();
  } }, element("option", { value: "1" }, "0 to 1"), element("option", { value: "most" }, "0 to the largest"));
  const button = (/** @type {string} */ text, /** @type {string} */ name, /** @type {number} */ factor) =>
    element("button", { type: "button", "aria-label": name, title: name, onclick: () => zoom(factor) }, text);
  const node = element(
    "div",
    { class: "controls" },
    labelled("Scale", scale),
    option("marks", "largest of each row"),
    option("sums", "row sums"),
    option("numbers", "numbers"),
    element("span", { class: "group" }, button("−", "Zoom out", 1 / 1.5), button("+", "Zoom in", 1.5), button("Fit", "Fit into the window", 0)),
  );
  return { node, scale };
}

/**
 * What the pointer or cursor is at, in words.
 * @param {HTMLElement} readout
 * @param {Scene | null} now
 * @param {import("heedful/matrix.js").Cell | null} cell
 */
function say(readout, now, cell) {
  if (!now || !cell) {
    delete readout.dataset.value;
    readout.replaceChildren(element("span", { class: "soft hint" }, "Point at a cell, or move with the arrow keys, to read its weight."));
    return;
  }
  const { queries, keys } = tokensOf(now.map);
  const place = cell.q * keys.length + cell.k;
  const value = now.weights.data[place];
  const hidden = !now.visible.data[place];
  Object.assign(readout.dataset, { value, query: cell.q, key: cell.k });
  readout.replaceChildren(
    element("b", {}, display(queries[cell.q])),
    ` (${cell.q}) looks at `,
    element("b", {}, display(keys[cell.k])),
    ` (${cell.k}): `,
    element("b", {}, value.toFixed(4)),
    hidden ? ", hidden" : "",
  );
}

/** @param {number | "mean"} head */
function headName(head) {
  return head === "mean" ? "mean of all heads" : `head ${head}`;
}

/**
 * All weights, or, where these are too many, the strongest of each row.
 * @param {Scene} now
 */
function table({ map, weights: { data, shape: [rows, columns] } }) {
  const { queries, keys } = tokensOf(map);
  const row = (/** @type {number} */ q) => [...data.subarray(q * columns, (q + 1) * columns)];
  if (rows * columns <= WHOLE_TABLE) {
    const numbers = queries.map((token, q) => [display(token), ...row(q).map((weight) => weight.toFixed(4))]);
    return tableOf(["looks \\ is looked at", ...keys.map(display)], numbers, `${map.label}: weights`);
  }
  const strongest = queries.map((token, q) => {
    const best = row(q).map((weight, k) => ({ weight, k })).sort((one, two) => two.weight - one.weight).slice(0, STRONGEST);
    return [`${q} ${display(token)}`, ...best.map(({ weight, k }) => `${k} ${display(keys[k])} ${weight.toFixed(4)}`)];
  });
  const names = Array.from({ length: Math.min(STRONGEST, columns) }, (_, i) => (i ? `${i + 1}.` : "strongest"));
  return tableOf(["looks", ...names], strongest, `${map.label}: the largest weights of each row`);
}
