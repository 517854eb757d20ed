/** Show the frames of a clip or of a recording that each step attends to, as bars below the frames. */

import { findMax } from "heedful/arrays.js";
import { addGridListeners } from "heedful/cell_grid.js";
import { createElement, createSvg, createTable, createTableToggle } from "heedful/dom.js";
import { getWeightRow } from "heedful/shaded_text.js";
import { followSteps } from "heedful/step_selection.js";
import { fitText } from "heedful/text_width.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, MapAxis } from "heedful/record.js" */
/** @import { StepScene } from "heedful/step_selection.js" */

const LEFT = 116;
const MAX_WIDTH = 980;
const ROW_HEIGHT = 34;
const BAR_HEIGHT = 27;
const MIN_PICTURE_WIDTH = 56;
const SPECTROGRAM_HEIGHT = 84;
const MIN_NUMBER_DISTANCE = 26; // pixels between the numbers of frames

const hasFrames = (/** @type {AttentionMap} */ map) => map.keyAxis.kind === "frames";

/** @type {PageView} */
export const framesView = {
  id: "frames",
  title: "Frames",
  help:
    "Time runs from left to right. Each row is a step; a generated token is followed by its probability. The height of a bar " +
    "is the weight of its frame, and the highest bar is the largest weight. Frames that are known to matter are marked in all " +
    "rows. If there are many frames, only some pictures are shown, but every frame has its bar.",
  controls: ["map", "head"],
  isAvailable: (record) => record.maps.some(hasFrames),
  show,
};

/**
 * Return the path of all bars of a row.
 * @param {number[]} row weights
 * @param {{maxWeight: number, width: number, height: number}} size of a bar
 */
function drawBarPath(row, { maxWeight, width, height }) {
  const barWidth = Math.max(0.5, width - (width > 5 ? 1.5 : 0));
  return row.map((weight, k) =>
    `M${(k * width).toFixed(2)} 0h${barWidth.toFixed(2)}v${((-height * weight) / maxWeight).toFixed(2)}h${(-barWidth).toFixed(2)}z`).join("");
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const stage = createElement("div", { class: "grid-scroll" });
  const readout = createElement("output", { class: "readout" });
  const caption = createElement("p", { class: "soft small" });
  /** @type {StepScene | null} */ let scene = null;
  const steps = followSteps(record, store, { fits: hasFrames, draw });
  host.append(readout, stage, caption, createTableToggle(() => buildTable(scene)));

  function draw(/** @type {StepScene} */ next) {
    scene = next;
    const { map, weights, step, names, selectStep } = next;
    const axis = map.keyAxis;
    const count = axis.tokens.length;
    const rows = names.map((_, i) => getWeightRow(weights, i));
    const maxWeight = findMax(rows.flat()) || 1;
    const width = Math.min(120, MAX_WIDTH / count);
    const pictures = drawPictures(axis, width);
    const top = pictures.height + 22;
    const size = { width: LEFT + count * width + 8, height: top + names.length * ROW_HEIGHT + 6 };
    const area = createSvg("rect", { class: "area", x: LEFT, y: top, width: count * width, height: names.length * ROW_HEIGHT });
    const cursor = createSvg("rect", { class: "grid-cursor", y: 0, width, height: size.height - 4, visibility: "hidden" });
    const drawRow = (/** @type {number[]} */ row, /** @type {number} */ i) => createSvg("g",
      { class: i === step ? "frame-row chosen" : "frame-row", transform: `translate(${LEFT} ${top + (i + 1) * ROW_HEIGHT - 4})` },
      createSvg("text", { x: -10, y: -6, "text-anchor": "end" }, fitText(names[i], LEFT - 14, "650 12px")),
      createSvg("line", { class: "rule", x1: 0, x2: count * width, y1: 0.5, y2: 0.5 }),
      createSvg("path", { class: "bars", d: drawBarPath(row, { maxWeight, width, height: BAR_HEIGHT }) }));
    const marks = axis.marked.map((k) =>
      createSvg("rect", { class: "marked", x: LEFT + k * width, y: 0, width, height: size.height }, createSvg("title", {}, "known to matter")));
    const picture = createSvg("svg", { class: "frames", ...size, "aria-hidden": "true" },
      marks, pictures.nodes, drawFrameNumbers(axis, width, pictures.height), area, rows.map(drawRow), cursor);
    const label = `Weights of the frames for each of ${names.length} steps. Arrow keys read the bars, Enter selects a step.`;
    const node = createElement("div", { class: "grid selectable", tabindex: 0, role: "img", "aria-label": label }, picture);
    const moveCursor = (/** @type {number} */ i, /** @type {number} */ j) => {
      cursor.setAttribute("x", String(LEFT + j * width));
      cursor.setAttribute("visibility", "visible");
      readout.textContent = `${names[i]} (${i}) attends to frame ${axis.tokens[j]}: ${rows[i][j].toFixed(4)}${axis.marked.includes(j) ? ", known to matter" : ""}`;
      node.setAttribute("aria-label", `${label} ${readout.textContent}`);
    };
    addGridListeners(node, { area, cell: { width, height: ROW_HEIGHT }, shape: [names.length, count], first: step, moveCursor, onSelect: selectStep });
    const hasFocus = stage.contains(document.activeElement);
    stage.replaceChildren(node);
    if (hasFocus) node.focus();
    readout.replaceChildren(createElement("span", { class: "hint" }, "Point at a bar, or move with the arrow keys, to read its weight."));
    caption.textContent = `${map.label}: the highest bar is ${maxWeight.toFixed(3)}`;
  }
  return steps.stop;
}

/** @param {StepScene | null} scene */
function buildTable(scene) {
  if (!scene) return createTable([], []);
  const { map, weights, names } = scene;
  return createTable(["step", ...map.keyAxis.tokens], names.map((name, i) => [name, ...getWeightRow(weights, i).map((weight) => weight.toFixed(4))]));
}

/**
 * Draw the pictures along the top: as many as fit, or the one that all frames share, such as a spectrogram.
 * @param {MapAxis} axis
 * @param {number} width of a frame
 * @returns {{height: number, nodes: SVGElement[]}}
 */
function drawPictures({ pictures, aspect = 1, tokens }, width) {
  if (!pictures) return { height: 0, nodes: [] };
  const drawPicture = (/** @type {string} */ href, /** @type {{x: number, width: number, height: number}} */ box) =>
    createSvg("image", { href, y: 0, ...box, preserveAspectRatio: "none" });
  if (pictures.length < tokens.length) {
    return { height: SPECTROGRAM_HEIGHT, nodes: [drawPicture(pictures[0], { x: LEFT, width: width * tokens.length, height: SPECTROGRAM_HEIGHT })] };
  }
  const stride = Math.ceil(MIN_PICTURE_WIDTH / width);
  const height = Math.min(90, (stride * width - 2) / aspect);
  const nodes = pictures.flatMap((href, k) =>
    (k % stride === 0 ? [drawPicture(href, { x: LEFT + k * width, width: Math.min(height * aspect, (tokens.length - k) * width), height })] : []));
  return { height, nodes };
}

/**
 * Draw the numbers of frames that fit.
 * @param {MapAxis} axis
 * @param {number} width of a frame
 * @param {number} height of the pictures
 */
function drawFrameNumbers({ tokens }, width, height) {
  const stride = Math.ceil(MIN_NUMBER_DISTANCE / width);
  return tokens.map((name, k) =>
    k % stride === 0 && createSvg("text", { class: "soft", x: LEFT + (k + 0.5) * width, y: height + 14, "text-anchor": "middle" }, name));
}
