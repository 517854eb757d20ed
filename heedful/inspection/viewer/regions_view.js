/** Show the regions of a picture that each step attends to: a small picture for each step, and a large one to read. */

import { findMax } from "heedful/arrays.js";
import { addGridListeners } from "heedful/cell_grid.js";
import { getPixelRamp } from "heedful/colour.js";
import { createCheckbox, createElement, createSvg, createTable, createTableToggle, getContext, resizeCanvas } from "heedful/dom.js";
import { getWeightRow } from "heedful/shaded_text.js";
import { followSteps } from "heedful/step_selection.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, MapAxis } from "heedful/record.js" */
/** @import { StepScene } from "heedful/step_selection.js" */
/** @typedef {{rows: number, columns: number, width: number, height: number}} PictureSize cells, and pixels */
/** @typedef {{rows: number, columns: number, image: HTMLImageElement | null, ramp: string}} PictureStyle */

const GAUSSIAN_WIDTH = 0.75; // standard deviation, in cells
const SMALL_SIDE = 132;
const LARGE_SIDE = 520;
const REGIONS_PER_ROW = 5;

/** Options that stay when the view is closed and opened again. */
const options = { smooth: true, picture: true };

const hasRegions = (/** @type {AttentionMap} */ map) => map.keyAxis.kind === "grid" && map.keyAxis.tokens.length > 1;

/** @type {PageView} */
export const regionsView = {
  id: "regions",
  title: "Regions",
  help:
    "There is a picture for each step. It is brightest where the attention weights are largest. A generated word is " +
    "followed by its probability. Each picture has its own scale: its largest weight is brightest, and the readout shows the " +
    "numbers. Smooth pictures spread each weight around the centre of its region by a Gaussian, as in Show, Attend and " +
    "Tell. Without smoothing, the regions are shown as in the model.",
  isAvailable: (record) => record.maps.some(hasRegions),
  show,
};

/**
 * Compute the shares of the cells along a side for each pixel: a Gaussian of the distance to the centre of the cell.
 * @param {number} pixels
 * @param {number} cells
 * @returns {number[][]} [pixels, cells]; rows sum to 1
 */
function computeGaussian(pixels, cells) {
  return Array.from({ length: pixels }, (_, pixel) => {
    const position = ((pixel + 0.5) * cells) / pixels;
    const shares = Array.from({ length: cells }, (__, cell) => Math.exp(-0.5 * ((position - cell - 0.5) / GAUSSIAN_WIDTH) ** 2));
    const sum = shares.reduce((total, each) => total + each, 0);
    return shares.map((each) => each / sum);
  });
}

/**
 * Smooth the weights of cells, as heedful/inspection/figures/pictures.py does.
 * @param {number[]} cells row by row
 * @param {PictureSize} size
 * @returns {Float32Array} [height, width]
 */
export function smoothWeights(cells, { rows, columns, width, height }) {
  const [vertical, horizontal] = [computeGaussian(height, rows), computeGaussian(width, columns)];
  const smoothed = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    const row = Array.from({ length: columns }, (_, j) => vertical[y].reduce((sum, share, i) => sum + share * cells[i * columns + j], 0));
    for (let x = 0; x < width; x++) smoothed[y * width + x] = horizontal[x].reduce((sum, share, j) => sum + share * row[j], 0);
  }
  return smoothed;
}

/**
 * Render weights as a canvas with one pixel each. The largest weight has the last colour of the ramp.
 * @param {number[] | Float32Array} weights
 * @param {number} width
 * @param {number} height
 * @param {string} ramp
 */
function renderWeights(weights, width, height, ramp) {
  const canvas = createElement("canvas", { width, height });
  const getPixel = getPixelRamp(ramp);
  const largest = findMax(weights) || 1;
  const words = Uint32Array.from(weights, (each) => getPixel(each / largest));
  getContext(canvas).putImageData(new ImageData(new Uint8ClampedArray(words.buffer), width, height), 0, 0);
  return canvas;
}

/**
 * Paint the picture with the weights above it, or only the weights if there is no picture.
 * @param {HTMLCanvasElement} canvas
 * @param {PictureStyle & PictureSize & {cells: number[]}} content
 */
function paintPicture(canvas, { image, cells, rows, columns, width, height, ramp }) {
  const context = resizeCanvas(canvas, width, height);
  if (image) context.drawImage(image, 0, 0, width, height);
  const weights = options.smooth
    ? renderWeights(smoothWeights(cells, { rows, columns, width, height }), width, height, ramp)
    : renderWeights(cells, columns, rows, ramp);
  context.imageSmoothingEnabled = options.smooth;
  context.globalAlpha = image ? 0.55 : 1;
  context.drawImage(weights, 0, 0, width, height);
}

/**
 * @param {MapAxis} axis
 * @returns {Promise<HTMLImageElement | null>} null if the axis has no picture
 */
async function loadPicture({ pictures }) {
  if (!pictures) return null;
  const image = new Image();
  image.src = pictures[0];
  await image.decode();
  return image;
}

/**
 * Return the number of rows and columns of a grid.
 * @param {MapAxis} axis
 */
function getGridShape({ columns, tokens }) {
  const count = columns ?? tokens.length;
  return { columns: count, rows: tokens.length / count };
}

/**
 * Return the largest size of the picture that fits into a square.
 * @param {number} side of the square
 * @param {MapAxis} axis
 */
function fitIntoSquare(side, axis) {
  const { rows, columns } = getGridShape(axis);
  const aspect = axis.aspect ?? columns / rows;
  return { width: Math.max(1, Math.round(side * Math.min(1, aspect))), height: Math.max(1, Math.round(side / Math.max(1, aspect))) };
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const stage = createElement("div", { class: "regions" });
  const readout = createElement("output", { class: "readout" });
  /** @type {StepScene | null} */ let scene = null;
  const steps = followSteps(record, store, { fits: hasRegions, draw });
  const createOption = (/** @type {keyof typeof options} */ name) => createCheckbox(name, options[name], (checked) => {
    options[name] = checked;
    steps.redraw();
  });
  host.append(
    createElement("div", { class: "controls" }, createOption("smooth"), createOption("picture")),
    stage,
    createTableToggle(() => buildTable(scene)),
  );

  async function draw(/** @type {StepScene} */ next) {
    scene = next;
    const { map, weights, step, names, selectStep } = next;
    const axis = map.keyAxis;
    const image = options.picture ? await loadPicture(axis) : null;
    if (scene.step !== step || scene.map !== map) return;
    const style = { image, ...getGridShape(axis), ramp: image && store.get().ramp === "paper" ? "glow" : store.getRampName() };
    const buttons = names.map((name, i) => {
      const canvas = createElement("canvas");
      paintPicture(canvas, { ...style, cells: getWeightRow(weights, i), ...fitIntoSquare(SMALL_SIDE, axis) });
      return createElement("button", { type: "button", class: "region", "aria-pressed": String(i === step), onclick: () => selectStep(i) },
        canvas, createElement("span", {}, name));
    });
    const hasFocus = stage.contains(document.activeElement) && document.activeElement?.matches(".region");
    const picture = createLargePicture({ ...style, side: Math.min(LARGE_SIDE, stage.clientWidth) }, axis, getWeightRow(weights, step), names[step], readout);
    stage.replaceChildren(
      createElement("section", {}, createElement("h2", {}, names[step]), createElement("div", { class: "grid-scroll" }, picture), readout),
      createElement("div", { class: "region-list", role: "group", "aria-label": "Steps" }, buttons),
    );
    readout.replaceChildren(createElement("span", { class: "hint" }, "Point at a region, or move with the arrow keys, to read its weight."));
    if (hasFocus) buttons[step].focus();
  }
  return steps.stop;
}

/**
 * Build a table of the regions with the largest weights of each step.
 * @param {StepScene | null} scene
 */
function buildTable(scene) {
  if (!scene) return createTable([], []);
  const { map, weights, names } = scene;
  const rows = names.map((name, step) => {
    const sorted = getWeightRow(weights, step).map((weight, k) => ({ weight, k })).sort((one, other) => other.weight - one.weight);
    return [name, ...sorted.slice(0, REGIONS_PER_ROW).map(({ weight, k }) => `${map.keyAxis.tokens[k]} ${weight.toFixed(3)}`)];
  });
  const columns = Array.from({ length: REGIONS_PER_ROW }, (_, i) => (i ? `${i + 1}.` : "largest weight (row,column)"));
  return createTable(["step", ...columns], rows);
}

/**
 * Create the picture of the selected step, whose regions users can read.
 * @param {PictureStyle & {side: number}} style with its longer side, in pixels
 * @param {MapAxis} axis
 * @param {number[]} cells
 * @param {string} name of the step
 * @param {HTMLElement} readout
 */
function createLargePicture(style, axis, cells, name, readout) {
  const { rows, columns, side } = style;
  const { width, height } = fitIntoSquare(side, axis);
  const canvas = createElement("canvas");
  paintPicture(canvas, { ...style, cells, width, height });
  const cell = { width: width / columns, height: height / rows };
  const frame = createSvg("rect", { class: "grid-cursor", ...cell, visibility: "hidden" });
  const node = createElement("div", { class: "grid", tabindex: 0, role: "img", "aria-label": `Weights of the regions for ${name}. Arrow keys read the regions.` },
    canvas, createSvg("svg", { width, height, "aria-hidden": "true" }, frame));
  const moveCursor = (/** @type {number} */ i, /** @type {number} */ j) => {
    frame.setAttribute("x", String(j * cell.width));
    frame.setAttribute("y", String(i * cell.height));
    frame.setAttribute("visibility", "visible");
    const text = `row ${i}, column ${j}: ${cells[i * columns + j].toFixed(4)}`;
    readout.textContent = text;
    node.setAttribute("aria-label", `Weights of the regions for ${name}. ${text}`);
  };
  addGridListeners(node, { area: canvas, cell, shape: [rows, columns], first: 0, moveCursor });
  return node;
}
