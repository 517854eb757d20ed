/** The class of a picture, and where a model looked for it, glimpse by glimpse. */

import { ask } from "./asking.js";
import { element, svg } from "./dom.js";
import { bars, looking, modelChoice, percent } from "./parts.js";
import { both } from "./reading.js";
import { KINDS, sending } from "./sending.js";

/** @typedef {{row: number, column: number, sizes: number[], options: {name: string, probability: number}[]}} Glimpse */

const FEW = 10;
/** Classes that are shown. */

export const view = {
  id: "look",
  title: "Look",
  about: "Drop a picture: the model predicts its class. Point at a glimpse to see where it was.",
  there: (/** @type {any} */ served) => served.models.some((/** @type {any} */ each) => each.does.includes("look")),
  show,
};

/**
 * @param {HTMLElement} host
 * @param {import("./parts.js").Served} served
 */
function show(host, served) {
  const { control, model } = modelChoice(served, "look");
  const drop = sending(KINDS.picture);
  both(host, "Look", [control, drop.node], [], async (signal) => {
    const asked = { model: model().name, image: drop.file() };
    const { answers: [found] } = await ask("look", asked, signal);
    const best = Object.entries(found.probabilities).map(([name, share]) => ({ name, share: Number(share) }))
      .sort((one, other) => other.share - one.share).slice(0, FEW); // JavaScript orders names that are numbers
    return [
      element("p", { class: "said-text", dir: "auto" }, found.class),
      found.glimpses.length ? path(found.glimpses, asked.image) : null,
      bars(best, "Probabilities of classes"),
      looking(() => asked),
    ];
  });
}

/**
 * A picture, the squares of the glimpses over it, and what was said after each.
 * @param {Glimpse[]} glimpses
 * @param {string} address of the picture
 * @returns {HTMLElement}
 */
function path(glimpses, address) {
  const line = glimpses.map(({ row, column }) => `${100 * column},${100 * row}`).join(" ");
  // pictures are drawn out to what the model sees, and so are its squares
  const squares = glimpses.map(({ row, column, sizes }) => svg("g", {}, sizes.map((size) => svg("rect", {
    x: 100 * (column - size / 2), y: 100 * (row - size / 2), width: 100 * size, height: 100 * size,
  }))));
  const choose = (/** @type {number} */ chosen) => squares.forEach((each, i) => each.classList.toggle("chosen", i === chosen));
  choose(0);
  const steps = glimpses.map(({ options: [best] }, i) => {
    const see = () => choose(i);
    return element("li", {}, element("button", { type: "button", class: "word", dir: "auto", onpointerenter: see, onfocus: see, onclick: see },
      best ? `${best.name} (${percent(best.probability)})` : "nothing yet"));
  });
  return element("div", { class: "glimpses" },
    element("div", { class: "stage" },
      element("img", { alt: "the picture that you chose", src: address }),
      svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("polyline", { points: line }), squares)),
    element("ol", { class: "steps", "aria-label": "The answer after each glimpse" }, steps));
}
