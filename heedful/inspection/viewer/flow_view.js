/** Show how much of each input token reaches a token of the last layer: rollout, attention flow, and the last layer. */

import { findMax, getSubarray, unpackArray } from "heedful/arrays.js";
import { averageHeads, computeFlows, getFirstNode, loadGraph } from "heedful/attention_graph.js";
import { createGrid } from "heedful/cell_grid.js";
import { createBar } from "heedful/charts.js";
import { getRamp } from "heedful/colour.js";
import { createSelect, createTokenRow } from "heedful/controls.js";
import { createElement, createTable, createTableToggle } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { AttentionGraph } from "heedful/attention_graph.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionRole, InspectionRecord } from "heedful/record.js" */
/** @import { GetColour } from "heedful/shaded_text.js" */
/**
 * @typedef {object} FlowScene
 * @property {InspectionRecord} record
 * @property {AttentionGraph} graph
 * @property {NumberArray} shares rollout [Q, I]
 * @property {number} query selected token of the last layer
 * @property {number[]} inputs numbers of the nodes that are columns
 */

const MAX_INPUTS = 60; // for more inputs, only those with the largest rollout are shown
const SCALE_NOTE = "The bars of rollout and of the last layer are relative to the largest of their column. The bars of flow are relative to 1.";
const EPSILON = 1e-9;
/** @type {Record<string, string>} */
const SIDE_NAMES = { decoder: "generated text", encoder: "encoder output" };

/** @type {PageView} */
export const flowView = {
  id: "flow",
  title: "Rollout and flow",
  help:
    "The attention of a layer reads vectors that are already mixtures of tokens. Rollout multiplies the weights of all " +
    "layers: a row shows the share of each input token that has reached this token. Attention flow is the most that could " +
    "flow if weights were the capacities of pipes. Both count the residual connection around each attention as one half, " +
    "and use the mean of all heads. They ignore the other parts of a layer, so they are only a rough approximation.",
  controls: ["ramp"],
  isAvailable: (record) => Object.keys(record.overall).length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  const sides = Object.keys(record.overall);
  const state = { side: sides[0], axis: "", turn: 0, query: 0 };
  const readout = createElement("output", { class: "readout" }, "\u00a0");
  const place = createElement("div", { class: "flow" });
  const onPoint = (/** @type {string} */ text) => { readout.textContent = text; };
  const sideSelect = createSelect("Rows", sides.map((side) => [side, SIDE_NAMES[side]]), state.side, (side) => {
    Object.assign(state, { side, axis: "" });
    draw();
  });
  const columns = createElement("span", {});
  const note = createElement("p", { class: "soft" });
  host.append(createElement("div", { class: "controls" }, sides.length > 1 && sideSelect.node, columns), note, readout, place);

  async function draw() {
    const turn = ++state.turn;
    const rollout = record.overall[state.side];
    if (rollout.obstacle !== undefined) {
      columns.replaceChildren();
      place.replaceChildren(createElement("p", { class: "banner" }, rollout.obstacle));
      return;
    }
    const [graph, shares] = await Promise.all([loadGraph(record, rollout), unpackArray(rollout.shares)]);
    if (turn !== state.turn) return;
    const names = graph.inputs.map(({ name }) => name);
    if (!["all", ...names].includes(state.axis)) state.axis = names[0];
    const options = [...names.map((name) => [name, name]), ["all", "all inputs"]];
    const axisSelect = createSelect("Columns", options, state.axis, (axis) => {
      state.axis = axis;
      draw();
    });
    columns.replaceChildren(...(names.length > 1 ? [axisSelect.node] : []));
    const scene = { record, graph, shares: getSubarray(shares, 0), query: selectQuery(graph), inputs: selectInputNodes(graph, state.axis) };
    const onSelect = (/** @type {number} */ query) => {
      state.query = query;
      const map = record.maps.findLastIndex((each) => each.queries === graph.queries.name);
      store.set({ map, query });
    };
    const row = createTokenRow(graph.queries.tokens, { label: "Token of the last layer", selected: scene.query, onSelect });
    const bars = createElement("div", {});
    place.replaceChildren(
      createRolloutSection(scene, { onSelect, getColour: getRamp(store.getRampName()), onPoint }),
      createElement("section", {}, createElement("h2", {}, "One token"), row.node, bars),
    );
    note.textContent = describeMissingAttention(record, state.side);
    drawBars(scene, bars, () => turn === state.turn);
  }
  function selectQuery(/** @type {AttentionGraph} */ graph) {
    const { map, query } = store.get();
    if (query !== null && record.maps[map].queries === graph.queries.name) state.query = query;
    return Math.min(state.query, graph.queries.tokens.length - 1);
  }
  function focusElement(/** @type {string} */ selector) {
    const node = host.querySelector(selector);
    if (node instanceof HTMLElement) node.focus();
  }

  draw();
  const unsubscribe = store.subscribe(async () => {
    const rowHasFocus = host.querySelector(".token-row")?.contains(document.activeElement);
    const gridHasFocus = document.activeElement && host.querySelector(".grid") === document.activeElement;
    await draw();
    if (rowHasFocus) focusElement(".token-row [aria-checked=true]");
    else if (gridHasFocus) focusElement(".grid");
  });
  return () => {
    state.turn = -Infinity;
    unsubscribe();
  };
}

/**
 * Return the numbers of the nodes that are columns.
 * @param {AttentionGraph} graph
 * @param {string} name of an axis, or "all"
 */
function selectInputNodes({ inputs, size }, name) {
  const axis = inputs.find((each) => each.name === name);
  const start = axis ? getFirstNode(inputs, name) : 0;
  return Array.from({ length: axis ? axis.tokens.length : size }, (_, i) => start + i);
}

/**
 * Return the tokens of all nodes.
 * @param {AttentionGraph} graph
 */
function listNodeTokens({ inputs }) {
  return inputs.flatMap((axis) => axis.tokens.map(formatToken));
}

/**
 * Explain what the graph of this model does not contain.
 * @param {InspectionRecord} record
 * @param {string} side
 */
function describeMissingAttention(record, side) {
  const hasRole = (/** @type {AttentionRole} */ role) => record.maps.some((map) => map.role === role);
  if (side !== "decoder") return "";
  return [
    hasRole("decoder") ? "" : "This decoder has no self-attention. One half of each token stays, the other half comes from the source.",
    hasRole("cross") && !hasRole("encoder") ? "This encoder has no self-attention. Its vector of a token counts as the token." : "",
  ].join(" ").trim();
}

/**
 * @param {FlowScene} scene
 * @param {{onSelect: (query: number) => void, getColour: GetColour, onPoint: (text: string) => void}} options
 */
function createRolloutSection({ graph, shares, inputs, query }, { onSelect, getColour, onPoint }) {
  const tokens = listNodeTokens(graph);
  const names = graph.queries.tokens;
  const getShare = (/** @type {number} */ q, /** @type {number} */ j) => shares.data[q * graph.size + inputs[j]];
  const largest = findMax(names.flatMap((_, q) => inputs.map((__, j) => getShare(q, j))));
  const grid = createGrid({
    rows: names,
    columns: inputs.map((node) => tokens[node]),
    getColour: (q, j) => getColour(largest > 0 ? getShare(q, j) / largest : 0),
    describeCell: (q, j) => `Rollout: ${formatNumber(getShare(q, j), 4)} of ${formatToken(names[q])} comes from ${tokens[inputs[j]]}`,
    onPoint, onSelect, selected: query,
    label: "Rollout",
    width: Math.min(760, innerWidth - 200),
    maxCell: 34,
  });
  const rows = names.map((token, q) => [formatToken(token), ...inputs.map((_, j) => formatNumber(getShare(q, j), 4))]);
  return createElement(
    "section",
    {},
    createElement("h2", {}, "Rollout"),
    createElement("p", { class: "soft small" }, `The strongest colour is ${formatNumber(largest, 3)}. Click a row to select its token.`),
    createElement("div", { class: "grid-scroll" }, grid),
    createTableToggle(() => createTable(["rollout", ...inputs.map((node) => tokens[node])], rows)),
  );
}

/**
 * Load the weights of the last attention layers for one query, by node.
 * @param {FlowScene} scene
 * @returns {Promise<Map<number, number>>}
 */
async function loadLastLayerWeights({ record, graph, query }) {
  /** @type {Map<number, number>} */ const weights = new Map();
  const lastInput = graph.inputs[graph.inputs.length - 1];
  for (const map of record.maps) {
    if (map.role === "encoder" && graph.queries.name !== map.queries) continue;
    const { columns, data } = averageHeads(await map.loadWeights());
    const start = getFirstNode(graph.inputs, map.role === "decoder" ? lastInput.name : map.keys);
    for (let k = 0; k < columns; k++) weights.set(start + k, data[query * columns + k]);
  }
  return weights;
}

/**
 * Create the table of one token: rollout, flow and weight of its inputs. The flows appear one after the other.
 * @param {FlowScene} scene
 * @param {HTMLElement} host
 * @param {() => boolean} isCurrent whether the table is still wanted
 */
async function drawBars(scene, host, isCurrent) {
  const { graph, shares, query, inputs } = scene;
  const tokens = listNodeTokens(graph);
  const getShare = (/** @type {number} */ node) => shares.data[query * graph.size + node];
  const sorted = [...inputs].sort((one, other) => getShare(other) - getShare(one));
  const best = sorted.slice(0, MAX_INPUTS).sort((one, other) => one - other);
  const weights = await loadLastLayerWeights(scene);
  if (!isCurrent()) return;
  const maxShare = Math.max(EPSILON, ...best.map(getShare));
  const maxWeight = Math.max(EPSILON, ...best.map((node) => weights.get(node) ?? 0));
  const flowCells = best.map(() => createElement("td", { class: "flow-cell" }, "…"));
  const rows = best.map((node, i) => {
    const weight = weights.get(node);
    return createElement(
      "tr",
      {},
      createElement("th", { scope: "row" }, tokens[node]),
      createElement("td", {}, createBar(getShare(node) / maxShare, formatNumber(getShare(node), 3), "of-rollout")),
      flowCells[i],
      createElement("td", {}, weight === undefined
        ? createElement("span", { class: "soft" }, "none")
        : createBar(weight / maxWeight, formatNumber(weight, 3), "of-weight")),
    );
  });
  const header = ["Input", "Rollout", "Attention flow", "Last layer"].map((text) => createElement("th", { scope: "col" }, text));
  const missing = inputs.length - best.length;
  const missingNote = `The table has the ${best.length} inputs with the largest rollout, and not the other ${missing}. `;
  host.replaceChildren(
    createElement("div", { class: "stage-scroll", tabindex: 0, role: "region", "aria-label": "Rollout, flow and last layer of one token" },
      createElement("table", { class: "bars" }, createElement("thead", {}, createElement("tr", {}, header)), createElement("tbody", {}, rows))),
    createElement("p", { class: "soft small" }, missing > 0 && missingNote, SCALE_NOTE),
  );
  const flows = computeFlows(graph, query, best);
  for (const cell of flowCells) {
    await new Promise((resolve) => setTimeout(resolve));
    if (!isCurrent()) return;
    const { value = 0 } = flows.next();
    cell.dataset.flow = String(value);
    cell.replaceChildren(createBar(value, formatNumber(value, 3), "of-flow"));
  }
  host.dataset.done = "true";
}
