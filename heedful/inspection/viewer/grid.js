/** A matrix as a picture with names on both sides, read by pointer or arrow keys. */

import { canvasFor, element, svg } from "heedful/dom.js";
import { css } from "heedful/colour.js";
import { display, shortened } from "heedful/record.js";

const LETTER = 7.8;
const LONGEST = 14;
const SMALLEST_TEXT = 12;
const STRIDES = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 200, 500, 1000];

/**
 * @param {object} picture
 * @param {string[]} picture.rows names from top to bottom
 * @param {string[]} picture.columns names from left to right
 * @param {(i: number, j: number) => [number, number, number]} picture.colour
 * @param {(i: number, j: number) => string} picture.say the content of a cell, in words
 * @param {(text: string) => void} picture.tell gets the words of the cell under the pointer or cursor
 * @param {string} picture.label of the whole
 * @param {number} picture.width most pixels that the cells may take
 * @param {number} [picture.height] likewise; without it cells are squares
 * @param {number} [picture.largest] most pixels of one cell
 * @param {number} [picture.chosen] a row that is marked
 * @param {(row: number) => void} [picture.choose] gets the row that is clicked, or chosen with the Enter key
 * @returns {HTMLElement}
 */
export function gridOf({ rows, columns, colour, say, tell, label, width, height, largest = 26, chosen, choose }) {
  const wide = Math.max(2, Math.min(largest, Math.floor(width / columns.length)));
  const high = height ? Math.max(2, Math.min(largest, Math.floor(height / rows.length))) : Math.min(wide, Math.max(2, Math.floor(900 / rows.length)));
  const cell = { wide: height ? wide : high, high };
  const left = spaceFor(rows) + 8;
  const turned = !columns.every(isNumber);
  const top = turned ? spaceFor(columns) * 0.8 + 14 : 20;
  const { canvas, context } = canvasFor(columns.length * cell.wide, rows.length * cell.high);
  const gap = Math.min(cell.wide, cell.high) > 7 ? 1 : 0;
  if (gap) paintCells(context, { rows: rows.length, columns: columns.length, cell, gap, colour });
  else paintDots(context, { rows: rows.length, columns: columns.length, cell, colour });
  const frame = svg("rect", { class: "grid-cursor", width: cell.wide, height: cell.high, visibility: "hidden" });
  const size = { width: left + columns.length * cell.wide + (turned ? spaceFor(columns) * 0.6 : 10), height: top + rows.length * cell.high + 2 };
  const names = svg("svg", { ...size, "aria-hidden": "true" }, rowNames(rows, { cell, left, top, chosen }), columnNames(columns, { cell, left, top, turned }), frame);
  canvas.style.left = `${left}px`;
  canvas.style.top = `${top}px`;
  const node = element("div", { class: "grid", tabindex: 0, role: "img", "aria-label": `${label}. Arrow keys read the cells.` }, canvas, names);
  const point = (i, j) => {
    frame.setAttribute("x", left + j * cell.wide - gap / 2);
    frame.setAttribute("y", top + i * cell.high - gap / 2);
    frame.setAttribute("visibility", "visible");
    tell(say(i, j));
    node.setAttribute("aria-label", `${label}. ${say(i, j)}`);
  };
  listen(node, { canvas, cell, shape: [rows.length, columns.length], first: chosen ?? 0, point, choose });
  if (choose) node.classList.add("can-choose");
  return node;
}

function paintCells(context, { rows, columns, cell, gap, colour }) {
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      context.fillStyle = css(colour(i, j));
      context.fillRect(j * cell.wide, i * cell.high, cell.wide - gap, cell.high - gap);
    }
  }
}

/** Many small cells: one dot for each, enlarged at once. */
function paintDots(context, { rows, columns, cell, colour }) {
  const dots = element("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) image.data.set([...colour(i, j), 255], 4 * (i * columns + j));
  }
  dots.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(dots, 0, 0, columns * cell.wide, rows * cell.high);
}

/**
 * Pointer and keys of a grid; `canvas` is where its cells are.
 * @param {HTMLElement} node
 * @param {{canvas: HTMLElement, cell: {wide: number, high: number}, shape: [number, number], first: number, point: (i: number, j: number) => void, choose?: (i: number) => void}} grid
 */
export function listen(node, { canvas, cell, shape: [rows, columns], first, point, choose }) {
  const now = { i: first, j: 0 };
  const go = (i, j) => {
    Object.assign(now, { i, j });
    point(i, j);
  };
  const under = (event) => {
    const box = canvas.getBoundingClientRect();
    const [i, j] = [Math.floor((event.clientY - box.top) / cell.high), Math.floor((event.clientX - box.left) / cell.wide)];
    return i >= 0 && i < rows && j < columns ? [i, j] : null;
  };
  node.addEventListener("mousemove", (event) => {
    const place = under(event);
    if (place && place[1] >= 0) go(...place);
  });
  node.addEventListener("click", (event) => {
    const place = under(event);
    if (place && choose) choose(place[0]);
  });
  node.addEventListener("keydown", (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
    if (down || right) go(within(now.i + down, rows), within(now.j + right, columns));
    else if (event.key === "Enter" && choose) choose(now.i);
    else return;
    event.preventDefault();
  });
}

function within(place, count) {
  return Math.max(0, Math.min(count - 1, place));
}

function isNumber(name) {
  return /^-?\d+$/.test(name);
}

function spaceFor(names) {
  return LETTER * Math.min(LONGEST, Math.max(1, ...names.map((name) => [...display(name)].length)));
}

/** Of how many names one has room, where each takes so many pixels. */
function stride(cell, room) {
  return STRIDES.find((each) => each * cell >= room) ?? STRIDES[STRIDES.length - 1];
}

function rowNames(rows, { cell, left, top, chosen }) {
  const step = stride(cell.high, SMALLEST_TEXT);
  const near = (i) => chosen !== undefined && i !== chosen && Math.abs(i - chosen) * cell.high < SMALLEST_TEXT;
  return rows.map((name, i) =>
    (i === chosen || (i % step === 0 && !near(i))) &&
    svg("text", { x: left - 6, y: top + (i + 0.5) * cell.high, "text-anchor": "end", "dominant-baseline": "central", class: i === chosen ? "chosen" : "" }, shortened(display(name), LONGEST)),
  );
}

function columnNames(columns, { cell, left, top, turned }) {
  const longest = Math.max(...columns.map((name) => name.length));
  const step = stride(cell.wide, turned ? SMALLEST_TEXT : LETTER * longest + 6);
  return columns.map((name, j) => {
    const [x, y] = [left + (j + 0.5) * cell.wide, top - 6];
    const turn = turned ? { transform: `rotate(-55 ${x} ${y})` } : {};
    return j % step === 0 && svg("text", { x, y, "text-anchor": turned ? "start" : "middle", ...turn }, shortened(display(name), LONGEST));
  });
}
