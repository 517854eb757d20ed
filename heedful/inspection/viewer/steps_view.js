/** Show all stages of one head for one query, from its input to its output, with the numbers of the model. */

import { getVector, unpackArray } from "heedful/arrays.js";
import { loadStages } from "heedful/attention_stages.js";
import { createTokenRow } from "heedful/controls.js";
import { createCheckbox, createElement, createTable, createTableToggle } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { createEmbeddingCard, createOutputCard, createQueryCard, createSumCard } from "heedful/stage_cards.js";
import { buildStageColumns, createScoreTable } from "heedful/stage_table.js";
import { createColourKey } from "heedful/vector_strips.js";

/** @import { AttentionStages } from "heedful/attention_stages.js" */
/** @import { TokenRow } from "heedful/controls.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, InspectionRecord } from "heedful/record.js" */
/** @import { StageScene, TokenEmbedding } from "heedful/stage_cards.js" */
/** @import { Store } from "heedful/store.js" */

/** Number of keys with a row at first: more rows make the page slow, and few readers need them. */
const MAX_KEYS = 48;

/** @type {PageView} */
export const stepsView = {
  id: "steps",
  title: "Step by step",
  help:
    "This view follows one query and one head from the input vector to the output vector. Read a row of the table from " +
    "left to right: the score of the key for the query, the changes by position and mask, and the weight of the value " +
    "in the sum. Colours are numbers: orange is above 0, blue is below 0, and a stronger colour is a larger number. " +
    "Point at a colour to read its number.",
  controls: ["map", "head"],
  isAvailable: (record) => record.maps.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  const readout = createElement("output", { class: "readout is-sticky", "aria-live": "off" });
  const onPoint = (/** @type {string} */ text) => { readout.textContent = text; };
  const place = createElement("div", { class: "stages" });
  const top = createElement("div", {});
  const state = { shownStages: Infinity, showAllKeys: false, turn: 0, stageCount: 0 };
  host.append(top, readout, place);
  const headNote = createElement("span", { class: "soft" });
  /** @type {TokenRow | null} */ let row = null;

  async function draw() {
    const turn = ++state.turn;
    const { map: index, query } = store.get();
    const map = record.maps[index];
    if (!map.walk) {
      top.replaceChildren();
      place.replaceChildren(...createMissingNote(record, store));
      return;
    }
    const head = selectHead(map, store);
    headNote.textContent = store.get().head === "mean" ? `This view shows one head at a time: head ${head}.` : "";
    const [stages, embedding] = await Promise.all([
      loadStages(map, { head: map.heads.indexOf(head), query: query ?? 0 }),
      loadEmbedding(record, map, query ?? 0),
    ]);
    if (turn !== state.turn) return;
    const shownKeys = selectKeys(stages, state.showAllKeys);
    const cards = buildCards({ stages, embedding, map, head, query: query ?? 0, dark: store.isDark(), onPoint, shownKeys });
    state.stageCount = cards.count;
    place.replaceChildren(...cards.create(Math.min(state.shownStages, cards.count)));
  }

  function drawTop() {
    const map = record.maps[store.get().map];
    headNote.textContent = "";
    if (!map.walk) {
      draw();
      return;
    }
    row = createTokenRow(map.queryAxis.tokens, {
      label: "Query token",
      selected: store.get().query ?? 0,
      onSelect: (query) => store.set({ query }),
    });
    const progress = createElement("span", { class: "soft", "aria-live": "polite" });
    const showStages = async (/** @type {number} */ count) => {
      state.shownStages = count;
      await draw();
      const shown = Math.min(count, state.stageCount);
      progress.textContent = shown >= state.stageCount ? "all stages" : `${shown} of ${state.stageCount} stages`;
      previous.disabled = shown <= 1;
      next.disabled = shown >= state.stageCount;
    };
    const createButton = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
      createElement("button", { type: "button", onclick }, text);
    const previous = createButton("Previous", () => showStages(Math.min(state.shownStages, state.stageCount) - 1));
    const next = createButton("Next", () => showStages(state.shownStages + 1 >= state.stageCount ? Infinity : state.shownStages + 1));
    const buttons = [createButton("First", () => showStages(1)), previous, next, createButton("All", () => showStages(Infinity)), progress];
    const onChange = (/** @type {boolean} */ checked) => {
      state.showAllKeys = checked;
      draw();
    };
    const allKeys = map.keyAxis.tokens.length > MAX_KEYS && createCheckbox("all keys", state.showAllKeys, onChange);
    const label = createElement("p", { class: "soft small" }, `Query: a token of “${map.queries}”, which attends to “${map.keys}”`);
    top.replaceChildren(label, row.node, createElement("div", { class: "controls keep" }, buttons, allKeys, headNote));
    showStages(state.shownStages);
  }

  drawTop();
  const unsubscribe = store.subscribe((now, before) => {
    if (now.map !== before.map) drawTop();
    else {
      row?.mark(now.query ?? 0);
      draw();
    }
  });
  return () => {
    state.turn = -Infinity;
    unsubscribe();
  };
}

/**
 * Return the selected head, or the first one if the mean is selected.
 * @param {AttentionMap} map
 * @param {Store} store
 */
function selectHead(map, store) {
  const { head } = store.get();
  return head === "mean" ? map.heads[0] : head;
}

/**
 * Return the keys that have a row in the table: all keys, or those with the largest weights.
 * @param {AttentionStages} stages
 * @param {boolean} showAll
 */
function selectKeys({ weights }, showAll) {
  const keys = weights.map((_, k) => k);
  if (showAll || keys.length <= MAX_KEYS) return keys;
  return keys.sort((one, other) => weights[other] - weights[one]).slice(0, MAX_KEYS).sort((one, other) => one - other);
}

/**
 * Load the embedding at the position of a query; null unless the attention is in the first layer.
 * @param {InspectionRecord} record
 * @param {AttentionMap} map
 * @param {number} query
 * @returns {Promise<TokenEmbedding | null>}
 */
async function loadEmbedding(record, map, query) {
  if (map.layer !== 0 || map.role === "cross") return null;
  const embedded = record.embedded.find((each) => each.side === map.role);
  if (!embedded || record.getAxis(embedded.axis).tokens.length !== map.queryAxis.tokens.length) return null;
  return {
    token: record.getAxis(embedded.axis).tokens[query],
    words: getVector(await unpackArray(embedded.words), query),
    places: embedded.places && getVector(await unpackArray(embedded.places), query),
    segments: embedded.segments && getVector(await unpackArray(embedded.segments), query),
  };
}

/**
 * Count the stages, and return a function that creates the cards of the first stages.
 * @param {StageScene} scene
 * @returns {{count: number, create: (shown: number) => HTMLElement[]}}
 */
function buildCards(scene) {
  const { embedding, dark } = scene;
  const columns = buildStageColumns(scene);
  const create = (/** @type {number} */ shown) => {
    /** @type {HTMLElement[]} */ const cards = [];
    let number = 0;
    if (embedding && ++number <= shown) cards.push(createEmbeddingCard(embedding, scene, number));
    if (++number <= shown) cards.push(createQueryCard(scene, number));
    if (number < shown) cards.push(createScoreTable(scene, columns, { first: number + 1, count: shown - number }));
    number += columns.length;
    if (++number <= shown) cards.push(createSumCard(scene, number));
    if (++number <= shown) cards.push(createOutputCard(scene, number));
    const note = createElement("p", { class: "soft small" }, createColourKey(null, dark), "In each card, the strongest colour is the largest number.");
    return [...cards, note, createTableToggle(() => createNumberTables(scene))];
  };
  return { count: columns.length + (embedding ? 4 : 3), create };
}

/**
 * Create tables of all numbers of the attention for the query.
 * @param {StageScene} scene
 */
function createNumberTables({ stages, map }) {
  const tokens = map.keyAxis.tokens.map(formatToken);
  const { products, scaled, bias, scores, visible, weights } = stages;
  const rows = tokens.map((token, k) => [
    token, formatNumber(products[k], 4), formatNumber(scaled[k], 4), bias ? formatNumber(bias[k], 4) : "none", formatNumber(scores[k], 4),
    visible[k] ? "yes" : "no", formatNumber(weights[k], 4),
  ]);
  const groups = {
    input: [stages.input], query: [stages.query], context: [stages.context], output: [stages.output], key: stages.keys, value: stages.values,
  };
  const vectors = Object.entries(groups).flatMap(([name, group]) => group.map((vector, k) =>
    [group.length > 1 ? `${name} ${tokens[k]}` : name, vector.map((each) => formatNumber(each, 3)).join("  ")]));
  return createElement(
    "div",
    {},
    createTable(["key", "product", "scaled", "bias", "score", "visible", "weight"], rows, "Scores and weights"),
    createTable(["vector", "numbers"], vectors, "Vectors"),
  );
}

/**
 * Explain how to record the steps of an attention, or which maps have them.
 * @param {InspectionRecord} record
 * @param {Store} store
 */
function createMissingNote(record, store) {
  const links = record.maps.flatMap((map, i) =>
    (map.walk ? [createElement("button", { type: "button", onclick: () => store.set({ map: i }) }, map.label)] : []));
  const command = "heedful inspect RUN --text \"...\" --detail yes -o page.html";
  const text = links.length
    ? "This record does not contain the queries, keys and values of this attention. It contains those of:"
    : "This record contains weights, but no queries, keys and values. This command records them:";
  return [
    createElement("p", {}, text),
    links.length ? createElement("div", { class: "controls" }, links) : createElement("pre", { class: "command" }, command),
    createElement("p", { class: "soft" }, "If the record becomes too large, record fewer layers: --detail yes --layers 0."),
  ];
}
