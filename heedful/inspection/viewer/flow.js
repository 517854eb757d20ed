/** How much of each input token reaches a token of the last layer: rollout, attention flow, and the last layer alone. */

import { bar } from "heedful/chart.js";
import { choice, tokenRow } from "heedful/choosing.js";
import { ramp } from "heedful/colour.js";
import { asTable, element, tableOf } from "heedful/dom.js";
import { unpack } from "heedful/arrays.js";
import { flows, graphOf, meanOfHeads, startOf } from "heedful/graph.js";
import { gridOf } from "heedful/grid.js";
import { display, part } from "heedful/record.js";
import { written } from "heedful/strips.js";

/** Inputs whose flow is computed; of more, those with the largest rollout. */
const MANY = 60;
const SCALES = "Bars of rollout and of the last layer are scaled to the largest of their column, those of flow to 1.";
const NOTHING = 1e-9;

export const view = {
  id: "flow",
  title: "Rollout and flow",
  help:
    "The attention of one layer reads vectors that are already mixtures. Rollout multiplies the layers, so that a " +
    "row shows how much of each input token has reached this one; flow is the most that could pass if weights were " +
    "widths of pipes. Both count the connection around each attention as one half and take the mean of all heads. " +
    "They leave out the other parts of a layer, so read them as a rough map.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["ramp"]),
  available: (record) => Object.keys(record.overall).length > 0,
  show,
};

function show(host, record, app) {
  const sides = Object.keys(record.overall);
  const state = { side: sides[0], only: "", turn: 0, query: 0 };
  const readout = element("output", { class: "readout" }, "\u00a0");
  const place = element("div", { class: "flow" });
  const titles = { decoder: "what was written", encoder: "what the encoder made of the source" };
  const picked = choice("Rows", sides.map((side) => [side, titles[side]]), state.side, (side) => (Object.assign(state, { side, only: "" }), draw()));
  const columns = element("span", {});
  const note = element("p", { class: "soft" });
  host.append(element("div", { class: "controls" }, sides.length > 1 && picked.node, columns), note, readout, place);

  async function draw() {
    const turn = ++state.turn;
    const { obstacle, shares: packed } = record.overall[state.side];
    if (obstacle) {
      columns.replaceChildren();
      place.replaceChildren(element("p", { class: "banner" }, obstacle));
      return;
    }
    const [graph, rollout] = await Promise.all([graphOf(record, state.side), unpack(packed)]);
    const shares = part(rollout, 0);
    if (turn !== state.turn) return;
    const names = graph.inputs.map(({ name }) => name);
    if (!["all", ...names].includes(state.only)) state.only = names[0];
    const options = /** @type {[string, string][]} */ ([...names.map((name) => [name, name]), ...(names.length > 1 ? [["all", "all inputs"]] : [])]);
    const chooser = choice("Columns", options, state.only, (only) => ((state.only = only), draw()));
    if (names.length > 1) columns.replaceChildren(chooser.node);
    else columns.replaceChildren();
    const about = { record, graph, shares, query: queryOf(graph), inputs: inputsOf(graph, state.only) };
    const choose = (query) => {
      state.query = query;
      const map = record.maps.findLastIndex((each) => each.queries === graph.queries.name);
      app.set({ map, query });
    };
    const row = tokenRow(graph.queries.tokens, { label: "Token of the last layer", chosen: about.query, choose });
    const bars = element("div", {});
    const tell = (text) => (readout.textContent = text);
    place.replaceChildren(
      picture(about, { choose, shade: ramp(app.ramp()), tell }),
      element("section", {}, element("h2", {}, "One token"), row.node, bars),
    );
    note.textContent = noteOf(record, state.side);
    drawBars(about, bars, () => turn === state.turn);
  }

  const queryOf = (graph) => {
    const { map, query } = app.get();
    if (query !== null && record.maps[map].queries === graph.queries.name) state.query = query;
    return Math.min(state.query, graph.queries.tokens.length - 1);
  };
  draw();
  const stop = app.subscribe(async () => {
    const focused = host.querySelector(".token-row")?.contains(document.activeElement);
    const last = host.querySelector(".grid") === document.activeElement;
    await draw();
    if (focused) host.querySelector(".token-row [aria-checked=true]")?.focus();
    else if (last) host.querySelector(".grid")?.focus();
  });
  return () => {
    state.turn = -Infinity;
    stop();
  };
}

/** Numbers of the nodes that are shown as columns. */
function inputsOf({ inputs, size }, only) {
  const start = only === "all" ? 0 : startOf(inputs, only);
  const count = only === "all" ? size : inputs.find((axis) => axis.name === only).tokens.length;
  return Array.from({ length: count }, (_, i) => start + i);
}

function tokensOfNodes({ inputs }) {
  return inputs.flatMap((axis) => axis.tokens.map(display));
}

/** What is missing in this model that others have. */
function noteOf(record, side) {
  const has = (role) => record.maps.some((map) => map.role === role);
  const words = [];
  if (side === "decoder" && !has("decoder")) words.push("This decoder has no self-attention: only its attention to the source counts, and one half that stays.");
  if (side === "decoder" && has("cross") && !has("encoder")) words.push("This encoder has no self-attention: its vector for a token counts as that token.");
  return words.join(" ");
}

function picture({ graph, shares, inputs, query }, { choose, shade, tell }) {
  const tokens = tokensOfNodes(graph);
  const share = (q, j) => shares.data[q * graph.size + inputs[j]];
  const most = graph.queries.tokens.reduce((top, _, q) => inputs.reduce((high, __, j) => Math.max(high, share(q, j)), top), 0);
  const names = graph.queries.tokens;
  const grid = gridOf({
    rows: names,
    columns: inputs.map((node) => tokens[node]),
    colour: (q, j) => shade(most ? share(q, j) / most : 0),
    say: (q, j) => `Rollout: ${written(share(q, j), 4)} of ${display(names[q])} is ${tokens[inputs[j]]}`,
    tell, choose, chosen: query,
    label: "Rollout",
    width: Math.min(760, innerWidth - 200),
    largest: 34,
  });
  const rows = names.map((token, q) => [display(token), ...inputs.map((_, j) => written(share(q, j), 4))]);
  return element(
    "section",
    {},
    element("h2", {}, "Rollout"),
    element("p", { class: "soft small" }, `The strongest colour is ${written(most, 3)}. Click a row to choose its token.`),
    element("div", { class: "grid-scroll" }, grid),
    asTable(() => tableOf(["rollout", ...inputs.map((node) => tokens[node])], rows)),
  );
}

/** Weights of the last attentions for each node: to the source, and to what was read. */
async function lastLayer({ record, graph, query }) {
  const weights = new Map();
  const reads = graph.inputs[graph.inputs.length - 1];
  for (const map of record.maps) {
    const counts = map.role !== "encoder" || graph.queries.name === map.queries;
    if (!counts) continue;
    const { columns, data } = meanOfHeads(await map.weights());
    const start = startOf(graph.inputs, map.role === "decoder" ? reads.name : map.keys);
    for (let k = 0; k < columns; k++) weights.set(start + k, data[query * columns + k]);
  }
  return weights;
}

async function drawBars(about, host, wanted) {
  const { graph, shares, query, inputs } = about;
  const tokens = tokensOfNodes(graph);
  const share = (node) => shares.data[query * graph.size + node];
  const best = [...inputs].sort((a, b) => share(b) - share(a)).slice(0, MANY).sort((a, b) => a - b);
  const last = await lastLayer(about);
  if (!wanted()) return;
  const mostShare = Math.max(NOTHING, ...best.map(share));
  const mostLast = Math.max(NOTHING, ...best.map((node) => last.get(node) ?? 0));
  const cells = best.map(() => element("td", { class: "flow-cell" }, "…"));
  const rows = best.map((node, i) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, tokens[node]),
      element("td", {}, bar(share(node) / mostShare, written(share(node), 3), "of-rollout")),
      cells[i],
      element("td", {}, last.has(node) ? bar(last.get(node) / mostLast, written(last.get(node), 3), "of-weight") : element("span", { class: "soft" }, "none")),
    ),
  );
  const head = ["Input", "Rollout", "Attention flow", "Last layer alone"].map((text) => element("th", { scope: "col" }, text));
  const missing = inputs.length - best.length;
  host.replaceChildren(
    element("div", { class: "stage-scroll", tabindex: 0, role: "region", "aria-label": "Rollout, flow and last layer of one token" },
      element("table", { class: "bars" }, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows))),
    element("p", { class: "soft small" }, missing > 0 ? `The ${best.length} inputs with the largest rollout; ${missing} more are not shown. ${SCALES}` : SCALES),
  );
  const amounts = flows(graph, query, best);
  for (const cell of cells) {
    await new Promise((resolve) => setTimeout(resolve));
    if (!wanted()) return;
    const { value } = amounts.next();
    cell.dataset.flow = String(value);
    cell.replaceChildren(bar(value, written(value, 3), "of-flow"));
  }
  host.dataset.done = "true";
}
