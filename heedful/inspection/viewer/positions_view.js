/** Show the position encodings of the model: their vectors, and how similar and how distant they are. */

import { findMaxAbs, unpackArray } from "heedful/arrays.js";
import { createGrid } from "heedful/cell_grid.js";
import { createLineChart } from "heedful/charts.js";
import { getRamp, getSignedColour } from "heedful/colour.js";
import { createSelect } from "heedful/controls.js";
import { createElement, createLabel, createTable, createTableToggle } from "heedful/dom.js";
import { capitalizeText, formatNumber } from "heedful/formatting.js";
import { createColourKey } from "heedful/vector_strips.js";

/** @import { Child } from "heedful/dom.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { PositionEncoding } from "heedful/record.js" */
/** @import { GetColour } from "heedful/shaded_text.js" */
/** @typedef {"dot" | "cosine" | "distance"} Comparison */
/**
 * @typedef {object} PositionScene
 * @property {PositionEncoding} encoding
 * @property {Float32Array[]} vectors
 * @property {number} row selected position
 * @property {(row: number) => void} onSelect
 * @property {(text: string) => void} onPoint
 * @property {boolean} dark
 * @property {GetColour} getColour
 */

/** @type {Record<Comparison, string>} */
const COMPARISON_NAMES = { dot: "dot products", cosine: "cosines", distance: "distances" };

/** @type {PageView} */
export const positionsView = {
  id: "positions",
  title: "Positions",
  help:
    "In the first picture, each row is the vector of one position, or of one distance if positions are relative. The " +
    "second and the third picture compare each position with every other one. If the result depends only on the " +
    "distance of two positions, each diagonal has one colour. The charts show one row of these pictures: how fast the " +
    "similarity falls with the distance.",
  controls: ["ramp"],
  isAvailable: (record) => record.encodings.length > 0,
  show,
};

/**
 * Compare all vectors with each other.
 * @param {Float32Array[]} vectors
 * @param {Comparison} comparison
 * @returns {number[][]}
 */
function compareVectors(vectors, comparison) {
  const computeDotProduct = (/** @type {number} */ i, /** @type {number} */ j) =>
    vectors[i].reduce((sum, each, d) => sum + each * vectors[j][d], 0);
  const norms = vectors.map((_, i) => Math.sqrt(computeDotProduct(i, i)));
  const compare = (/** @type {number} */ i, /** @type {number} */ j) => {
    if (comparison === "distance") return Math.sqrt(vectors[i].reduce((sum, each, d) => sum + (each - vectors[j][d]) ** 2, 0));
    const product = computeDotProduct(i, j);
    if (comparison === "dot") return product;
    return norms[i] && norms[j] ? product / (norms[i] * norms[j]) : 0;
  };
  return vectors.map((_, i) => vectors.map((__, j) => compare(i, j)));
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const readout = createElement("output", { class: "readout" }, "\u00a0");
  const onPoint = (/** @type {string} */ text) => { readout.textContent = text; };
  const place = createElement("div", { class: "positions" });
  const state = { encoding: 0, similarity: /** @type {Comparison} */ ("dot"), row: /** @type {number | null} */ (null), turn: 0 };
  const slider = createElement("input", { type: "range", min: 0, value: 0 });
  const draw = async () => {
    const turn = ++state.turn;
    const encoding = record.encodings[state.encoding];
    const { shape: [count, width], data } = await unpackArray(encoding.vectors);
    if (turn !== state.turn) return;
    const vectors = Array.from({ length: count }, (_, i) => data.subarray(i * width, (i + 1) * width));
    const row = Math.min(state.row ?? Math.floor(count / 2), count - 1);
    slider.max = String(count - 1);
    slider.value = String(row);
    slider.setAttribute("aria-valuetext", `${getNoun(encoding)} ${encoding.places[row]}`);
    const scene = { encoding, vectors, row, onSelect: selectRow, onPoint, dark: store.isDark(), getColour: getRamp(store.getRampName()) };
    place.replaceChildren(
      createVectorsCard(scene),
      createComparisonCard(scene, state.similarity),
      createComparisonCard(scene, "distance"),
      createChartsCard(scene, state.similarity),
    );
  };
  const selectRow = (/** @type {number | null} */ row) => {
    state.row = row;
    draw();
  };
  slider.addEventListener("input", () => selectRow(Number(slider.value)));
  const encodings = createSelect("Encoding", shortenNames(record.encodings.map(({ name }) => name)).map((name, i) => [String(i), name]), "0", (value) => {
    state.encoding = Number(value);
    selectRow(null);
  });
  const similarities = /** @type {const} */ (["dot", "cosine"]);
  const similarity = createSelect("Similarity", similarities.map((name) => [name, COMPARISON_NAMES[name]]), "dot", (value) => {
    state.similarity = value === "dot" ? "dot" : "cosine";
    draw();
  });
  host.append(createElement("div", { class: "controls" }, encodings.node, similarity.node, createLabel("Selected row", slider)), readout, place);
  draw();
  const unsubscribe = store.subscribe(draw);
  return () => {
    state.turn = -Infinity;
    unsubscribe();
  };
}

/**
 * Leave out the end that all names share, such as ".stack.embedding.position)": a select cannot wrap its text.
 * @param {string[]} names
 */
function shortenNames(names) {
  const parts = names.map((name) => name.split(".").reverse());
  let shared = 0;
  while (parts.every((each) => shared + 1 < each.length && each[shared] === parts[0][shared])) shared++;
  return parts.map((each) => each.slice(shared).reverse().join(".") + (shared > 0 ? ")" : ""));
}

/** @param {PositionEncoding} encoding */
function getNoun({ relative }) {
  return relative ? "distance" : "position";
}

/**
 * @param {string} title
 * @param {string} explanation
 * @param {...Child} body
 */
function createCard(title, explanation, ...body) {
  return createElement("section", { class: "position-card" },
    createElement("h2", {}, title), createElement("p", { class: "soft small" }, explanation), body);
}

/** @param {PositionScene} scene */
function createVectorsCard({ encoding, vectors, row, onSelect, onPoint, dark }) {
  const largest = findMaxAbs(...vectors);
  const noun = getNoun(encoding);
  const names = encoding.places.map(String);
  const dimensions = Array.from({ length: vectors[0].length }, (_, d) => String(d));
  const picture = createGrid({
    rows: names,
    columns: dimensions,
    getColour: (i, d) => getSignedColour(largest ? vectors[i][d] / largest : 0, dark),
    describeCell: (i, d) => `${noun} ${names[i]}, dimension ${d}: ${formatNumber(vectors[i][d], 4)}`,
    onPoint, onSelect, selected: row,
    label: `Vectors of ${encoding.name}`,
    width: Math.min(1000, innerWidth - 120),
    height: 400,
    maxCell: 14,
  });
  const explanation = `${encoding.name}: ${vectors.length} ${noun}s from top to bottom, ${dimensions.length} dimensions from left to right`;
  const buildTable = () => createTable([noun, ...dimensions], vectors.map((vector, i) => [names[i], ...Array.from(vector, (x) => formatNumber(x, 3))]));
  return createCard("Vectors", explanation, createElement("div", { class: "grid-scroll" }, picture), createColourKey(largest, dark), createTableToggle(buildTable));
}

/**
 * @param {PositionScene} scene
 * @param {Comparison} comparison
 */
function createComparisonCard({ encoding, vectors, row, onSelect, onPoint, dark, getColour }, comparison) {
  const numbers = compareVectors(vectors, comparison);
  const largest = findMaxAbs(...numbers);
  const noun = getNoun(encoding);
  const names = encoding.places.map(String);
  const getShare = (/** @type {number} */ i, /** @type {number} */ j) => (largest ? numbers[i][j] / largest : 0);
  const picture = createGrid({
    rows: names,
    columns: names,
    getColour: (i, j) => (comparison === "distance" ? getColour(getShare(i, j)) : getSignedColour(getShare(i, j), dark)),
    describeCell: (i, j) => `${noun}s ${names[i]} and ${names[j]}: ${formatNumber(numbers[i][j], 4)}`,
    onPoint, onSelect, selected: row,
    label: `${COMPARISON_NAMES[comparison]} of ${encoding.name}`,
    width: Math.min(400, innerWidth - 120),
    maxCell: 14,
  });
  const lowest = Math.min(...numbers.map((each) => Math.min(...each)));
  const highest = Math.max(...numbers.map((each) => Math.max(...each)));
  const explanation = `Each ${noun} with every other one, from ${formatNumber(lowest)} to ${formatNumber(highest)}`;
  const buildTable = () => createTable([noun, ...names], numbers.map((each, i) => [names[i], ...each.map((x) => formatNumber(x, 3))]));
  return createCard(capitalizeText(COMPARISON_NAMES[comparison]), explanation, createElement("div", { class: "grid-scroll" }, picture), createTableToggle(buildTable));
}

/**
 * @param {PositionScene} scene
 * @param {Comparison} similarity
 */
function createChartsCard({ encoding, vectors, row }, similarity) {
  const noun = getNoun(encoding);
  const here = encoding.places[row];
  const createChart = (/** @type {Comparison} */ comparison) => {
    const numbers = compareVectors(vectors, comparison)[row];
    const points = encoding.places.map((place, i) => /** @type {[number, number]} */ ([place - here, numbers[i]]));
    const name = COMPARISON_NAMES[comparison];
    return createLineChart({ points, xLabel: "offset", yLabel: name, label: `${name} with ${noun} ${here}` });
  };
  const explanation = `By the offset of each ${noun} from ${noun} ${here}. Click a row above to select another ${noun}.`;
  const card = createCard(`Compared with ${noun} ${here}`, explanation, createElement("div", { class: "charts" }, createChart(similarity), createChart("distance")));
  card.classList.add("position-lines");
  return card;
}
