/** Where in a picture each word looked: a small picture for each, a large one to read. */

import { pixels } from "heedful/colour.js";
import { asTable, element, resized, svg, tableOf, tick } from "heedful/dom.js";
import { listen } from "heedful/grid.js";
import { largestOf, rowAt, stepping } from "heedful/looking.js";

const SPREAD = 0.75; // of the Gaussian, in cells
const SMALL = 132;
const LARGE = 520;
const STRONGEST = 5;

/** Kept while the page is open, also when another view is shown in between. */
const choices = { smooth: true, picture: true };

const fits = (map) => map.keyAxis.kind === "grid" && map.keyAxis.tokens.length > 1;

export const view = {
  id: "regions",
  title: "Regions",
  help:
    "A picture for each step, brightest where it looked most; a written word is followed by its probability. Every " +
    "picture has its own scale, so that its strongest region is brightest: the readout has the numbers. Smooth " +
    "pictures spread each weight around the centre of its region by a Gaussian, as in Show, attend and tell; without " +
    "it the regions show as the model has them.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head", "ramp"]),
  available: (record) => record.maps.some(fits),
  show,
};

/**
 * How much each of many places along a side takes from each cell: a Gaussian of the distance to the cell's centre.
 * @returns {number[][]} [places, cells]; rows sum to 1
 */
export function spread(places, cells) {
  return Array.from({ length: places }, (_, place) => {
    const here = ((place + 0.5) * cells) / places;
    const shares = Array.from({ length: cells }, (_, cell) => Math.exp(-0.5 * ((here - cell - 0.5) / SPREAD) ** 2));
    const sum = shares.reduce((all, each) => all + each, 0);
    return shares.map((each) => each / sum);
  });
}

/**
 * Weights of cells as a smooth picture, as heedful/inspection/figures/pictures.py makes it.
 * @param {number[]} cells row by row
 * @returns {Float32Array} [height, width]
 */
export function smoothed(cells, { rows, columns, width, height }) {
  const [down, across] = [spread(height, rows), spread(width, columns)];
  const found = new Float32Array(width * height);
  for (let y = 0; y < height; y++) {
    const row = Array.from({ length: columns }, (_, j) => down[y].reduce((sum, share, i) => sum + share * cells[i * columns + j], 0));
    for (let x = 0; x < width; x++) found[y * width + x] = across[x].reduce((sum, share, j) => sum + share * row[j], 0);
  }
  return found;
}

/** Weights as a canvas of so many pixels, the largest in the ramp's last colour. */
function heat(numbers, width, height, name) {
  const canvas = element("canvas", { width, height });
  const colour = pixels(name);
  const most = largestOf(numbers) || 1;
  const words = Uint32Array.from(numbers, (each) => colour(each / most));
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(words.buffer), width, height), 0, 0);
  return canvas;
}

/** The picture, and half over it the weights; these alone where there is no picture. */
function paint(canvas, { image, cells, rows, columns, width, height, ramp }) {
  const context = resized(canvas, width, height);
  if (image) context.drawImage(image, 0, 0, width, height);
  const shown = choices.smooth ? smoothed(cells, { rows, columns, width, height }) : cells;
  context.imageSmoothingEnabled = choices.smooth;
  context.globalAlpha = image ? 0.55 : 1;
  context.drawImage(choices.smooth ? heat(shown, width, height, ramp) : heat(shown, columns, rows, ramp), 0, 0, width, height);
}

async function pictureOf({ pictures }) {
  if (!pictures) return null;
  const image = new Image();
  image.src = pictures[0];
  await image.decode();
  return image;
}

/** As large as fits into a square. */
function within(side, { columns, tokens, aspect }) {
  const wide = aspect ?? (columns * columns) / tokens.length;
  return { width: Math.max(1, Math.round(side * Math.min(1, wide))), height: Math.max(1, Math.round(side / Math.max(1, wide))) };
}

function show(host, record, app) {
  const stage = element("div", { class: "regions" });
  const readout = element("output", { class: "readout" });
  let last = /** @type {any} */ (null); // what was drawn last
  const scene = stepping(record, app, { fits, draw: async (now) => draw((last = now)) });
  const option = (name, text) => tick(text, choices[name], (on) => {
    choices[name] = on;
    scene.again();
  });
  host.append(
    element("div", { class: "controls" }, option("smooth", "smooth"), option("picture", "picture")),
    stage,
    asTable(() => tableOf(["step", ...Array.from({ length: STRONGEST }, (_, i) => (i ? `${i + 1}.` : "strongest, row,column"))], last.names.map((name, step) => strongest(last, name, step)))),
  );

  async function draw({ map, weights, step, names, go }) {
    const axis = map.keyAxis;
    const image = choices.picture ? await pictureOf(axis) : null;
    if (last.step !== step || last.map !== map) return;
    const [columns, rows] = [axis.columns, axis.tokens.length / axis.columns];
    const about = { image, rows, columns, ramp: image && app.get().ramp === "paper" ? "glow" : app.ramp() };
    const small = names.map((name, i) => {
      const canvas = element("canvas");
      paint(canvas, { ...about, cells: rowAt(weights, i), ...within(SMALL, axis) });
      return element("button", { type: "button", class: "region", "aria-pressed": String(i === step), onclick: () => go(i) }, canvas, element("span", {}, name));
    });
    const focused = stage.contains(document.activeElement) && document.activeElement?.matches(".region");
    stage.replaceChildren(
      element("section", {}, element("h2", {}, names[step]), large(about, axis, rowAt(weights, step), names[step], readout), readout),
      element("div", { class: "region-list", role: "group", "aria-label": "Steps" }, small),
    );
    readout.replaceChildren(element("span", { class: "hint" }, "Point at a region, or move with the arrow keys, to read its weight."));
    if (focused) small[step].focus();
  }
  return scene.stop;
}

function strongest({ map, weights }, name, step) {
  const best = rowAt(weights, step).map((weight, k) => [weight, k]).sort(([one], [two]) => two - one).slice(0, STRONGEST);
  return [name, ...best.map(([weight, k]) => `${map.keyAxis.tokens[k]} ${weight.toFixed(3)}`)];
}

/** The chosen step's picture, whose regions can be read. */
function large(about, axis, cells, name, readout) {
  const { rows, columns } = about;
  const { width, height } = within(LARGE, axis);
  const canvas = element("canvas");
  paint(canvas, { ...about, cells, width, height });
  const cell = { wide: width / columns, high: height / rows };
  const frame = svg("rect", { class: "grid-cursor", width: cell.wide, height: cell.high, visibility: "hidden" });
  const node = element("div", { class: "grid", tabindex: 0, role: "img", "aria-label": `Where ${name} looks. Arrow keys read the regions.` },
    canvas, svg("svg", { width, height, "aria-hidden": "true" }, frame));
  const point = (i, j) => {
    for (const [key, value] of Object.entries({ x: j * cell.wide, y: i * cell.high, visibility: "visible" })) frame.setAttribute(key, value);
    const text = `row ${i}, column ${j}: ${cells[i * columns + j].toFixed(4)}`;
    readout.textContent = text;
    node.setAttribute("aria-label", `Where ${name} looks. ${text}`);
  };
  listen(node, { canvas, cell, shape: [rows, columns], first: 0, point });
  return node;
}
