/** The model unrolled over its tokens: what is computed from what, and how much of it at the same time. */

import { asTable, element, labelled, svg, tableOf } from "heedful/dom.js";
import { display, shortened } from "heedful/record.js";

const PAUSE = 500;
const LONGEST = 8;

export const view = {
  id: "unrolled",
  title: "Unrolled",
  help:
    "A box is the output of a level for a token; lines lead to it from what it needs. Its number is the earliest " +
    "step in which it can be computed if the tokens are given: a recurrent level waits for its neighbour, attention " +
    "and convolutions wait only for the level below. Play shows the wave that runs through the model. Choose a box " +
    "to see everything that it depends on.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ ([]),
  available: (record) => record.unrolled !== null,
  show,
};

/** All nodes that one needs, itself included. */
export function cone(links, node) {
  const found = new Set([node]);
  for (const each of found) for (const [start, end] of links) if (end === each) found.add(start);
  return found;
}

function show(host, { unrolled }) {
  const { nodes, links, steps } = unrolled;
  const state = { step: steps, chosen: null, timer: 0 };
  const readout = element("output", { class: "readout" });
  const drawn = nodes.map((node, i) => boxOf(node, { place: i, box: unrolled.box, steps, looks: unrolled.looking.includes(i), choose: () => choose(state.chosen === i ? null : i) }));
  const slider = element("input", { type: "range", min: 0, max: steps, value: steps, oninput: () => go(Number(slider.value)) });
  const play = element("button", { type: "button", onclick: () => (state.timer ? pause() : start()) }, "Play");
  const picture = svg("svg", { class: "unrolled is-whole", viewBox: `0 0 ${unrolled.width} ${unrolled.height}`, width: unrolled.width, "aria-hidden": "true" },
    unrolled.courses.map(([kind, d]) => svg("path", { class: `course ${kind}`, d })), drawn,
    unrolled.names.map(([x, y, anchor, name]) => svg("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central" }, name)));
  const board = element("div", { class: "grid-scroll", tabindex: 0, role: "img", "aria-label": `The model unrolled, ${steps} steps. Arrow keys choose a box.`, onkeydown: move }, picture);
  const keys = Object.entries(unrolled.kinds).map(([kind, text]) => element("span", { class: "labelled" },
    svg("svg", { class: "unrolled", width: 26, height: 8, "aria-hidden": "true" }, svg("path", { class: `course key ${kind}`, d: "M0 4h26" })), element("span", {}, text)));
  host.append(element("div", { class: "controls keep" }, play, labelled("Step", slider)), readout, board, element("div", { class: "keys small" }, keys),
    element("p", { class: "soft small" }, unrolled.note),
    asTable(() => tableOf(["box", "step", "needs tokens"], nodes.flatMap((node, i) => (node[2] ? [[node[5], node[3], tokensOf(i).join(" ")]] : [])))));
  draw();

  function tokensOf(node) {
    return [...cone(links, node)].filter((each) => nodes[each][2] === 0).sort((one, two) => one - two).map((each) => display(nodes[each][4]));
  }
  function draw() {
    const needed = state.chosen === null ? null : cone(links, state.chosen);
    drawn.forEach((each, i) => {
      each.classList.toggle("is-apart", nodes[i][3] > state.step || (needed !== null && !needed.has(i)));
      each.classList.toggle("is-chosen", i === state.chosen);
    });
    slider.value = String(state.step);
    slider.setAttribute("aria-valuetext", `step ${state.step} of ${steps}`);
    const now = nodes.filter(([, , row, step]) => row && step === state.step).length;
    readout.textContent = state.chosen === null ? `Step ${state.step} of ${steps}: ${now} at once` :
      `${nodes[state.chosen][5]}: step ${nodes[state.chosen][3]}; needs ${tokensOf(state.chosen).join(" ")}`;
    board.setAttribute("aria-label", `The model unrolled. ${readout.textContent}. Arrow keys choose a box.`);
  }
  function choose(node) {
    state.chosen = node;
    if (node !== null) state.step = steps;
    pause();
    draw();
  }
  function go(step) {
    Object.assign(state, { step, chosen: null });
    draw();
  }
  function pause() {
    clearInterval(state.timer);
    state.timer = 0;
    play.textContent = "Play";
  }
  function start() {
    play.textContent = "Pause";
    go(state.step === steps ? 0 : state.step);
    state.timer = setInterval(() => (state.step === steps ? pause() : go(state.step + 1)), PAUSE);
  }
  /** To the nearest box in the direction of the key. */
  function move(event) {
    const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!way) return;
    event.preventDefault();
    if (state.chosen === null) return choose(nodes.findIndex(([, , row]) => row > 0));
    const [x, y] = nodes[state.chosen];
    const ahead = nodes.map((node, i) => ({ i, along: (node[0] - x) * way[0] + (node[1] - y) * way[1], beside: Math.abs((node[0] - x) * way[1]) + Math.abs((node[1] - y) * way[0]), row: node[2] }))
      .filter(({ along, row }) => along > 1 && row > 0).sort((one, two) => one.along + 3 * one.beside - two.along - 3 * two.beside);
    if (ahead.length) choose(ahead[0].i);
  }
  return pause;
}

function boxOf([x, y, row, step, name, about], { place: number, box: [width, height], steps, looks, choose }) {
  const centre = { "text-anchor": "middle", "dominant-baseline": "central", x, y };
  if (!row) return svg("g", {}, svg("text", centre, shortened(display(name), LONGEST)));
  const place = { x: x - width / 2, y: y - height / 2, width, height, rx: 6 };
  return svg("g", { class: "box", onclick: choose, "data-step": step, "data-node": number }, svg("title", {}, about), svg("rect", { class: "paper", ...place }),
    svg("rect", { class: "level", ...place, "fill-opacity": 0.06 + (0.44 * step) / steps }), svg("text", centre, step), looks && svg("circle", { cx: x - 9, cy: y - 6, r: 3 }));
}
