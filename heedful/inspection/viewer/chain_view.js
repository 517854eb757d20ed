/** Show a chain of facts: their probabilities at each step, and those of neighbours (Kim et al. 2017, figure 4). */

import { getNumber, getSubarray } from "heedful/arrays.js";
import { createElement, createSvg, createTable, createTableToggle } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { loadHeadWeights } from "heedful/record.js";
import { formatStepNames } from "heedful/step_selection.js";
import { fitText, measureText } from "heedful/text_width.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { PageView } from "heedful/main.js" */
/** @import { AttentionMap, MapAxis } from "heedful/record.js" */

const ROW_HEIGHT = 40;
const STEP_DISTANCE = 170;
const RADIUS = 13;
const MAX_NAME_WIDTH = 320;
const FONT = "13px";
const MIN_PROBABILITY = 0.01; // of a pair that has a line

const hasEdges = (/** @type {AttentionMap} */ map) => Boolean(map.edges);

/** @type {PageView} */
export const chainView = {
  id: "chain",
  title: "Chain",
  help:
    "Each column is a step of the chain, each row is a fact. The darker a circle, the more probable its fact is at that step. " +
    "The thicker a line, the more probable both of its ends are together. Facts with a dot are known to matter. Below the " +
    "picture are the most probable chains.",
  controls: ["map", "head"],
  isAvailable: (record) => record.maps.some(hasEdges),
  show,
};

/** @type {PageView["show"]} */
function show(host, record, store) {
  let turn = 0;
  const draw = async () => {
    const now = ++turn;
    const { map: index, head } = store.get();
    const map = [record.maps[index], ...record.maps].find((each) => each && hasEdges(each));
    if (!map) return;
    const place = map.heads.length === 1 ? 0 : map.heads.findIndex((each) => each === head);
    const [nodes, allEdges] = await Promise.all([loadHeadWeights(map, map.heads[place] ?? "mean"), map.loadEdges()]);
    if (now !== turn || !allEdges) return;
    const edges = place < 0 ? allEdges.mean : getSubarray(allEdges.heads, place);
    const steps = formatStepNames(record, map);
    const facts = map.keyAxis.tokens;
    const chains = map.chains?.[place < 0 ? map.heads.length : place] ?? [];
    host.replaceChildren(
      createElement("div", { class: "grid-scroll" }, drawChain({ nodes, edges, steps, axis: map.keyAxis })),
      createElement("h2", {}, "Most probable chains"),
      createElement("ol", {}, chains.map(([chain, probability]) =>
        createElement("li", {}, `${chain.map((k) => formatToken(facts[k])).join(" → ")} (${formatNumber(probability, 3)})`))),
      createTableToggle(() => createTable(["fact", ...steps],
        facts.map((fact, k) => [formatToken(fact), ...steps.map((_, q) => formatNumber(getNumber(nodes, q, k), 4))]))),
    );
  };
  draw();
  const unsubscribe = store.subscribe(draw);
  return () => {
    unsubscribe();
    turn = -Infinity;
  };
}

/**
 * Draw a circle for each fact at each step, and lines between the facts of neighbouring steps.
 * @param {object} chain
 * @param {NumberArray} chain.nodes [Q, K]
 * @param {NumberArray} chain.edges [Q-1, K, K]
 * @param {string[]} chain.steps
 * @param {MapAxis} chain.axis
 */
function drawChain({ nodes, edges, steps, axis: { tokens, marked } }) {
  const names = tokens.map((token, k) => (marked.includes(k) ? "● " : "") + fitText(formatToken(token), MAX_NAME_WIDTH, FONT));
  const left = Math.max(...names.map((name) => measureText(name, FONT))) + 40;
  const getX = (/** @type {number} */ q) => left + q * STEP_DISTANCE;
  const getY = (/** @type {number} */ k) => 46 + k * ROW_HEIGHT;
  const drawLine = (/** @type {number} */ q, /** @type {number} */ from, /** @type {number} */ to) => {
    const probability = getNumber(edges, q, from, to);
    return probability > MIN_PROBABILITY && createSvg("line", {
      class: "link", x1: getX(q) + RADIUS, y1: getY(from), x2: getX(q + 1) - RADIUS, y2: getY(to),
      "stroke-width": 0.5 + 7 * probability, "stroke-opacity": 0.25 + 0.75 * probability,
    }, createSvg("title", {}, formatNumber(probability, 3)));
  };
  const drawNode = (/** @type {number} */ q, /** @type {number} */ k) => {
    const weight = getNumber(nodes, q, k);
    const text = { class: weight > 0.55 ? "small on-dark" : "small", x: getX(q), y: getY(k), "text-anchor": "middle", "dominant-baseline": "central" };
    return createSvg("g", {},
      createSvg("circle", { class: "node", cx: getX(q), cy: getY(k), r: RADIUS, "fill-opacity": weight, "data-weight": weight }),
      createSvg("text", text, formatNumber(weight)));
  };
  const size = { width: left + (steps.length - 1) * STEP_DISTANCE + 40, height: 46 + tokens.length * ROW_HEIGHT };
  return createSvg("svg", { class: "chain", ...size, role: "img", "aria-label": `A chain of ${steps.length} steps over ${tokens.length} facts` },
    steps.map((name, q) => createSvg("text", { class: "soft", x: getX(q), y: 16, "text-anchor": "middle" }, name)),
    names.map((name, k) => createSvg("text", { x: left - 30, y: getY(k), "text-anchor": "end", "dominant-baseline": "central" }, name)),
    steps.slice(1).map((_, q) => tokens.map((__, from) => tokens.map((___, to) => drawLine(q, from, to)))),
    steps.map((_, q) => tokens.map((__, k) => drawNode(q, k))));
}
