/** How this model distinguishes positions: their vectors, and how similar and how far apart they are. */

import { unpack } from "heedful/arrays.js";
import { choice } from "heedful/choosing.js";
import { lineChart } from "heedful/chart.js";
import { ramp, signed } from "heedful/colour.js";
import { asTable, element, labelled, tableOf } from "heedful/dom.js";
import { gridOf } from "heedful/grid.js";
import { largest, stripKey, written } from "heedful/strips.js";

export const view = {
  id: "positions",
  title: "Positions",
  help:
    "Each row of the first picture is the vector of one position (or one distance, where positions are relative). " +
    "The second compares each position with every other: if the result depends only on how far apart they are, each " +
    "diagonal has one colour. The lines are one row of it: how fast similarity falls with distance.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["ramp"]),
  available: (record) => record.encodings.length > 0,
  show,
};

const MEASURES = { dot: "dot products", cosine: "cosines", distance: "distances" };

/**
 * All vectors compared with all.
 * @param {Float32Array[]} vectors
 * @param {"dot"|"cosine"|"distance"} measure
 * @returns {number[][]}
 */
export function compared(vectors, measure) {
  const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);
  const sizes = vectors.map((each) => Math.sqrt(dot(each, each)));
  const one = (i, j) => {
    if (measure === "distance") return Math.sqrt(vectors[i].reduce((sum, each, d) => sum + (each - vectors[j][d]) ** 2, 0));
    const product = dot(vectors[i], vectors[j]);
    if (measure === "dot") return product;
    return sizes[i] && sizes[j] ? product / (sizes[i] * sizes[j]) : 0;
  };
  return vectors.map((_, i) => vectors.map((_, j) => one(i, j)));
}

function show(host, record, app) {
  const readout = element("output", { class: "readout" }, "\u00a0");
  const tell = (text) => (readout.textContent = text);
  const place = element("div", { class: "positions" });
  const state = { encoding: 0, likeness: "dot", row: /** @type {number | null} */ (null), turn: 0 };
  const slider = element("input", { type: "range", min: 0, value: 0 });
  const draw = async () => {
    const turn = ++state.turn;
    const encoding = record.encodings[state.encoding];
    const { shape, data } = await unpack(encoding.vectors);
    if (turn !== state.turn) return;
    const vectors = Array.from({ length: shape[0] }, (_, i) => data.subarray(i * shape[1], (i + 1) * shape[1]));
    const row = Math.min(state.row ?? Math.floor(shape[0] / 2), shape[0] - 1);
    slider.max = shape[0] - 1;
    slider.value = row;
    slider.setAttribute("aria-valuetext", `${wordOf(encoding)} ${encoding.places[row]}`);
    const choose = (i) => ((state.row = i), draw());
    const about = { encoding, vectors, row, choose, tell, dark: app.dark(), shade: ramp(app.ramp()) };
    place.replaceChildren(vectorsCard(about), matrixCard(about, state.likeness), matrixCard(about, "distance"), linesCard(about, state.likeness));
  };
  slider.addEventListener("input", () => ((state.row = Number(slider.value)), draw()));
  const names = record.encodings.map(({ name }, i) => [String(i), name]);
  const which = choice("Encoding", names, "0", (value) => (Object.assign(state, { encoding: Number(value), row: null }), draw()));
  const measure = choice("Likeness", Object.entries(MEASURES).slice(0, 2), "dot", (value) => ((state.likeness = value), draw()));
  host.append(element("div", { class: "controls" }, which.node, measure.node, labelled("Chosen row", slider)), readout, place);
  draw();
  const stop = app.subscribe(draw);
  return () => {
    state.turn = -Infinity;
    stop();
  };
}

function wordOf({ relative }) {
  return relative ? "distance" : "position";
}

function block(title, words, ...body) {
  return element("section", { class: "position-card" }, element("h2", {}, title), element("p", { class: "soft small" }, words), body);
}

function vectorsCard({ encoding, vectors, row, choose, tell, dark }) {
  const most = largest(...vectors);
  const names = encoding.places.map(String);
  const dimensions = Array.from({ length: vectors[0].length }, (_, d) => String(d));
  const picture = gridOf({
    rows: names,
    columns: dimensions,
    colour: (i, d) => signed(most ? vectors[i][d] / most : 0, dark),
    say: (i, d) => `${wordOf(encoding)} ${names[i]}, dimension ${d}: ${written(vectors[i][d], 4)}`,
    tell, choose, chosen: row,
    label: `Vectors of ${encoding.name}`,
    width: Math.min(1000, innerWidth - 120),
    height: 400,
    largest: 14,
  });
  const words = `${encoding.name}: ${vectors.length} ${wordOf(encoding)}s from top to bottom, ${vectors[0].length} dimensions from left to right`;
  const table = () => tableOf([wordOf(encoding), ...dimensions], vectors.map((each, i) => [names[i], ...Array.from(each, (x) => written(x, 3))]));
  return block("Vectors", words, element("div", { class: "grid-scroll" }, picture), stripKey(most, dark), asTable(table));
}

function matrixCard({ encoding, vectors, row, choose, tell, dark, shade }, measure) {
  const numbers = compared(vectors, measure);
  const most = largest(...numbers);
  const names = encoding.places.map(String);
  const share = (i, j) => (most ? numbers[i][j] / most : 0);
  const picture = gridOf({
    rows: names,
    columns: names,
    colour: (i, j) => (measure === "distance" ? shade(share(i, j)) : signed(share(i, j), dark)),
    say: (i, j) => `${wordOf(encoding)}s ${names[i]} and ${names[j]}: ${written(numbers[i][j], 4)}`,
    tell, choose, chosen: row,
    label: `${MEASURES[measure]} of ${encoding.name}`,
    width: Math.min(400, innerWidth - 120),
    largest: 14,
  });
  const title = MEASURES[measure][0].toUpperCase() + MEASURES[measure].slice(1);
  const least = Math.min(...numbers.map((each) => Math.min(...each)));
  const range = `from ${written(least)} to ${written(Math.max(...numbers.map((each) => Math.max(...each))))}`;
  const table = () => tableOf([wordOf(encoding), ...names], numbers.map((each, i) => [names[i], ...each.map((x) => written(x, 3))]));
  return block(title, `Each ${wordOf(encoding)} with every other, ${range}`, element("div", { class: "grid-scroll" }, picture), asTable(table));
}

function linesCard({ encoding, vectors, row }, likeness) {
  const here = encoding.places[row];
  const words = `Against how far a ${wordOf(encoding)} lies from ${wordOf(encoding)} ${here}; click a row above to choose another.`;
  const chart = (measure) => {
    const numbers = compared(vectors, measure)[row];
    const points = encoding.places.map((place, i) => [place - here, numbers[i]]);
    return lineChart({ points, across: "how far", up: MEASURES[measure], label: `${MEASURES[measure]} with ${wordOf(encoding)} ${here}` });
  };
  const section = block(`Seen from ${wordOf(encoding)} ${here}`, words, element("div", { class: "charts" }, chart(likeness), chart("distance")));
  section.classList.add("position-lines");
  return section;
}
