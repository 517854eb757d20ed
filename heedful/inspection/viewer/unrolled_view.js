/** Show the model unrolled over its tokens: the inputs of each value, and the step in which it can be computed. */

import { createElement, createLabel, createSvg, createTable, createTableToggle } from "heedful/dom.js";
import { formatToken } from "heedful/formatting.js";
import { fitText } from "heedful/text_width.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { DiagramNode, UnrolledModel } from "heedful/record.js" */

const STEP_DURATION = 500; // milliseconds
const FONT = "13px";
const MAX_NAME_WIDTH = 58; // pixels; the columns have 62

/** @type {PageView} */
export const unrolledView = {
  id: "unrolled",
  title: "Unrolled",
  help:
    "A box is the output of a level for a token. Lines lead to it from its inputs. Its number is the earliest step in which " +
    "it can be computed if the tokens are given. A recurrent level waits for its neighbour; attention and convolutions wait " +
    "only for the level below. “Play” shows the order of computation. Choose a box to see everything that it depends on.",
  controls: [],
  isAvailable: (record) => record.unrolled !== null,
  show: (host, { unrolled }) => (unrolled ? showDiagram(host, unrolled) : () => {}),
};

/**
 * Return all nodes that a node depends on, and the node itself.
 * @param {UnrolledModel["links"]} links
 * @param {number} node
 * @returns {Set<number>}
 */
function findDependencies(links, node) {
  const found = new Set([node]);
  for (const each of found) for (const [start, end] of links) if (end === each) found.add(start);
  return found;
}

/**
 * @param {HTMLElement} host
 * @param {UnrolledModel} diagram
 * @returns {() => void} stops the animation
 */
function showDiagram(host, diagram) {
  const { nodes, links, steps } = diagram;
  const state = { step: steps, selected: /** @type {number | null} */ (null), timer: 0 };
  const readout = createElement("output", { class: "readout" });
  const boxes = nodes.map((node, i) => drawNode(node, {
    number: i, box: diagram.box, steps, hasDot: diagram.looking.includes(i), onSelect: () => selectNode(state.selected === i ? null : i),
  }));
  const slider = createElement("input", { type: "range", min: 0, max: steps, value: steps, oninput: () => { showStep(Number(slider.value)); } });
  const play = createElement("button", { type: "button", onclick: () => { (state.timer ? pausePlaying : startPlaying)(); } }, "Play");
  const attributes = { class: "unrolled is-whole", viewBox: `0 0 ${diagram.width} ${diagram.height}`, width: diagram.width, "aria-hidden": "true" };
  const picture = createSvg("svg", attributes,
    diagram.courses.map(([kind, d]) => createSvg("path", { class: `course ${kind}`, d })), boxes,
    diagram.names.map(([x, y, anchor, name]) => createSvg("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central" },
      fitText(name, anchor === "end" ? x : diagram.width - x, FONT))));
  const board = createElement("div", { class: "grid-scroll", tabindex: 0, role: "img", onkeydown: moveCursor }, picture);
  const legend = Object.entries(diagram.kinds).map(([kind, text]) => createElement("span", { class: "labelled" },
    createSvg("svg", { class: "unrolled", width: 26, height: 8, "aria-hidden": "true" }, createSvg("path", { class: `course key ${kind}`, d: "M0 4h26" })),
    createElement("span", {}, text)));
  host.append(
    createElement("div", { class: "controls keep" }, play, createLabel("Step", slider)),
    readout,
    board,
    createElement("div", { class: "keys small" }, legend),
    createElement("p", { class: "soft small" }, diagram.note),
    createTableToggle(() => createTable(["box", "step", "depends on the tokens"], buildTableRows())),
  );
  draw();

  function buildTableRows() {
    return nodes.flatMap(([, , row, step, , about], i) => (row ? [[about, step, listTokens(i).join(" ")]] : []));
  }
  function listTokens(/** @type {number} */ node) {
    const inputs = [...findDependencies(links, node)].filter((each) => nodes[each][2] === 0);
    return inputs.sort((one, other) => one - other).map((each) => formatToken(nodes[each][4]));
  }
  function describeState() {
    if (state.selected === null) {
      const count = nodes.filter(([, , row, step]) => row && step === state.step).length;
      return `Step ${state.step} of ${steps}: ${count} at once`;
    }
    const [, , , step, , about] = nodes[state.selected];
    return `${about}: step ${step}; depends on ${listTokens(state.selected).join(" ")}`;
  }
  function draw() {
    const needed = state.selected === null ? null : findDependencies(links, state.selected);
    boxes.forEach((box, i) => {
      box.classList.toggle("is-faded", nodes[i][3] > state.step || (needed !== null && !needed.has(i)));
      box.classList.toggle("is-chosen", i === state.selected);
    });
    slider.value = String(state.step);
    slider.setAttribute("aria-valuetext", `step ${state.step} of ${steps}`);
    readout.textContent = describeState();
    board.setAttribute("aria-label", `The model unrolled. ${readout.textContent}. Arrow keys select a box.`);
  }
  function selectNode(/** @type {number | null} */ node) {
    state.selected = node;
    if (node !== null) state.step = steps;
    pausePlaying();
    draw();
  }
  function showStep(/** @type {number} */ step) {
    Object.assign(state, { step, selected: null });
    draw();
  }
  function pausePlaying() {
    clearInterval(state.timer);
    state.timer = 0;
    play.textContent = "Play";
  }
  function startPlaying() {
    play.textContent = "Pause";
    showStep(state.step === steps ? 0 : state.step);
    state.timer = setInterval(() => (state.step === steps ? pausePlaying() : showStep(state.step + 1)), STEP_DURATION);
  }
  /**
   * Select the nearest box in the direction of an arrow key.
   * @param {KeyboardEvent} event
   */
  function moveCursor(event) {
    const direction = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!direction) return;
    event.preventDefault();
    if (state.selected === null) {
      selectNode(nodes.findIndex(([, , row]) => row > 0));
      return;
    }
    const [[dx, dy], [x, y]] = [direction, nodes[state.selected]];
    const candidates = nodes.map((node, i) => {
      const [right, down] = [node[0] - x, node[1] - y];
      return { i, row: node[2], ahead: right * dx + down * dy, aside: Math.abs(right * dy) + Math.abs(down * dx) };
    }).filter(({ ahead, row }) => ahead > 1 && row > 0);
    candidates.sort((one, other) => one.ahead + 3 * one.aside - other.ahead - 3 * other.aside);
    if (candidates.length) selectNode(candidates[0].i);
  }
  return pausePlaying;
}

/**
 * Draw a node: a box with its step, or only its name if it is a token.
 * @param {DiagramNode} node
 * @param {{number: number, box: [width: number, height: number], steps: number, hasDot: boolean, onSelect: () => void}} options
 */
function drawNode([x, y, row, step, name, about], { number, box: [width, height], steps, hasDot, onSelect }) {
  const centre = { "text-anchor": "middle", "dominant-baseline": "central", x, y };
  if (!row) return createSvg("g", {}, createSvg("text", centre, fitText(formatToken(name), MAX_NAME_WIDTH, FONT)));
  const place = { x: x - width / 2, y: y - height / 2, width, height, rx: 6 };
  return createSvg("g", { class: "box", onclick: onSelect, "data-step": step, "data-node": number },
    createSvg("title", {}, about),
    createSvg("rect", { class: "paper", ...place }),
    createSvg("rect", { class: "level", ...place, "fill-opacity": 0.06 + (0.44 * step) / steps }),
    createSvg("text", centre, step),
    hasDot && createSvg("circle", { cx: x - 9, cy: y - 6, r: 3 }));
}
