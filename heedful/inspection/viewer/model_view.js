/** Show all layers and heads at once, each as a small picture. */

import { findMax, getSubarray, maxPool } from "heedful/arrays.js";
import { getPixelRamp } from "heedful/colour.js";
import { createElement, createLabel, createTable, createTableToggle, getContext } from "heedful/dom.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap } from "heedful/record.js" */
/**
 * @typedef {object} Thumbnail
 * @property {AttentionMap} map
 * @property {number} head
 * @property {NumberArray} picture
 * @property {number} maxWeight
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLButtonElement} button
 */

const MAX_PIXELS = 200; // along a side of a thumbnail
const GAP = 6;

/** Option that stays when the view is closed and opened again. */
let useFullScale = false;

/** @type {PageView} */
export const modelView = {
  id: "model",
  title: "Model",
  help:
    "Layers are from top to bottom, heads are from left to right. In each picture, rows are queries and columns are keys. By " +
    "default, the scale of each picture ends at its own largest weight, so that weak patterns are visible. Heads with similar " +
    "patterns, such as diagonals, stripes and blocks, are easy to find. Choose a picture to open it.",
  controls: ["map", "ramp"],
  isAvailable: (record) => record.maps.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  const place = createElement("div");
  const scale = createElement("select", { onchange: () => {
    useFullScale = scale.value === "1";
    drawAll();
  } }, createElement("option", { value: "most" }, "each to its largest weight"), createElement("option", { value: "1" }, "0 to 1"));
  scale.value = useFullScale ? "1" : "most";
  /** @type {Thumbnail[]} */ let thumbnails = [];
  let turn = 0;

  const drawAll = () => thumbnails.forEach((thumbnail) => drawThumbnail(thumbnail, store.getRampName()));
  const refresh = async () => {
    const { role } = record.maps[store.get().map];
    const now = (turn += 1);
    const maps = record.listMaps(role);
    const weights = await Promise.all(maps.map((map) => map.loadWeights()));
    if (now !== turn) return;
    thumbnails = maps.flatMap((map, i) => map.heads.map((head, h) => createThumbnail(map, head, getSubarray(weights[i], h), () =>
      store.set({ view: "alignment", map: record.maps.indexOf(map), head }))));
    place.replaceChildren(createThumbnailGrid(maps, thumbnails, host.clientWidth));
    drawAll();
    host.dataset.shown = role;
  };
  const table = createTableToggle(() => buildTable(record.listMaps(record.maps[store.get().map].role), thumbnails));
  host.append(createElement("div", { class: "controls" }, createLabel("Scale", scale)), place, table);
  refresh();
  const unsubscribe = store.subscribe((state, before) => {
    if (record.maps[state.map].role !== record.maps[before.map].role) refresh();
    else drawAll();
  });
  return () => {
    unsubscribe();
    turn += 1;
  };
}

/**
 * @param {AttentionMap} map
 * @param {number} head
 * @param {NumberArray} weights
 * @param {() => void} onclick
 * @returns {Thumbnail}
 */
function createThumbnail(map, head, weights, onclick) {
  const picture = maxPool(weights, Math.ceil(Math.max(...weights.shape) / MAX_PIXELS));
  const maxWeight = findMax(picture.data) || 1;
  const [rows, columns] = picture.shape;
  const canvas = createElement("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const name = `${map.role} layer ${map.layer}, head ${head}`;
  const title = `${name}: largest weight ${maxWeight.toFixed(3)}`;
  const button = createElement("button", { type: "button", class: "thumbnail", "aria-label": name, title, onclick }, canvas);
  return { map, head, picture, maxWeight, canvas, button };
}

/**
 * @param {Thumbnail} thumbnail
 * @param {string} ramp
 */
function drawThumbnail({ picture: { shape: [rows, columns], data }, maxWeight, canvas }, ramp) {
  const getPixel = getPixelRamp(ramp);
  const words = new Uint32Array(rows * columns);
  const scale = useFullScale ? 1 : 1 / maxWeight;
  for (let i = 0; i < words.length; i += 1) words[i] = getPixel(data[i] * scale);
  getContext(canvas).putImageData(new ImageData(new Uint8ClampedArray(words.buffer), columns, rows), 0, 0);
}

/**
 * Return the numbers of the heads that any of the maps has.
 * @param {AttentionMap[]} maps
 */
function listHeads(maps) {
  return [...new Set(maps.flatMap((map) => map.heads))].sort((one, other) => one - other);
}

/**
 * @param {Thumbnail[]} thumbnails
 * @param {AttentionMap} map
 * @param {number} head
 */
function findThumbnail(thumbnails, map, head) {
  return thumbnails.find((each) => each.map === map && each.head === head);
}

/**
 * @param {AttentionMap[]} maps
 * @param {Thumbnail[]} thumbnails
 * @param {number} room width in CSS pixels
 */
function createThumbnailGrid(maps, thumbnails, room) {
  const heads = listHeads(maps);
  const [rows, columns] = thumbnails[0].picture.shape;
  const width = Math.max(36, Math.min(150, Math.floor((room - 40) / heads.length) - GAP));
  for (const { canvas } of thumbnails) canvas.style.imageRendering = canvas.width < width ? "pixelated" : "auto";
  const height = Math.round(width * Math.min(1.6, Math.max(0.5, rows / columns)));
  const names = heads.map((head) => createElement("div", { class: "name" }, head));
  const lines = maps.map((map) => [
    createElement("div", { class: "name" }, map.layer),
    ...heads.map((head) => findThumbnail(thumbnails, map, head)?.button ?? createElement("div")),
  ]);
  return createElement(
    "div",
    {
      class: "thumbnails",
      role: "group",
      "aria-label": "Heads of all layers. Arrow keys move.",
      style: { "grid-template-columns": `34px repeat(${heads.length}, ${width}px)`, "--height": `${height}px` },
      onkeydown: (/** @type {KeyboardEvent} */ event) => moveFocus(event, thumbnails, heads.length),
    },
    createElement("div", { class: "corner" }, "layer \\ head"),
    names,
    lines,
  );
}

/**
 * @param {KeyboardEvent} event
 * @param {Thumbnail[]} thumbnails
 * @param {number} columns
 */
function moveFocus(event, thumbnails, columns) {
  const now = thumbnails.findIndex(({ button }) => button === event.target);
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (step === undefined || now < 0) return;
  event.preventDefault();
  thumbnails[now + step]?.button.focus();
}

/**
 * @param {AttentionMap[]} maps
 * @param {Thumbnail[]} thumbnails
 */
function buildTable(maps, thumbnails) {
  const heads = listHeads(maps);
  const rows = maps.map((map) => [
    `layer ${map.layer}`,
    ...heads.map((head) => findThumbnail(thumbnails, map, head)?.maxWeight.toFixed(4) ?? ""),
  ]);
  return createTable(["", ...heads.map((head) => `head ${head}`)], rows, "The largest weight of each head. The summary has more numbers.");
}
