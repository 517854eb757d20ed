/** Classify pictures, and show where the model looked, glimpse by glimpse. */

import { addFormAndAnswer, createBars, createInspectButton, createModelSelect, formatPercent, hasCapability } from "./components.js";
import { createElement, createSvg } from "./dom.js";
import { createFileDrop, FILE_KINDS } from "./file_drop.js";
import { sendRequest } from "./requests.js";

/** @import { PageView } from "./components.js" */
/** @import { Glimpse } from "./requests.js" */

const MAX_CLASSES = 10;

/** @type {PageView} */
export const lookView = {
  id: "look",
  title: "Look",
  about: "Choose a picture. The model predicts its class. Point at a glimpse to see its place in the picture.",
  isAvailable: (server) => hasCapability(server, "look"),
  show,
};

/** @type {PageView["show"]} */
function show(host, server) {
  const { control, getModel } = createModelSelect(server, "look");
  const drop = createFileDrop(FILE_KINDS.picture);
  addFormAndAnswer(host, { label: "Look", fields: [control, drop.node], load: async (signal) => {
    const request = { model: getModel().name, image: drop.getFile() };
    const [answer] = await sendRequest("look", request, signal);
    const classes = Object.entries(answer.probabilities).map(([name, share]) => ({ name, share }))
      .sort((one, other) => other.share - one.share).slice(0, MAX_CLASSES); // JavaScript changes the order of names that are numbers
    return [
      createElement("p", { class: "answer-text", dir: "auto" }, answer.class),
      answer.glimpses.length > 0 && createGlimpsePath(answer.glimpses, request.image),
      createBars(classes, "Probabilities of classes"),
      createInspectButton(() => request),
    ];
  } });
}

/**
 * Create a picture with the squares of the glimpses, and a list of the answer after each glimpse.
 * @param {Glimpse[]} glimpses
 * @param {string} address of the picture
 * @returns {HTMLElement}
 */
function createGlimpsePath(glimpses, address) {
  const points = glimpses.map(({ row, column }) => `${100 * column},${100 * row}`).join(" ");
  // The model stretches the picture to a square, and so are the squares of the glimpses stretched here.
  const squares = glimpses.map(({ row, column, sizes }) => createSvg("g", {}, sizes.map((size) => createSvg("rect", {
    x: 100 * (column - size / 2), y: 100 * (row - size / 2), width: 100 * size, height: 100 * size,
  }))));
  const selectGlimpse = (/** @type {number} */ selected) => squares.forEach((square, i) => square.classList.toggle("chosen", i === selected));
  selectGlimpse(0);
  const steps = glimpses.map(({ options: [best] }, i) => {
    const select = () => selectGlimpse(i);
    return createElement("li", {}, createElement("button", { type: "button", class: "word", dir: "auto", onpointerenter: select, onfocus: select, onclick: select },
      best ? `${best.name} (${formatPercent(best.probability)})` : "no answer yet"));
  });
  return createElement("div", { class: "glimpses" },
    createElement("div", { class: "stage" },
      createElement("img", { alt: "the picture that you chose", src: address }),
      createSvg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, createSvg("polyline", { points }), squares)),
    createElement("ol", { class: "steps", "aria-label": "Answers after each glimpse" }, steps));
}
