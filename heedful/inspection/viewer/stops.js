/** The stops of the guided tour: what happens to one word, as far as this record shows it. */

import { unpack } from "heedful/arrays.js";
import { columnsOf } from "heedful/architecture.js";
import { hopsOf } from "heedful/hops.js";
import { at, display, matrixOf, part } from "heedful/record.js";
import { stagesOf } from "heedful/stages.js";
import { written } from "heedful/strips.js";

/** @typedef {import("heedful/app.js").State} State */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {import("heedful/record.js").AttentionMap} AttentionMap */
/**
 * @typedef {object} Stop
 * @property {string} title
 * @property {string} words one or two sentences
 * @property {Partial<State>} state the part of the page that is shown
 * @property {{query: number, key: number}} [spot] a cell of the map
 * @property {string} [mark] selector of what is pointed out
 * @property {string} [press] selector of what is pressed once, where a view has a choice of its own
 */
/**
 * @typedef {object} Word
 * @property {import("heedful/record.js").Axis | null} axis null where there is no text to follow
 * @property {number} place
 * @property {string} name as the sentences call it
 * @property {string} side of the model that reads it
 */

const FEW = 4; // heads that are described one by one

/**
 * The text whose words can be followed: what is read, else what is written.
 * @param {Inspection} record
 */
export function followed(record) {
  const texts = record.axes.filter(({ kind, tokens }) => kind === "text" && tokens.length > 0);
  const named = (/** @type {string} */ name) => texts.find((axis) => axis.name === name);
  return named("source") ?? named("read") ?? named("written") ?? null;
}

/**
 * @param {Inspection} record
 * @param {number} place of the word
 * @returns {Promise<Stop[]>}
 */
export async function stopsOf(record, place) {
  const axis = followed(record);
  const side = record.levels.find((level) => level.axis === axis?.name)?.side ?? (axis?.name === "source" ? "encoder" : "decoder");
  const word = { axis, place, name: axis ? `“${display(axis.tokens[place])}”` : "", side };
  const step = await stepOf(record, word);
  const found = [
    tokensStop(record, word),
    await embeddingStop(record, word),
    ...unrolledStops(record, word),
    await oneHeadStop(record, word),
    await headsStop(record, word),
    await deepStop(record, word),
    await summaryStop(record, word),
    await hopsStop(record),
    await sourceStop(record, word, step),
    await pictureStop(record, step),
    glimpsesStop(record),
    await ownTextStop(record, word, step),
    probabilityStop(record, step),
    choiceStop(record, step),
    answerStop(record, word),
    await matteredStop(record, word, step),
  ];
  const stops = /** @type {Stop[]} */ (found.filter(Boolean));
  if (stops.some(({ state }) => state.map !== undefined)) return stops;
  const look = await anyLook(record, word);
  return look ? [...stops.slice(0, -1), look, ...stops.slice(-1)] : stops;
}

/** @typedef {{place: number, name: string} | null} Step what is written where the word matters */

/**
 * The step that looks most at a word of the source; of a text that is written on, the step that has just read the word.
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Step>}
 */
async function stepOf(record, { axis, place }) {
  if (record.written.length === 0) return null;
  const across = axis && record.maps.findLast(({ role, keys, queryAxis }) => role === "cross" && keys === axis.name && queryAxis.tokens.length === record.written.length);
  let best = Math.min(place, record.written.length - 1);
  if (across) {
    const weights = await matrixOf(across, "mean");
    best = argmax(record.written.map((_, q) => at(weights, q, place)));
  } else if (axis?.name === "source") best = 0;
  return { place: best, name: `“${display(record.written[best].token)}”` };
}

/** @param {ArrayLike<number>} numbers */
function argmax(numbers) {
  let best = 0;
  for (let i = 1; i < numbers.length; i += 1) if (numbers[i] > numbers[best]) best = i;
  return best;
}

/**
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Stop | null}
 */
function tokensStop(record, { axis, place, name, side }) {
  if (!axis) return null;
  const words = `The text is cut into ${axis.tokens.length} tokens, and ${name} is number ${place + 1} of them. A token is looked up by its number: the model never sees letters.`;
  return { title: "Tokens", words, ...atBox(record, `tokens/${side}`) };
}

/**
 * Where a box of the picture of the whole model is; the first view where there is no such picture.
 * @param {Inspection} record
 * @param {string} id
 */
function atBox(record, id) {
  const there = columnsOf(record).some(({ boxes }) => boxes.length > 1 && boxes.some((box) => box.id === id));
  return there ? { state: { view: "architecture" }, mark: `[data-box="${id}"]` } : { state: {} };
}

/**
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Stop | null>}
 */
async function embeddingStop(record, { axis, place, name, side }) {
  if (!axis) return null;
  const title = "Embedding and position";
  const found = record.embedded.find((each) => each.side === side && each.axis === axis.name);
  const size = record.widths.find((width) => width.part === "embedding" && width.side === side)?.size;
  if (!found) return size === undefined ? null : { title: "Embedding", words: `${name} becomes a vector of ${size} numbers that were learned in training; words with similar uses get similar vectors.`, ...atBox(record, `embedding/${side}`) };
  const length = async (/** @type {any} */ packed) => {
    const { shape, data } = await unpack(packed);
    const vector = data.subarray(place * shape[1], (place + 1) * shape[1]);
    return { size: shape[1], norm: Math.hypot(...vector) };
  };
  const own = await length(found.words);
  const added = found.places && (await length(found.places));
  const position = added
    ? `The vector of position ${place} is added (its length is ${written(added.norm, 1)}, the word's ${written(own.norm, 1)}), so that the same word elsewhere looks different.`
    : "Nothing is added for its position here.";
  const first = record.maps.findIndex(({ role, layer, walk, queryAxis }) => role === side && layer === 0 && walk && queryAxis.tokens.length === axis.tokens.length);
  const where = first >= 0 ? { state: { view: "steps", map: first, query: place }, mark: ".stage" } : atBox(record, `embedding/${side}`);
  return { title, words: `${name} becomes a vector of ${own.size} numbers. ${position}`, ...where };
}

/**
 * Layers that carry a state, and windows: what they let the word see.
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Stop[]}
 */
function unrolledStops(record, { axis, place, name, side }) {
  const levels = record.levels.filter((level) => level.side === side && level.axis === axis?.name);
  const carrying = levels.filter(({ carries }) => carries.length > 0);
  const attends = ownMap(record, { axis, place, name, side }) !== null;
  const windows = levels.filter(({ carries, before, after }) => !attends && carries.length === 0 && before !== null && after !== null && (before || after));
  const stops = [];
  const node = nodeOf(record, side, place, levels.length);
  const where = { state: { view: "unrolled" }, ...(node && { press: `[data-node="${node.number}"] .level`, mark: `[data-node="${node.number}"]` }) };
  const when = node ? ` It has read ${name} after ${node.step} of ${record.unrolled.steps} steps.` : "";
  if (carrying.length > 0) {
    const [{ name: cell, carries }] = carrying;
    const ways = carries.length > 1 ? "from left to right and from right to left" : "from left to right";
    const one = carrying.length === 1;
    const layers = one ? `One layer of ${cell} cells reads` : `${carrying.length} layers of ${cell} cells read`;
    stops.push({ title: "Word after word", words: `${layers} the text ${ways} and ${one ? "carries" : "carry"} a state along: through it, ${name} knows about other words.${when}`, ...where });
  }
  if (windows.length > 0) {
    const reach = (/** @type {"before" | "after"} */ way) => windows.reduce((sum, level) => sum + level[way], 0);
    stops.push({ title: "Windows", words: `${windows.length} ${windows.length === 1 ? "layer lets" : "layers let"} ${name} see only its neighbours: ${counted(reach("before"))} before it and ${counted(reach("after"))} after it.`, ...where });
  }
  return stops;
}

/**
 * The box of a word in the highest row that the diagram of the unrolled model has of its side.
 * @param {Inspection} record
 * @param {string} side
 * @param {number} place
 * @param {number} rows
 */
function nodeOf(record, side, place, rows) {
  if (!record.unrolled || rows === 0) return null;
  /** @type {[number, number, number, number, string, string][]} */ const nodes = record.unrolled.nodes;
  const inputs = nodes.flatMap((node, number) => (node[2] === 0 ? [number] : []));
  const first = record.levels[0].side === side ? 0 : inputs.findIndex((number, i) => i > 0 && number !== inputs[i - 1] + 1);
  const column = nodes[inputs[Math.max(0, first) + place]];
  if (!column) return null;
  const above = nodes.flatMap(([x, , row, step], number) => (row > 0 && Math.abs(x - column[0]) < 1 ? [{ number, step }] : []));
  return above[above.length - 1] ?? null;
}

/** The first attention of the word's own side, and its row of it. */
function ownMap(/** @type {Inspection} */ record, /** @type {Word} */ { axis, side, place }, last = false) {
  const fits = ({ role, queryAxis, keys }) => role === side && keys === axis?.name && place < queryAxis.tokens.length;
  return (last ? record.maps.findLast(fits) : record.maps.find(fits)) ?? null;
}

/**
 * One head in numbers: the one that takes most of a single other token.
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Stop | null>}
 */
async function oneHeadStop(record, word) {
  const map = ownMap(record, word);
  if (!map || map.heads.length === 0) return null;
  const { name, place } = word;
  const weights = await map.weights();
  const best = map.heads.map((head, h) => {
    const row = rowOf(part(weights, h), place);
    const others = row.map((weight, k) => (k === place ? -1 : weight));
    const k = row.length > 1 ? argmax(others) : 0;
    return { head, h, k, weight: row[k] };
  }).reduce((one, two) => (two.weight > one.weight ? two : one));
  const index = record.maps.indexOf(map);
  const key = `“${display(map.keyAxis.tokens[best.k])}”`;
  const who = map.heads.length > 1 ? `head ${best.head}, one of ${map.heads.length},` : "its head";
  const spot = { query: place, key: best.k };
  const visible = await map.visible();
  const hidden = rowOf(visible, place).filter((each) => !each).length;
  const mask = hidden ? ` ${hidden} ${hidden === 1 ? "token" : "tokens"} after it ${hidden === 1 ? "is" : "are"} hidden.` : "";
  const state = { map: index, head: best.head, query: place };
  if (!map.walk) {
    return { title: "One head", words: `In layer ${map.layer} ${who} compares ${name} with all tokens and takes ${share(best.weight)} of what it reads from ${key}.${mask}`, state: { ...state, view: "alignment" }, spot };
  }
  const stages = await stagesOf(map, { head: best.h, query: place });
  const words = `In layer ${map.layer} ${who} compares the query of ${name} with the key of each token: ${key} scores ${written(stages.scores[best.k])}. ` +
    `Softmax turns the scores into shares, and ${share(best.weight)} of the sum is the value of ${key}.${mask}`;
  return { title: "One head in numbers", words, state: { ...state, view: "steps" }, mark: `tr[data-key="${best.k}"]` };
}

/** @param {import("heedful/record.js").Numbers} matrix @param {number} row */
function rowOf({ shape: [, columns], data }, row) {
  return Array.from(data.subarray(row * columns, (row + 1) * columns));
}

/** @param {number} count */
function counted(count) {
  return `${count} ${count === 1 ? "token" : "tokens"}`;
}

/** @param {number} weight */
function share(weight) {
  return weight > 0 && weight < 0.005 ? "under 1 %" : `${Math.round(100 * weight)} %`;
}

/**
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Stop | null>}
 */
async function headsStop(record, word) {
  const map = ownMap(record, word);
  if (!map || map.heads.length < 2) return null;
  const weights = await map.weights();
  const told = map.heads.slice(0, FEW).map((head, h) => {
    const row = rowOf(part(weights, h), word.place);
    const k = argmax(row);
    return `head ${head} most at “${display(map.keyAxis.tokens[k])}” (${share(row[k])})`;
  });
  const more = map.heads.length > FEW ? `; ${map.heads.length - FEW} more` : "";
  const words = `All ${map.heads.length} heads of this layer look at the same time, each for something different: ${told.join(", ")}${more}. What they find is joined into one new vector for ${word.name}.`;
  return { title: "Heads together", words, state: { view: "heads", map: record.maps.indexOf(map), head: "mean", query: word.place }, mark: ".scroller" };
}

/**
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Stop | null>}
 */
async function deepStop(record, word) {
  const [first, map] = [ownMap(record, word), ownMap(record, word, true)];
  if (!map || !first || map === first) return null;
  const row = rowOf(await matrixOf(map, "mean"), word.place);
  const key = argmax(row);
  const count = record.layers(map.role).length;
  const most = `${word.name} takes most from “${display(map.keyAxis.tokens[key])}” (${share(row[key])}${map.heads.length > 1 ? ", the mean of its heads" : ""})`;
  const looks = record.levels.filter((level) => level.side === map.role).length === 1; // one level that looks several times
  const words = looks
    ? `It looks ${count} times at the same words, and what it found changes its next query. The last time ${most}.`
    : `${count} such layers follow each other, and each reads the output of the one before. In the last one ${most}, which by then is a mixture of many words.`;
  return { title: looks ? "Look after look" : "Layer upon layer", words, state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: word.place }, spot: { query: word.place, key } };
}

/**
 * Attentions that make one vector of the text.
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Stop | null>}
 */
async function summaryStop(record, { axis, place, name }) {
  const map = record.maps.findLast(({ role, keys }) => role === "summary" && keys === axis?.name);
  if (!map) return null;
  const row = rowOf(await matrixOf(map, "mean"), 0);
  const best = argmax(row);
  const most = best === place ? "more than any other token" : `“${display(map.keyAxis.tokens[best])}” gives most, ${share(row[best])}`;
  return {
    title: "One vector for the text",
    words: `To judge the text, the model sums its vectors into one. ${name} gives ${share(row[place])} of it; ${most}.`,
    state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: 0 }, spot: { query: 0, key: place },
  };
}

/** @param {Inspection} record @returns {Promise<Stop | null>} */
async function hopsStop(record) {
  const hops = hopsOf(record).filter(([map]) => map.role !== "summary");
  if (hops.length === 0) return null;
  const best = await Promise.all(hops.map(async ([map, head]) => {
    const row = rowOf(await matrixOf(map, head), 0);
    return `at “${display(map.keyAxis.tokens[argmax(row)])}” (${share(row[argmax(row)])})`;
  }));
  return { title: "Hops", words: `The model looks ${hops.length} times at the same facts, and what it found decides where it looks next: ${best.join(", then ")}.`, state: { view: "hops" }, mark: "table.weights" };
}

/**
 * Of a model whose attention has none of the usual roles: who looks most at the word, or where it looks itself.
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Promise<Stop | null>}
 */
async function anyLook(record, { axis, place }) {
  const map = record.maps[record.maps.length - 1];
  if (!map) return null;
  const weights = await matrixOf(map, "mean");
  const token = axis?.tokens[place] ?? "";
  const [asked, looks] = [map.keyAxis.tokens.indexOf(token), Math.max(0, map.queryAxis.tokens.indexOf(token))];
  const query = asked >= 0 ? argmax(map.queryAxis.tokens.map((_, q) => at(weights, q, asked))) : looks;
  const key = asked >= 0 ? asked : argmax(rowOf(weights, query));
  const words = `Here “${display(map.queryAxis.tokens[query])}” (${map.queries}) looks at “${display(map.keyAxis.tokens[key])}” (${map.keys}) and takes ${share(at(weights, query, key))} of what it reads from it.`;
  return { title: "Attention", words, state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query }, spot: { query, key } };
}

/**
 * The step of the decoder that looks most at the word.
 * @param {Inspection} record
 * @param {Word} word
 * @param {Step} step
 * @returns {Promise<Stop | null>}
 */
async function sourceStop(record, { axis, place, name }, step) {
  const map = step && record.maps.findLast(({ role, keys, queryAxis }) => role === "cross" && keys === axis?.name && step.place < queryAxis.tokens.length);
  if (!map) return null;
  const row = rowOf(await matrixOf(map, "mean"), step.place);
  const best = argmax(row);
  const more = best === place ? "more than to any other token" : `though “${display(map.keyAxis.tokens[best])}” gets ${share(row[best])}`;
  const words = `The decoder writes one token after another and looks back at the source each time. ${name} is looked at most when ${step.name} is written: it gets ${share(row[place])} of the attention, ${more}.`;
  return { title: "Cross attention", words, state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: step.place }, spot: { query: step.place, key: place } };
}

/**
 * Where in a picture, a clip or a recording the step looked.
 * @param {Inspection} record
 * @param {Step} step
 * @returns {Promise<Stop | null>}
 */
async function pictureStop(record, step) {
  const map = record.maps.findLast(({ role, keyAxis }) => role === "cross" && keyAxis.kind !== "text" && keyAxis.tokens.length > 1);
  if (!map || !step || step.place >= map.queryAxis.tokens.length) return null;
  const row = rowOf(await matrixOf(map, "mean"), step.place);
  const best = map.keyAxis.tokens[argmax(row)];
  const [view, where] = map.keyAxis.kind === "grid" ? ["regions", `region ${best} (row, column)`] : ["frames", `frame ${best}`];
  return { title: view === "regions" ? "The picture" : "The frames", words: `To write ${step.name} the model looks at ${map.keys}: most at ${where}, which gets ${share(Math.max(...row))} of the attention.`, state: { view, map: record.maps.indexOf(map), head: "mean", query: step.place }, mark: view === "regions" ? ".region[aria-pressed=true]" : ".frame-row.chosen" };
}

/** @param {Inspection} record @returns {Stop | null} */
function glimpsesStop({ glimpses }) {
  if (glimpses.length === 0) return null;
  const [first, last] = [glimpses[0].options[0], glimpses[glimpses.length - 1].options[0]];
  const said = first && last ? ` After the first glimpse it would answer “${display(first[0])}” (${share(first[1])}), after the last “${display(last[0])}” (${share(last[1])}).` : "";
  return { title: "Glimpses", words: `The model looks at ${glimpses.length} places of the picture, one after the other.${said}`, state: { view: "glimpses" }, mark: ".glimpses" };
}

/**
 * What the writing step took from the text that was written before.
 * @param {Inspection} record
 * @param {Word} word
 * @param {Step} step
 * @returns {Promise<Stop | null>}
 */
async function ownTextStop(record, { axis, side }, step) {
  const map = step && record.maps.findLast(({ role, queryAxis }) => role === "decoder" && step.place < queryAxis.tokens.length);
  if (!map || (side === "decoder" && map.keys === axis?.name)) return null;
  const row = rowOf(await matrixOf(map, "mean"), step.place);
  const key = argmax(row);
  return { title: "What was written before", words: `To write ${step.name} the decoder also looks at its own text so far, most at “${display(map.keyAxis.tokens[key])}” (${share(row[key])}). Later tokens are hidden, because they are not written yet.`, state: { view: "alignment", map: record.maps.indexOf(map), head: "mean", query: step.place }, spot: { query: step.place, key } };
}

/** What shows this step in the view of decoding. */
function decodingAt(/** @type {Inspection} */ record, /** @type {number} */ place) {
  const map = record.maps.findLastIndex(({ role, queryAxis }) => role !== "encoder" && queryAxis.tokens.length === record.written.length);
  return { state: { view: "decoding", ...(map >= 0 && { map, head: /** @type {const} */ ("mean"), query: place }) }, press: `.words [data-step="${place}"]` };
}

/**
 * @param {Inspection} record
 * @param {Step} step
 * @returns {Stop | null}
 */
function probabilityStop(record, step) {
  if (!step) return null;
  const { token, log_probability: logp, alternatives } = record.written[step.place];
  const others = alternatives.filter(([other]) => other !== token).slice(0, 2);
  const size = record.widths.find((width) => width.part === "output")?.size;
  const named = others.map(([other, each]) => `“${display(other)}” (${share(Math.exp(each))})`).join(" and ");
  const words = `At the top the vector is compared with ${size ? `all ${size.toLocaleString("en")} tokens` : "all tokens"} that could come next, and softmax makes probabilities: ${step.name} gets ${share(Math.exp(logp))}${named && `, before ${named}`}.`;
  const better = others.some(([, each]) => each > logp);
  return { title: "Probabilities of the next token", words: better ? words.replace(", before ", ", next to ") : words, ...decodingAt(record, step.place), mark: ".decoding-chances .is-written" };
}

/**
 * @param {Inspection} record
 * @param {Step} step
 * @returns {Stop | null}
 */
function choiceStop(record, step) {
  if (!step) return null;
  const { token, alternatives } = record.written[step.place];
  if (record.tree.length > 1) {
    const count = (/** @type {string} */ fate) => record.tree.filter((branch) => branch.fate === fate).length;
    const words = `A beam follows several texts at once and compares them as a whole: ${count("ended")} came to an end, ${count("pruned")} were given up on the way, and the best of them, with ${step.name} in it, was returned.`;
    return { title: "The choice", words, ...decodingAt(record, step.place), mark: ".tree-scroll" };
  }
  const first = alternatives[0]?.[0] ?? token;
  const words = first === token
    ? `${step.name} is the most probable token and is written. It is read in the next step, and the process starts again.`
    : `The most probable token was “${display(first)}”, but the text has ${step.name}: it was given, or drawn by chance. It is read in the next step, and the process starts again.`;
  return { title: "The choice", words, ...decodingAt(record, step.place), mark: ".word.is-now" };
}

/**
 * The answer about the word, else about the whole text.
 * @param {Inspection} record
 * @param {Word} word
 * @returns {Stop | null}
 */
function answerStop({ answers }, { axis, place, name }) {
  if (answers.length === 0) return null;
  const own = axis?.name === "source" ? answers.findIndex((answer) => answer.place === place) : -1;
  const whole = answers.findIndex((answer) => answer.place === null);
  const number = own >= 0 ? own : Math.max(0, whole);
  const { about, subject, options, number: value } = answers[number];
  const whose = own >= 0 ? name : answers[number].place === null ? "the whole text" : `“${display(subject)}”`;
  const said = value !== null ? written(value, 3) : options.slice(0, 3).map(([text, chance]) => `“${display(text)}” (${share(chance)})`).join(", then ");
  return { title: "The answer", words: `From the vectors at the top the model predicts for ${whose}: ${about}, ${said}.`, state: { view: "answers" }, press: `[data-answer="${number}"]`, mark: ".decoding-chances" };
}

/**
 * @param {Inspection} record
 * @param {Word} word
 * @param {Step} step
 * @returns {Promise<Stop | null>}
 */
async function matteredStop(record, { axis, place, name }, step) {
  const found = record.attributions.find(({ axes }) => axis && axes.includes(axis.name));
  if (!found || !axis) return null;
  const row = found.about === "written" ? found.places.indexOf(step?.place ?? 0) : Math.max(0, found.places.findIndex((/** @type {number} */ answer) => record.answers[answer].place === place));
  if (row < 0) return null;
  const { shape, data } = await unpack(found.scores);
  const start = found.axes.slice(0, found.axes.indexOf(axis.name)).reduce((/** @type {number} */ sum, /** @type {string} */ each) => sum + record.axis(each).tokens.length, 0);
  const score = data[row * shape[1] + start + place];
  const told = found.about === "written" ? step?.name : `“${found.names[row]}”`;
  const way = score >= 0 ? "for" : "against";
  const words = `Attention shows where the model looked, gradients show what mattered: ${name} counts ${written(Math.abs(score))}${found.unit && ` ${found.unit}`} ${way} ${told}.`;
  return { title: "What mattered", words, state: { view: "mattered" }, press: `.token-row [data-row="${row}"]`, mark: `[data-column="${start + place}"]` };
}
