/** Build the stops of the guided tour: what happens to one word, as far as the record shows it. */

import { argmax, getNumber, getSubarray, getVector, sumNumbers, unpackArray } from "heedful/arrays.js";
import { buildColumns } from "heedful/architecture_view.js";
import { loadStages } from "heedful/attention_stages.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { findHops } from "heedful/hops_view.js";
import { loadHeadWeights } from "heedful/record.js";

/** @import { PackedArray } from "heedful/arrays.js" */
/** @import { AttentionMap, BeamNode, InspectionRecord, MapAxis } from "heedful/record.js" */
/** @import { MapCell, PageState } from "heedful/store.js" */
/**
 * @typedef {object} TourStop
 * @property {string} title
 * @property {string} text up to three sentences
 * @property {Partial<PageState>} state of the page at this stop
 * @property {MapCell} [highlight] a cell of the map
 * @property {string} [mark] selector of the element that is marked
 * @property {string} [press] selector of the element that is pressed once, if the view has a selection of its own
 */
/**
 * @typedef {object} TourWord
 * @property {MapAxis | null} axis null if the record has no text to follow
 * @property {number} place
 * @property {string} name in quotation marks
 * @property {string} side of the model that reads it
 */
/** @typedef {{place: number, name: string} | null} GenerationStep the generated token for which the word matters most */

const MAX_HEADS = 4; // heads that are described one by one

/**
 * Return the text whose words the tour follows: the source, or else the text that is read, or else the generated text.
 * @param {InspectionRecord} record
 * @returns {MapAxis | null}
 */
export function findTourAxis(record) {
  const texts = record.axes.filter(({ kind, tokens }) => kind === "text" && tokens.length > 0);
  const findAxis = (/** @type {string} */ name) => texts.find((axis) => axis.name === name);
  return findAxis("source") ?? findAxis("read") ?? findAxis("written") ?? null;
}

/**
 * @param {InspectionRecord} record
 * @param {number} place of the word
 * @returns {Promise<TourStop[]>}
 */
export async function loadStops(record, place) {
  const axis = findTourAxis(record);
  const side = record.levels.find((level) => level.axis === axis?.name)?.side ?? (axis?.name === "source" ? "encoder" : "decoder");
  const word = { axis, place, name: axis ? quoteToken(axis.tokens[place]) : "", side };
  const step = await findStep(record, word);
  const stops = [
    buildTokensStop(record, word),
    await buildEmbeddingStop(record, word),
    ...buildUnrolledStops(record, word),
    await buildOneHeadStop(record, word),
    await buildHeadsStop(record, word),
    await buildLayersStop(record, word),
    await buildSummaryStop(record, word),
    await buildHopsStop(record),
    await buildCrossAttentionStop(record, word, step),
    await buildPictureStop(record, step),
    buildGlimpsesStop(record),
    await buildGeneratedTextStop(record, word, step),
    buildProbabilityStop(record, step),
    buildChoiceStop(record, step),
    buildAnswerStop(record, word),
    await buildAttributionStop(record, word, step),
  ].filter((stop) => stop !== null);
  if (stops.some(({ state }) => state.map !== undefined)) return stops;
  const mapStop = await buildAnyMapStop(record, word);
  return mapStop ? [...stops.slice(0, -1), mapStop, ...stops.slice(-1)] : stops;
}

/** @param {string} token */
function quoteToken(token) {
  return `“${formatToken(token)}”`;
}

/** @param {number} count */
function formatTokenCount(count) {
  return `${count} ${count === 1 ? "token" : "tokens"}`;
}

/** @param {number} weight */
function formatPercent(weight) {
  return weight > 0 && weight < 0.005 ? "under 1 %" : `${Math.round(100 * weight)} %`;
}

/**
 * Find the generated token that attends most to a word of the source; for a text that is continued, the token that is
 * generated when the word has just been read.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<GenerationStep>}
 */
async function findStep(record, { axis, place }) {
  if (record.written.length === 0) return null;
  const cross = axis && record.maps.findLast(({ role, keys, queryAxis }) =>
    role === "cross" && keys === axis.name && queryAxis.tokens.length === record.written.length);
  let best = Math.min(place, record.written.length - 1);
  if (cross) {
    const weights = await loadHeadWeights(cross, "mean");
    best = argmax(record.written.map((_, q) => getNumber(weights, q, place)));
  } else if (axis?.name === "source") best = 0;
  return { place: best, name: quoteToken(record.written[best].token) };
}

/**
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {TourStop | null}
 */
function buildTokensStop(record, { axis, place, name, side }) {
  if (!axis) return null;
  const text = `The text is split into ${formatTokenCount(axis.tokens.length)}, and ${name} is number ${place + 1} of them. ` +
    "The model reads the number of each token in its vocabulary; it never sees letters.";
  return { title: "Tokens", text, ...pointAtBox(record, `tokens/${side}`) };
}

/**
 * Return the state and the mark for a box in the view of the layers; empty if there is no such box.
 * @param {InspectionRecord} record
 * @param {string} id
 * @returns {{state: Partial<PageState>, mark?: string}}
 */
function pointAtBox(record, id) {
  const hasBox = buildColumns(record).some(({ boxes }) => boxes.length > 1 && boxes.some((box) => box.id === id));
  return hasBox ? { state: { view: "architecture" }, mark: `[data-box="${id}"]` } : { state: {} };
}

/**
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<TourStop | null>}
 */
async function buildEmbeddingStop(record, { axis, place, name, side }) {
  if (!axis) return null;
  const embedded = record.embedded.find((each) => each.side === side && each.axis === axis.name);
  if (!embedded) {
    const size = record.widths.find((width) => width.part === "embedding" && width.side === side)?.size;
    if (size === undefined) return null;
    const text = `${name} becomes a vector of ${size} numbers, which were learned in training. Words with similar uses get similar vectors.`;
    return { title: "Embedding", text, ...pointAtBox(record, `embedding/${side}`) };
  }
  const loadVector = async (/** @type {PackedArray} */ packed) => getVector(await unpackArray(packed), place);
  const vector = await loadVector(embedded.words);
  const added = embedded.places && await loadVector(embedded.places);
  const position = added
    ? `The vector of position ${place} is added, so that the same word at another position gets another vector: the vector of the ` +
      `position has length ${formatNumber(Math.hypot(...added), 1)}, the vector of the word has length ${formatNumber(Math.hypot(...vector), 1)}.`
    : "No vector is added for its position.";
  const map = record.maps.findIndex(({ role, layer, walk, queryAxis }) =>
    role === side && layer === 0 && walk && queryAxis.tokens.length === axis.tokens.length);
  const target = map >= 0 ? { state: { view: "steps", map, query: place }, mark: ".stage" } : pointAtBox(record, `embedding/${side}`);
  return { title: "Embedding and position", text: `${name} becomes a vector of ${vector.length} numbers. ${position}`, ...target };
}

/**
 * Build stops for layers with a recurrent state and for layers with windows: which other words they let the word see.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {TourStop[]}
 */
function buildUnrolledStops(record, word) {
  const { axis, place, name, side } = word;
  const levels = record.levels.filter((level) => level.side === side && level.axis === axis?.name);
  const recurrent = levels.filter(({ carries }) => carries.length > 0);
  const hasSelfAttention = findSelfAttention(record, word) !== null;
  const windows = levels.flatMap(({ carries, before, after }) =>
    (!hasSelfAttention && carries.length === 0 && before !== null && after !== null && (before || after) ? [{ before, after }] : []));
  const node = findDiagramNode(record, side, place, levels.length);
  const target = { state: { view: "unrolled" }, ...(node && { press: `[data-node="${node.number}"] .level`, mark: `[data-node="${node.number}"]` }) };
  /** @type {TourStop[]} */ const stops = [];
  if (recurrent.length > 0) {
    const [{ name: cell, carries }] = recurrent;
    const directions = carries.length > 1 ? "from left to right and from right to left" : "from left to right";
    const layers = recurrent.length === 1
      ? `One layer of ${cell} cells reads the text ${directions} and passes`
      : `${recurrent.length} layers of ${cell} cells read the text ${directions} and pass`;
    const steps = node ? ` The cell has read ${name} after ${node.step} of ${record.unrolled?.steps} steps.` : "";
    stops.push({ title: "Recurrent layers", text: `${layers} a state from word to word. Through this state, ${name} depends on other words.${steps}`, ...target });
  }
  if (windows.length > 0) {
    const before = formatTokenCount(sumNumbers(windows.map((window) => window.before)));
    const after = formatTokenCount(sumNumbers(windows.map((window) => window.after)));
    const layers = windows.length === 1 ? "One layer lets" : `${windows.length} layers let`;
    stops.push({ title: "Windows", text: `${layers} ${name} see only its neighbours: ${before} before it and ${after} after it.`, ...target });
  }
  return stops;
}

/**
 * Find the box of a word in the highest row of its side in the diagram of the unrolled model.
 * @param {InspectionRecord} record
 * @param {string} side
 * @param {number} place
 * @param {number} rows number of rows of the side
 */
function findDiagramNode(record, side, place, rows) {
  if (!record.unrolled || rows === 0) return null;
  const { nodes } = record.unrolled;
  const inputs = nodes.flatMap((node, number) => (node[2] === 0 ? [number] : []));
  const first = record.levels[0].side === side ? 0 : inputs.findIndex((number, i) => i > 0 && number !== inputs[i - 1] + 1);
  const column = nodes[inputs[Math.max(0, first) + place]];
  if (!column) return null;
  const boxes = nodes.flatMap(([x, , row, step], number) => (row > 0 && Math.abs(x - column[0]) < 1 ? [{ number, step }] : []));
  return boxes[boxes.length - 1] ?? null;
}

/**
 * Find the first or last self-attention of the side of a word.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @param {{last?: boolean}} [options]
 * @returns {AttentionMap | null}
 */
function findSelfAttention(record, { axis, side, place }, { last = false } = {}) {
  const fits = (/** @type {AttentionMap} */ { role, queryAxis, keys }) => role === side && keys === axis?.name && place < queryAxis.tokens.length;
  return (last ? record.maps.findLast(fits) : record.maps.find(fits)) ?? null;
}

/**
 * Build the stop of the head with the largest weight on another token.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<TourStop | null>}
 */
async function buildOneHeadStop(record, word) {
  const map = findSelfAttention(record, word);
  if (!map || map.heads.length === 0) return null;
  const { name, place } = word;
  const weights = await map.loadWeights();
  const best = map.heads.map((head, h) => {
    const row = getVector(weights, h, place);
    const others = row.map((weight, k) => (k === place ? -1 : weight));
    const k = row.length > 1 ? argmax(others) : 0;
    return { head, h, k, weight: row[k] };
  }).reduce((one, other) => (other.weight > one.weight ? other : one));
  const key = quoteToken(map.keyAxis.tokens[best.k]);
  const head = map.heads.length > 1 ? `head ${best.head}, one of ${map.heads.length},` : "its head";
  const masked = getVector(await map.loadVisible(), place).filter((each) => !each).length;
  const mask = masked ? ` ${masked} later ${masked === 1 ? "token is" : "tokens are"} masked.` : "";
  const state = { map: record.maps.indexOf(map), head: best.head, query: place };
  if (!map.walk) {
    const text = `In layer ${map.layer}, ${head} compares ${name} with all tokens. ${key} gets ${formatPercent(best.weight)} of the attention.${mask}`;
    return { title: "One head", text, state: { ...state, view: "alignment" }, highlight: { query: place, key: best.k } };
  }
  const stages = await loadStages(map, { head: best.h, query: place });
  const text = `In layer ${map.layer}, ${head} compares the query of ${name} with the key of each token: ${key} scores ${formatNumber(stages.scores[best.k])}. ` +
    `Softmax turns the scores into weights, and ${formatPercent(best.weight)} of the sum is the value of ${key}.${mask}`;
  return { title: "One head in numbers", text, state: { ...state, view: "steps" }, mark: `tr[data-key="${best.k}"]` };
}

/**
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<TourStop | null>}
 */
async function buildHeadsStop(record, word) {
  const map = findSelfAttention(record, word);
  if (!map || map.heads.length < 2) return null;
  const weights = await map.loadWeights();
  const heads = map.heads.slice(0, MAX_HEADS).map((head, h) => {
    const row = getVector(weights, h, word.place);
    const k = argmax(row);
    return `head ${head} most to ${quoteToken(map.keyAxis.tokens[k])} (${formatPercent(row[k])})`;
  });
  const rest = map.heads.length > MAX_HEADS ? `, and ${map.heads.length - MAX_HEADS} more` : "";
  const text = `All ${map.heads.length} heads of this layer attend at the same time, each to something else: ${heads.join(", ")}${rest}. ` +
    `Their results are combined into one new vector for ${word.name}.`;
  return { title: "All heads", text, state: { view: "heads", map: record.maps.indexOf(map), head: "mean", query: word.place }, mark: ".scroller" };
}

/**
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<TourStop | null>}
 */
async function buildLayersStop(record, word) {
  const [first, map] = [findSelfAttention(record, word), findSelfAttention(record, word, { last: true })];
  if (!map || !first || map === first) return null;
  const row = getVector(await loadHeadWeights(map, "mean"), word.place);
  const key = argmax(row);
  const count = record.listMaps(map.role).length;
  const mean = map.heads.length > 1 ? ", the mean of its heads" : "";
  const most = `${word.name} attends most to ${quoteToken(map.keyAxis.tokens[key])} (${formatPercent(row[key])}${mean})`;
  const isRepeated = record.levels.filter((level) => level.side === map.role).length === 1; // one level attends several times
  const text = isRepeated
    ? `The model attends ${count} times to the same words, and each result changes the next query. The last time, ${most}.`
    : `There are ${count} such layers, and each reads the output of the layer below. In the last one, ${most}, whose vector is by then a mixture of many words.`;
  return {
    title: isRepeated ? "Repeated attention" : "Layers above",
    text,
    state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: word.place },
    highlight: { query: word.place, key },
  };
}

/**
 * Build the stop of an attention that makes one vector of the text.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<TourStop | null>}
 */
async function buildSummaryStop(record, { axis, place, name }) {
  const map = record.maps.findLast(({ role, keys }) => role === "summary" && keys === axis?.name);
  if (!map) return null;
  const row = getVector(await loadHeadWeights(map, "mean"), 0);
  const best = argmax(row);
  const most = best === place ? "more than any other token" : `${quoteToken(map.keyAxis.tokens[best])} has most, ${formatPercent(row[best])}`;
  return {
    title: "One vector for the text",
    text: `To judge the text, the model sums the vectors of its tokens by weight. ${name} has ${formatPercent(row[place])} of the weight; ${most}.`,
    state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: 0 },
    highlight: { query: 0, key: place },
  };
}

/**
 * @param {InspectionRecord} record
 * @returns {Promise<TourStop | null>}
 */
async function buildHopsStop(record) {
  const hops = findHops(record).filter(({ map }) => map.role !== "summary");
  if (hops.length === 0) return null;
  const facts = await Promise.all(hops.map(async ({ map, head }) => {
    const row = getVector(await loadHeadWeights(map, head), 0);
    const best = argmax(row);
    return `to ${quoteToken(map.keyAxis.tokens[best])} (${formatPercent(row[best])})`;
  }));
  const text = `The model attends ${hops.length} times to the same facts, and each result changes the next query: most ${facts.join(", then ")}.`;
  return { title: "Hops", text, state: { view: "hops" }, mark: "table.weights" };
}

/**
 * Build a stop for a model whose attention has none of the usual roles: who attends most to the word, or what the word
 * attends to.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {Promise<TourStop | null>}
 */
async function buildAnyMapStop(record, { axis, place }) {
  const map = record.maps[record.maps.length - 1];
  if (!map) return null;
  const weights = await loadHeadWeights(map, "mean");
  const token = axis?.tokens[place] ?? "";
  const wordKey = map.keyAxis.tokens.indexOf(token);
  const query = wordKey >= 0
    ? argmax(map.queryAxis.tokens.map((_, q) => getNumber(weights, q, wordKey)))
    : Math.max(0, map.queryAxis.tokens.indexOf(token));
  const key = wordKey >= 0 ? wordKey : argmax(getVector(weights, query));
  const text = `Here ${quoteToken(map.queryAxis.tokens[query])} (${map.queries}) attends to ${quoteToken(map.keyAxis.tokens[key])} (${map.keys}) ` +
    `with ${formatPercent(getNumber(weights, query, key))} of its weight.`;
  return { title: "Attention", text, state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query }, highlight: { query, key } };
}

/**
 * Build the stop of the generated token that attends most to the word.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @param {GenerationStep} step
 * @returns {Promise<TourStop | null>}
 */
async function buildCrossAttentionStop(record, { axis, place, name }, step) {
  const map = step && record.maps.findLast(({ role, keys, queryAxis }) =>
    role === "cross" && keys === axis?.name && step.place < queryAxis.tokens.length);
  if (!map) return null;
  const row = getVector(await loadHeadWeights(map, "mean"), step.place);
  const best = argmax(row);
  const comparison = best === place ? "more than any other token" : `but ${quoteToken(map.keyAxis.tokens[best])} gets ${formatPercent(row[best])}`;
  const text = "The decoder generates one token after another, and attends to the source each time. " +
    `${name} gets its largest weight when ${step.name} is generated: it gets ${formatPercent(row[place])} of the attention, ${comparison}.`;
  return {
    title: "Cross attention",
    text,
    state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: step.place },
    highlight: { query: step.place, key: place },
  };
}

/**
 * Build the stop of the regions of a picture, or of the frames of a clip or a recording.
 * @param {InspectionRecord} record
 * @param {GenerationStep} step
 * @returns {Promise<TourStop | null>}
 */
async function buildPictureStop(record, step) {
  const map = record.maps.findLast(({ role, keyAxis }) => role === "cross" && keyAxis.kind !== "text" && keyAxis.tokens.length > 1);
  if (!map || !step || step.place >= map.queryAxis.tokens.length) return null;
  const row = getVector(await loadHeadWeights(map, "mean"), step.place);
  const best = argmax(row);
  const isGrid = map.keyAxis.kind === "grid";
  const name = isGrid ? `region ${map.keyAxis.tokens[best]} (row, column)` : `frame ${map.keyAxis.tokens[best]}`;
  return {
    title: isGrid ? "The picture" : "The frames",
    text: `To generate ${step.name}, the model attends to the ${map.keys}: most to ${name}, which gets ${formatPercent(row[best])} of the attention.`,
    state: { view: isGrid ? "regions" : "frames", map: record.maps.indexOf(map), head: "mean", query: step.place },
    mark: isGrid ? ".region[aria-pressed=true]" : ".frame-row.chosen",
  };
}

/**
 * @param {InspectionRecord} record
 * @returns {TourStop | null}
 */
function buildGlimpsesStop({ glimpses }) {
  if (glimpses.length === 0) return null;
  const [first, last] = [glimpses[0].options[0], glimpses[glimpses.length - 1].options[0]];
  const answers = first && last
    ? ` After the first glimpse, its answer is ${quoteToken(first[0])} (${formatPercent(first[1])}). After the last one, it is ${quoteToken(last[0])} (${formatPercent(last[1])}).`
    : "";
  return { title: "Glimpses", text: `The model looks at ${glimpses.length} places of the picture, one after the other.${answers}`, state: { view: "glimpses" }, mark: ".glimpses" };
}

/**
 * Build the stop of the attention to the text that was generated before.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @param {GenerationStep} step
 * @returns {Promise<TourStop | null>}
 */
async function buildGeneratedTextStop(record, { axis, side }, step) {
  const map = step && record.maps.findLast(({ role, queryAxis }) => role === "decoder" && step.place < queryAxis.tokens.length);
  if (!map || (side === "decoder" && map.keys === axis?.name)) return null;
  const row = getVector(await loadHeadWeights(map, "mean"), step.place);
  const key = argmax(row);
  const text = `To generate ${step.name}, the decoder also attends to the text generated so far, most to ` +
    `${quoteToken(map.keyAxis.tokens[key])} (${formatPercent(row[key])}). Later tokens are masked, because they do not exist yet.`;
  return {
    title: "The generated text",
    text,
    state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: step.place },
    highlight: { query: step.place, key },
  };
}

/**
 * Return the state and the button for a step in the view of decoding.
 * @param {InspectionRecord} record
 * @param {number} place
 * @returns {{state: Partial<PageState>, press: string}}
 */
function pointAtDecoding(record, place) {
  const map = record.maps.findLastIndex(({ role, queryAxis }) => role !== "encoder" && queryAxis.tokens.length === record.written.length);
  return { state: { view: "decoding", ...(map >= 0 && { map, head: "mean", query: place }) }, press: `.words [data-step="${place}"]` };
}

/**
 * @param {InspectionRecord} record
 * @param {GenerationStep} step
 * @returns {TourStop | null}
 */
function buildProbabilityStop(record, step) {
  if (!step) return null;
  const { token, log_probability: logProbability, alternatives } = record.written[step.place];
  const others = alternatives.filter(([other]) => other !== token).slice(0, 2);
  const size = record.widths.find((width) => width.part === "output")?.size;
  const names = others.map(([other, each]) => `${quoteToken(other)} (${formatPercent(Math.exp(each))})`).join(" and ");
  const text = `The last vector is compared with ${size ? `all ${size.toLocaleString("en")} tokens` : "all tokens"} of the vocabulary. ` +
    `Softmax turns the scores into probabilities: ${step.name} gets ${formatPercent(Math.exp(logProbability))}${names && `; alternatives are ${names}`}.`;
  return { title: "Probabilities of the next token", text, ...pointAtDecoding(record, step.place), mark: ".decoding-options .is-written" };
}

/**
 * @param {InspectionRecord} record
 * @param {GenerationStep} step
 * @returns {TourStop | null}
 */
function buildChoiceStop(record, step) {
  if (!step) return null;
  const { token, alternatives } = record.written[step.place];
  if (record.tree.length > 1) {
    const countFate = (/** @type {BeamNode["fate"]} */ fate) => record.tree.filter((branch) => branch.fate === fate).length;
    const text = `Beam search continues several texts at the same time, and compares them as a whole: ${countFate("ended")} ended, ` +
      `${countFate("pruned")} were pruned, and the best one, which contains ${step.name}, was returned.`;
    return { title: "The choice", text, ...pointAtDecoding(record, step.place), mark: ".tree-scroll" };
  }
  const first = alternatives[0]?.[0] ?? token;
  const reason = first === token
    ? `${step.name} is the most probable token, so it is generated.`
    : `The most probable token was ${quoteToken(first)}, but the text has ${step.name}, which was given or sampled.`;
  const text = `${reason} It is the input of the next step, and the same happens again.`;
  return { title: "The choice", text, ...pointAtDecoding(record, step.place), mark: ".word.is-current" };
}

/**
 * Build the stop of the answer about the word, or else about the whole text.
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @returns {TourStop | null}
 */
function buildAnswerStop({ answers }, { axis, place, name }) {
  if (answers.length === 0) return null;
  const wordAnswer = axis?.name === "source" ? answers.findIndex((answer) => answer.place === place) : -1;
  const textAnswer = answers.findIndex((answer) => answer.place === null);
  const number = wordAnswer >= 0 ? wordAnswer : Math.max(0, textAnswer);
  const { about, subject, options, number: value, place: answerPlace } = answers[number];
  const target = wordAnswer >= 0 ? name : answerPlace === null ? "the whole text" : quoteToken(subject);
  const best = options.slice(0, 3).map(([option, probability]) => `${quoteToken(option)} (${formatPercent(probability)})`);
  const answer = value === null ? best.join(", then ") : formatNumber(value, 3);
  return {
    title: "The answer",
    text: `From the last vectors, the model predicts for ${target}: ${about}, ${answer}.`,
    state: { view: "answers" },
    press: `[data-answer="${number}"]`,
    mark: ".decoding-options",
  };
}

/**
 * @param {InspectionRecord} record
 * @param {TourWord} word
 * @param {GenerationStep} step
 * @returns {Promise<TourStop | null>}
 */
async function buildAttributionStop(record, { axis, place, name }, step) {
  const attribution = record.attributions.find(({ axes, complete }) => axis && axes.includes(axis.name) && complete);
  if (!attribution || !axis) return null;
  const { about, places, axes, names, unit, complete } = attribution;
  const row = about === "written"
    ? places.indexOf(step?.place ?? 0)
    : Math.max(0, places.findIndex((answer) => record.answers[answer].place === place));
  if (!complete?.[row]) return null;
  const scores = getSubarray(await unpackArray(attribution.scores), row);
  const start = sumNumbers(axes.slice(0, axes.indexOf(axis.name)).map((each) => record.getAxis(each).tokens.length));
  const score = getNumber(scores, start + place);
  const output = about === "written" ? step?.name : `“${names[row]}”`;
  const text = "Attention weights show what the model read. Integrated gradients show what counted for an output: " +
    `${name} counts ${formatNumber(Math.abs(score))}${unit && ` ${unit}`} ${score >= 0 ? "for" : "against"} ${output}.`;
  return { title: "Attribution", text, state: { view: "attribution" }, press: `.token-row [data-row="${row}"]`, mark: `[data-column="${start + place}"]` };
}
