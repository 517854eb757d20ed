/** The whole model as boxes: its layers in order, how wide they are, and the way to the view of each. */

import { asTable, element, tableOf } from "heedful/dom.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/app.js").State} State */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {import("heedful/record.js").AttentionMap} AttentionMap */
/**
 * @typedef {object} Box
 * @property {string} id
 * @property {string} title
 * @property {string} detail
 * @property {number | null} width numbers for each token
 * @property {{text: string, to: Partial<State>}[]} opens views of it, the box's own first
 */
/** @typedef {{side: string, boxes: Box[]}} Column */

const LEAST = 46; // percent of the room that the narrowest box takes

export const view = {
  id: "architecture",
  title: "Layers",
  help:
    "The whole model from top to bottom: what comes in, the layers in their order, and what comes out. A box is as " +
    "wide as the vectors that leave it, whose number is written in it. Choose a box, or an attention in it, to open " +
    "the view that shows what it did with this text.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ ([]),
  available: (/** @type {Inspection} */ record) => columnsOf(record).some(({ boxes }) => boxes.length > 1),
  show,
};

/**
 * What the record knows of its model, a column for each side.
 * @param {Inspection} record
 * @returns {Column[]}
 */
export function columnsOf(record) {
  const known = record.levels.length > 0 ? record.levels : guessed(record);
  const sides = [...new Set(known.map(({ side }) => side))];
  const taken = /** @type {Set<AttentionMap>} */ (new Set());
  const columns = sides.map((side) => columnOf(record, side, known.filter((level) => level.side === side), taken));
  const reader = known.find(({ side, across, starts }) => side === "decoder" && (across.length > 0 || (starts ?? "nothing") !== "nothing"));
  if (reader && columns[0].side === "encoder") columns[0].boxes.push(memoryOf(columns[0], reader));
  const last = columns[columns.length - 1];
  if (last) last.boxes.push(...above(record, taken), ...outputs(record));
  return columns;
}

/**
 * What the decoder gets of the encoder.
 * @param {Column} encoder
 * @param {any} reader a level of the decoder
 * @returns {Box}
 */
function memoryOf({ boxes }, { across }) {
  const { width } = boxes[boxes.length - 1];
  const looks = across.length > 0;
  const detail = looks ? `${boxes[0].title.replace("tokens", "vectors")} that the decoder looks at` : "one vector with which the decoder begins";
  return { id: "memory", title: "Memory →", detail, width: looks ? width : null, opens: [] };
}

/** A layer for each attention, if the record does not say how the model is built. @param {Inspection} record */
function guessed(record) {
  const own = record.maps.filter(({ role }) => role === "encoder" || role === "decoder");
  return own.map((map) => ({
    name: "attention", side: map.role, axis: map.role === "decoder" ? "read" : map.queries, before: null, after: null, carries: [],
    across: map.role === "decoder" && record.findMap("cross", map.layer) ? ["source"] : [], width: null,
  }));
}

/**
 * @param {Inspection} record
 * @param {string} side
 * @param {any[]} levels
 * @param {Set<AttentionMap>} taken attentions that are in a box
 * @returns {Column}
 */
function columnOf(record, side, levels, taken) {
  const { axis } = levels[0];
  const tokens = record.axes.find(({ name }) => name === axis)?.tokens ?? [];
  const embedding = record.widths.find((width) => width.part === "embedding" && width.side === side)?.size ?? null;
  let [own, across] = [0, side === "encoder" ? Infinity : 0];
  const boxes = levels.map((level, number) => {
    const sees = level.carries.length === 0 && (level.before !== 0 || level.after !== 0);
    const looks = [
      ...(sees ? [record.findMap(/** @type {any} */ (side), own++)] : []),
      ...level.across.map(() => record.findMap("cross", across++)),
    ].filter((map) => map !== undefined);
    looks.forEach((map) => taken.add(/** @type {AttentionMap} */ (map)));
    return boxOf(record, level, number, /** @type {AttentionMap[]} */ (looks));
  });
  const rest = record.layers(/** @type {any} */ (side)).filter((map) => !taken.has(map));
  const top = boxes[boxes.length - 1];
  rest.forEach((map) => (taken.add(map), top.opens.push(lookAt(record, map))));
  return {
    side,
    boxes: [
      { id: `tokens/${side}`, title: `${tokens.length} tokens`, detail: axis, width: null, opens: [] },
      { id: `embedding/${side}`, title: "Embedding", detail: embeddedAs(record, side), width: embedding, opens: embeddingViews(record, side) },
      ...boxes,
    ],
  };
}

/**
 * @param {Inspection} record
 * @param {string} side
 */
function embeddedAs(record, side) {
  const found = record.embedded.find((each) => each.side === side);
  const added = [found?.places && "position", found?.segments && "segment"].filter(Boolean);
  return ["a vector for each word", ...added].join(" + ");
}

/**
 * @param {Inspection} record
 * @param {string} side
 */
function embeddingViews(record, side) {
  const map = record.maps.findIndex(({ role, layer, walk }) => role === side && layer === 0 && walk);
  return [
    ...(map >= 0 ? [{ text: "numbers", to: /** @type {Partial<State>} */ ({ view: "steps", map, query: 0 }) }] : []),
    ...(record.encodings.length > 0 ? [{ text: "positions", to: { view: "positions" } }] : []),
  ];
}

/**
 * @param {Inspection} record
 * @param {any} level
 * @param {number} number
 * @param {AttentionMap[]} looks
 * @returns {Box}
 */
function boxOf(record, { name, side, carries, before, after, width }, number, looks) {
  const reach = (/** @type {number | null} */ count, /** @type {string} */ where) => (count === 0 ? "" : `${count ?? "all"} ${where}`);
  const sees = [reach(before, "before"), reach(after, "after")].filter(Boolean).join(", ");
  const state = carries.length > 0 && `carries a state ${carries.join(" and ")}`;
  const opens = looks.map((map) => lookAt(record, map));
  if (opens.length === 0 && record.unrolled) opens.push({ text: "unrolled", to: { view: "unrolled" } });
  return {
    id: `level/${side}/${number}`,
    title: `${name[0].toUpperCase()}${name.slice(1)}`,
    detail: [`layer ${number}`, state, sees && `sees ${sees}`].filter(Boolean).join(", "),
    width: width ?? null,
    opens,
  };
}

/**
 * @param {Inspection} record
 * @param {AttentionMap} map
 */
function lookAt(record, map) {
  const names = { cross: `attention to ${map.keys}`, summary: "summary of the text" };
  const heads = `${map.heads.length} ${map.heads.length === 1 ? "head" : "heads"}`;
  const text = `${/** @type {any} */ (names)[map.role] ?? "attention"}, ${heads}`;
  return { text, to: /** @type {Partial<State>} */ ({ view: "alignment", map: record.maps.indexOf(map), head: "mean" }) };
}

/** Attentions above all layers: those that make one vector of a text, and others that are in no layer. */
function above(/** @type {Inspection} */ record, /** @type {Set<AttentionMap>} */ taken) {
  return record.maps.filter((map) => !taken.has(map)).map((map) => {
    const look = lookAt(record, map);
    return { id: `map/${record.maps.indexOf(map)}`, title: map.label, detail: "", width: null, opens: [look] };
  });
}

/** @param {Inspection} record */
function outputs(record) {
  const choices = record.widths.find(({ part }) => part === "output")?.size ?? null;
  const said = record.answers[0];
  return [
    ...(record.written.length > 0 ? [{
      id: "output", title: "Output", detail: choices ? "a probability for each token of the vocabulary" : "the token that follows", width: choices,
      opens: [{ text: "decoding", to: { view: "decoding" } }],
    }] : []),
    ...(said ? [{ id: "answers", title: "Answer", detail: said.about, width: null, opens: [{ text: "answers", to: { view: "answers" } }] }] : []),
  ];
}

/**
 * @param {HTMLElement} host
 * @param {Inspection} record
 * @param {App} app
 */
function show(host, record, app) {
  const columns = columnsOf(record);
  const widest = Math.max(1, ...columns.flatMap(({ boxes }) => boxes.filter(({ id }) => id !== "output").map(({ width }) => width ?? 0)));
  const open = (/** @type {Partial<State>} */ to) => app.set(to);
  host.append(
    element("div", { class: "architecture" }, columns.map(({ side, boxes }) =>
      element("section", { class: "side" }, element("h2", {}, side || "model"),
        element("ol", {}, boxes.map((box) => element("li", {}, drawn(box, widest, open))))))),
    asTable(() => tableOf(["part", "side", "numbers for each token", "what it is"],
      columns.flatMap(({ side, boxes }) => boxes.map(({ title, width, detail }) => [title, side, width ?? "", detail])))),
  );
  return () => {};
}

/**
 * @param {Box} box
 * @param {number} widest
 * @param {(to: Partial<State>) => void} open
 */
function drawn({ id, title, detail, width, opens }, widest, open) {
  const share = width === null ? 1 : Math.min(1, width / widest);
  const style = { "--share": `${LEAST + (100 - LEAST) * share}%` };
  const [first, ...others] = opens;
  const link = (/** @type {Box["opens"][0]} */ { text, to }) =>
    element("button", { type: "button", class: "link", onclick: () => open(to) }, text);
  const name = first ? element("button", { type: "button", class: "link part-name", onclick: () => open(first.to) }, title) : element("b", {}, title);
  return element("div", { class: width === null ? "part-box is-plain" : "part-box", style, "data-box": id },
    element("p", {}, name, width !== null && element("span", { class: "part-width" }, width.toLocaleString("en"))),
    detail && element("p", { class: "soft small" }, detail),
    (others.length > 0 || /attention|summary/.test(first?.text ?? "")) && element("p", { class: "small part-links" }, opens.map(link)));
}
