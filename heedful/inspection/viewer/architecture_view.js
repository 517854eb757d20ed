/** Show the whole model as boxes: its layers in order, their widths, and links to the views of each. */

import { createElement, createTable, createTableToggle } from "heedful/dom.js";
import { capitalizeText } from "heedful/formatting.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, InspectionRecord, LayerInfo } from "heedful/record.js" */
/** @import { PageState } from "heedful/store.js" */
/** @typedef {{text: string, state: Partial<PageState>}} ViewLink */
/**
 * @typedef {object} LayerBox
 * @property {string} id
 * @property {string} title
 * @property {string} detail
 * @property {number | null} width numbers per token
 * @property {ViewLink[]} links to views; the first is the view of the box itself
 */
/** @typedef {{side: string, boxes: LayerBox[]}} SideColumn */

const MIN_BOX_WIDTH = 46; // percent of the column

/** @type {PageView} */
export const architectureView = {
  id: "architecture",
  title: "Layers",
  help:
    "This view shows the whole model from top to bottom: its input, its layers in order, and its output. A box is as wide as " +
    "the vectors that leave it, and the number in it is their size. Choose a box, or an attention in it, to open the view " +
    "that shows what it did with this text.",
  controls: [],
  isAvailable: (record) => buildColumns(record).some(({ boxes }) => boxes.length > 1),
  show,
};

/**
 * Build the boxes of the model, a column for each side.
 * @param {InspectionRecord} record
 * @returns {SideColumn[]}
 */
export function buildColumns(record) {
  const levels = record.levels.length > 0 ? record.levels : guessLevels(record);
  const sides = [...new Set(levels.map(({ side }) => side))];
  const usedMaps = /** @type {Set<AttentionMap>} */ (new Set());
  const columns = sides.map((side) => buildColumn(record, side, levels.filter((level) => level.side === side), usedMaps));
  const reader = levels.find(({ side, across, starts }) => side === "decoder" && (across.length > 0 || (starts ?? "nothing") !== "nothing"));
  if (reader && columns[0].side === "encoder") columns[0].boxes.push(buildMemoryBox(columns[0], reader));
  const last = columns[columns.length - 1];
  if (last) last.boxes.push(...buildUpperBoxes(record, usedMaps), ...buildOutputBoxes(record));
  return columns;
}

/**
 * Build the box of what the decoder reads from the encoder.
 * @param {SideColumn} encoder
 * @param {LayerInfo} reader a level of the decoder
 * @returns {LayerBox}
 */
function buildMemoryBox({ boxes }, { across }) {
  const { width } = boxes[boxes.length - 1];
  const hasAttention = across.length > 0;
  const vectors = boxes[0].title.replace("tokens", "vectors");
  const detail = hasAttention ? `${vectors} that the decoder attends to` : "one vector from which the decoder starts";
  return { id: "memory", title: "Memory →", detail, width: hasAttention ? width : null, links: [] };
}

/**
 * Return a level for each self-attention, for a record that does not describe the layers.
 * @param {InspectionRecord} record
 * @returns {LayerInfo[]}
 */
function guessLevels(record) {
  const selfAttentions = record.maps.filter(({ role }) => role === "encoder" || role === "decoder");
  return selfAttentions.map((map) => ({
    name: "attention", side: map.role, axis: map.role === "decoder" ? "read" : map.queries, before: null, after: null, carries: [],
    across: map.role === "decoder" && record.findMap("cross", map.layer) ? ["source"] : [], width: null,
  }));
}

/**
 * Build the boxes of one side.
 * @param {InspectionRecord} record
 * @param {string} side
 * @param {LayerInfo[]} levels
 * @param {Set<AttentionMap>} usedMaps maps that are in a box; the maps of this side are added
 * @returns {SideColumn}
 */
function buildColumn(record, side, levels, usedMaps) {
  const { axis } = levels[0];
  const tokens = record.axes.find(({ name }) => name === axis)?.tokens ?? [];
  const embeddingWidth = record.widths.find((width) => width.part === "embedding" && width.side === side)?.size ?? null;
  let [selfLayer, crossLayer] = [0, side === "encoder" ? Infinity : 0];
  const levelBoxes = levels.map((level, number) => {
    const hasSelfAttention = level.carries.length === 0 && (level.before !== 0 || level.after !== 0);
    const maps = [
      ...(hasSelfAttention ? [record.findMap(side, selfLayer++)] : []),
      ...level.across.map(() => record.findMap("cross", crossLayer++)),
    ].filter((map) => map !== undefined);
    maps.forEach((map) => usedMaps.add(map));
    return buildLevelBox(record, level, number, maps);
  });
  const highest = levelBoxes[levelBoxes.length - 1];
  for (const map of record.listMaps(side).filter((each) => !usedMaps.has(each))) {
    usedMaps.add(map);
    highest.links.push(buildMapLink(record, map));
  }
  const title = `${tokens.length} tokens`;
  return {
    side,
    boxes: [
      { id: `tokens/${side}`, title, detail: axis, width: null, links: [] },
      { id: `embedding/${side}`, title: "Embedding", detail: describeEmbedding(record, side), width: embeddingWidth, links: listEmbeddingLinks(record, side) },
      ...levelBoxes,
    ],
  };
}

/**
 * @param {InspectionRecord} record
 * @param {string} side
 */
function describeEmbedding(record, side) {
  const embedded = record.embedded.find((each) => each.side === side);
  return ["a vector for each word", ...(embedded?.places ? ["position"] : []), ...(embedded?.segments ? ["segment"] : [])].join(" + ");
}

/**
 * @param {InspectionRecord} record
 * @param {string} side
 * @returns {ViewLink[]}
 */
function listEmbeddingLinks(record, side) {
  const map = record.maps.findIndex(({ role, layer, walk }) => role === side && layer === 0 && walk);
  /** @type {ViewLink[]} */ const links = [];
  if (map >= 0) links.push({ text: "numbers", state: { view: "steps", map, query: 0 } });
  if (record.encodings.length > 0) links.push({ text: "positions", state: { view: "positions" } });
  return links;
}

/**
 * @param {InspectionRecord} record
 * @param {LayerInfo} level
 * @param {number} number
 * @param {AttentionMap[]} maps
 * @returns {LayerBox}
 */
function buildLevelBox(record, { name, side, carries, before, after, width }, number, maps) {
  const reach = [
    ...(before === 0 ? [] : [`${before ?? "all"} before`]),
    ...(after === 0 ? [] : [`${after ?? "all"} after`]),
  ].join(", ");
  const links = maps.map((map) => buildMapLink(record, map));
  if (links.length === 0 && record.unrolled) links.push({ text: "unrolled", state: { view: "unrolled" } });
  return {
    id: `level/${side}/${number}`,
    title: capitalizeText(name),
    detail: [
      `layer ${number}`,
      ...(carries.length > 0 ? [`passes a state ${carries.join(" and ")}`] : []),
      ...(reach ? [`sees ${reach}`] : []),
    ].join(", "),
    width: width ?? null,
    links,
  };
}

/**
 * @param {InspectionRecord} record
 * @param {AttentionMap} map
 * @returns {ViewLink}
 */
function buildMapLink(record, map) {
  const name = map.role === "cross" ? `attention to ${map.keys}` : map.role === "summary" ? "summary of the text" : "attention";
  const text = `${name}, ${map.heads.length} ${map.heads.length === 1 ? "head" : "heads"}`;
  return { text, state: { view: "alignment", map: record.maps.indexOf(map), head: "mean" } };
}

/**
 * Build boxes of the attentions above all layers, such as summaries.
 * @param {InspectionRecord} record
 * @param {Set<AttentionMap>} usedMaps maps that are in other boxes
 * @returns {LayerBox[]}
 */
function buildUpperBoxes(record, usedMaps) {
  return record.maps.filter((map) => !usedMaps.has(map)).map((map) => {
    const link = buildMapLink(record, map);
    return { id: `map/${record.maps.indexOf(map)}`, title: map.label, detail: "", width: null, links: [link] };
  });
}

/**
 * @param {InspectionRecord} record
 * @returns {LayerBox[]}
 */
function buildOutputBoxes(record) {
  /** @type {LayerBox[]} */ const boxes = [];
  const width = record.widths.find(({ part }) => part === "output")?.size ?? null;
  const [answer] = record.answers;
  if (record.written.length > 0) {
    const detail = width ? "a probability for each token of the vocabulary" : "the next token";
    boxes.push({ id: "output", title: "Output", detail, width, links: [{ text: "decoding", state: { view: "decoding" } }] });
  }
  if (answer) boxes.push({ id: "answers", title: "Answer", detail: answer.about, width: null, links: [{ text: "answers", state: { view: "answers" } }] });
  return boxes;
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const columns = buildColumns(record);
  const inner = columns.flatMap(({ boxes }) => boxes.filter(({ id }) => id !== "output"));
  const widest = Math.max(1, ...inner.map(({ width }) => width ?? 0));
  host.append(
    createElement("div", { class: "architecture" }, columns.map(({ side, boxes }) =>
      createElement("section", { class: "side" }, createElement("h2", {}, side || "model"),
        createElement("ol", {}, boxes.map((box) => createElement("li", {}, createBox(box, widest, store.set))))))),
    createTableToggle(() => createTable(["part", "side", "numbers per token", "description"],
      columns.flatMap(({ side, boxes }) => boxes.map(({ title, width, detail }) => [title, side, width ?? "", detail])))),
  );
  return () => {};
}

/**
 * @param {LayerBox} box
 * @param {number} widest width of the widest box
 * @param {(state: Partial<PageState>) => void} openView
 */
function createBox({ id, title, detail, width, links }, widest, openView) {
  const share = width === null ? 1 : Math.min(1, width / widest);
  const style = { "--share": `${MIN_BOX_WIDTH + (100 - MIN_BOX_WIDTH) * share}%` };
  const [first, ...others] = links;
  const createLink = (/** @type {ViewLink} */ { text, state }) =>
    createElement("button", { type: "button", class: "link", onclick: () => openView(state) }, text);
  const name = first
    ? createElement("button", { type: "button", class: "link part-name", onclick: () => openView(first.state) }, title)
    : createElement("b", {}, title);
  const hasLinks = others.length > 0 || /attention|summary/.test(first?.text ?? "");
  return createElement("div", { class: width === null ? "part-box is-plain" : "part-box", style, "data-box": id },
    createElement("p", {}, name, width !== null && createElement("span", { class: "part-width" }, width.toLocaleString("en"))),
    detail && createElement("p", { class: "soft small" }, detail),
    hasLinks && createElement("p", { class: "small part-links" }, links.map(createLink)));
}
