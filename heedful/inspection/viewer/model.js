/** All layers and heads at once, each a small picture. */

import { pooled } from "heedful/arrays.js";
import { pixels } from "heedful/colour.js";
import { asTable, element, labelled, tableOf } from "heedful/dom.js";
import { part } from "heedful/record.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {import("heedful/record.js").AttentionMap} AttentionMap */
/** @typedef {import("heedful/record.js").Numbers} Numbers */
/** @typedef {{map: AttentionMap, head: number, picture: Numbers, most: number, canvas: HTMLCanvasElement, button: HTMLElement}} Thumbnail */

const FINEST = 200; // pixels of a thumbnail; of more weights, the largest ones show
const GAP = 6;

let whole = false;

export const view = {
  id: "model",
  title: "Model",
  help:
    "Layers from top to bottom, heads from left to right; each picture is a map with the tokens that look as rows. By " +
    "default each one is shaded up to its own largest weight, so that thin patterns show; heads of one kind (diagonals, " +
    "stripes, blocks) are seen at a glance. Choose one to see it large.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "ramp"]),
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
  const scale = element("select", { onchange: () => {
    whole = scale.value === "1";
    paint();
  } }, element("option", { value: "most" }, "each to its largest"), element("option", { value: "1" }, "0 to 1"));
  scale.value = whole ? "1" : "most";
  /** @type {Thumbnail[]} */ let thumbnails = [];
  let asked = 0;

  const paint = () => thumbnails.forEach((each) => draw(each, app.ramp()));
  const refresh = async () => {
    const { role } = record.maps[app.get().map];
    const turn = (asked += 1);
    const maps = record.layers(role);
    const weights = await Promise.all(maps.map((map) => map.weights()));
    if (turn !== asked) return;
    thumbnails = maps.flatMap((map, i) => map.heads.map((head, h) => thumbnail(map, head, part(weights[i], h), () =>
      app.set({ view: "alignment", map: record.maps.indexOf(map), head }))));
    place.replaceChildren(grid(maps, thumbnails, host.clientWidth));
    paint();
    host.dataset.shown = role;
  };
  const open = () => table(record.layers(record.maps[app.get().map].role), thumbnails);
  host.append(element("div", { class: "controls" }, labelled("Scale", scale)), place, asTable(open));
  refresh();
  const stop = app.subscribe((state, before) => {
    if (record.maps[state.map].role !== record.maps[before.map].role) refresh();
    else paint();
  });
  return () => {
    stop();
    asked += 1;
  };
}

/**
 * @param {AttentionMap} map
 * @param {number} head
 * @param {Numbers} weights
 * @param {() => void} open
 * @returns {Thumbnail}
 */
function thumbnail(map, head, weights, open) {
  const picture = pooled(weights, Math.ceil(Math.max(...weights.shape) / FINEST));
  const most = picture.data.reduce((largest, each) => (each > largest ? each : largest), 0) || 1;
  const [rows, columns] = picture.shape;
  const canvas = element("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const name = `layer ${map.layer}, head ${head}`;
  const title = `${map.role} ${name}; its largest weight is ${most.toFixed(3)}`;
  const button = element("button", { type: "button", class: "thumbnail", "aria-label": `${map.role} ${name}`, title, onclick: open }, canvas);
  return { map, head, picture, most, canvas, button };
}

/**
 * @param {Thumbnail} thumbnail
 * @param {string} ramp
 */
function draw({ picture: { shape: [rows, columns], data }, most, canvas }, ramp) {
  const colour = pixels(ramp);
  const words = new Uint32Array(rows * columns);
  const scale = whole ? 1 : 1 / most;
  for (let i = 0; i < words.length; i += 1) words[i] = colour(data[i] * scale);
  const image = new ImageData(new Uint8ClampedArray(words.buffer), columns, rows);
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

/**
 * @param {AttentionMap[]} maps
 * @param {Thumbnail[]} thumbnails
 * @param {number} room
 */
function grid(maps, thumbnails, room) {
  const heads = [...new Set(maps.flatMap((map) => map.heads))].sort((one, two) => one - two);
  const [rows, columns] = thumbnails[0].picture.shape;
  const width = Math.max(36, Math.min(150, Math.floor((room - 40) / heads.length) - GAP));
  for (const { canvas } of thumbnails) canvas.style.imageRendering = canvas.width < width ? "pixelated" : "auto";
  const height = Math.round(width * Math.min(1.6, Math.max(0.5, rows / columns)));
  const names = heads.map((head) => element("div", { class: "name" }, head));
  const lines = maps.map((map) => [
    element("div", { class: "name" }, map.layer),
    ...heads.map((head) => thumbnails.find((each) => each.map === map && each.head === head)?.button ?? element("div")),
  ]);
  return element(
    "div",
    {
      class: "thumbnails",
      role: "group",
      "aria-label": "Heads of all layers; arrow keys move",
      style: { "grid-template-columns": `34px repeat(${heads.length}, ${width}px)`, "--height": `${height}px` },
      onkeydown: (/** @type {KeyboardEvent} */ event) => move(event, thumbnails, heads),
    },
    element("div", { class: "corner" }, "layer \\ head"),
    names,
    lines,
  );
}

/**
 * @param {KeyboardEvent} event
 * @param {Thumbnail[]} thumbnails
 * @param {number[]} heads
 */
function move(event, thumbnails, heads) {
  const now = thumbnails.findIndex(({ button }) => button === event.target);
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads.length, ArrowDown: heads.length }[event.key];
  if (step === undefined || now < 0) return;
  event.preventDefault();
  thumbnails[now + step]?.button.focus();
}

/**
 * @param {AttentionMap[]} maps
 * @param {Thumbnail[]} thumbnails
 */
function table(maps, thumbnails) {
  const heads = [...new Set(maps.flatMap((map) => map.heads))].sort((one, two) => one - two);
  const rows = maps.map((map) => [
    `layer ${map.layer}`,
    ...heads.map((head) => thumbnails.find((each) => each.map === map && each.head === head)?.most.toFixed(4) ?? ""),
  ]);
  return tableOf(["", ...heads.map((head) => `head ${head}`)], rows, "The largest weight of each head. The summary has more numbers of each.");
}
