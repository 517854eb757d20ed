/** Draw the tree of a beam search from left to right. */

import { createCheckbox, createElement, createSvg, createTable, createTableToggle } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { fitText } from "heedful/text_width.js";
import { computeDepths, layOutTree } from "heedful/tree_layout.js";

/** @import { BeamNode, InspectionRecord } from "heedful/record.js" */

const COLUMN = 104;
const ROW = 32;
const BOX = { width: 84, height: 23 };
const MARGIN = 8;
const HEAD = 24;

/**
 * @param {InspectionRecord} record
 * @param {(text: string) => void} onPoint receives the description of the branch under the pointer
 * @returns {{node: HTMLElement, markStep: (step: number) => void}} `markStep` marks the column of a step
 */
export function createBeamTree(record, onPoint) {
  const { tree } = record;
  const state = { showPruned: false, step: 0 };
  const place = createElement("div", { class: "tree-scroll", tabindex: 0, role: "region", "aria-label": "Tree of the beam" });
  const depths = computeDepths(tree);
  const draw = () => place.replaceChildren(drawTree(tree, { ...state, onPoint }));
  const countFate = (/** @type {BeamNode["fate"]} */ fate) => tree.filter((branch) => branch.fate === fate).length;
  const pruned = countFate("pruned");
  const summary = `The tree has ${tree.length - 1} branches: ${countFate("ended")} ended, ${pruned} were pruned. The returned text is bold, in the first row.`;
  const onChange = (/** @type {boolean} */ checked) => {
    state.showPruned = checked;
    draw();
  };
  draw();
  const node = createElement(
    "section",
    { class: "beam" },
    createElement("h2", {}, "Tree of the beam"),
    createElement("p", { class: "soft small" }, summary),
    pruned > 0 && createElement("div", { class: "controls" }, createCheckbox(`pruned branches (${pruned})`, false, onChange)),
    place,
    createTableToggle(() => createTable(["number", "parent", "step", "token", "log-probability", "score", "fate", "returned"], tree.map((branch, i) => [
      i, branch.parent < 0 ? "" : branch.parent, depths[i], formatToken(branch.token), formatNumber(branch.log_probability, 4),
      branch.score === null ? "" : formatNumber(branch.score, 4), branch.fate, branch.best ? "yes" : "",
    ]))),
  );
  const markStep = (/** @type {number} */ step) => {
    state.step = step;
    const start = getColumnLeft(step);
    place.querySelector(".tree-step")?.setAttribute("x", String(start - 6));
    if (start < place.scrollLeft || start + COLUMN > place.scrollLeft + place.clientWidth) place.scrollLeft = Math.max(0, start - 200);
  };
  return { node, markStep };
}

/** @param {number} depth */
function getColumnLeft(depth) {
  return MARGIN + depth * COLUMN;
}

/** @param {number} row */
function getRowTop(row) {
  return HEAD + MARGIN + row * ROW;
}

/**
 * @param {BeamNode[]} tree
 * @param {{showPruned: boolean, step: number, onPoint: (text: string) => void}} options
 */
function drawTree(tree, { showPruned, step, onPoint }) {
  const positions = layOutTree(tree, { showPruned });
  const positionsByNode = new Map(positions.map((position) => [position.node, position]));
  const maxDepth = Math.max(...positions.map(({ depth }) => depth));
  const width = getColumnLeft(maxDepth + 2);
  const height = getRowTop(Math.max(...positions.map(({ row }) => row)) + 1) + MARGIN;
  const edges = positions.map(({ node, depth, row }) => {
    const parent = positionsByNode.get(tree[node].parent);
    if (!parent) return null;
    const [x0, y0] = [getColumnLeft(parent.depth) + BOX.width, getRowTop(parent.row) + BOX.height / 2];
    const [x1, y1] = [getColumnLeft(depth), getRowTop(row) + BOX.height / 2];
    const middle = (x0 + x1) / 2;
    const path = y0 === y1 ? `M${x0} ${y0}H${x1}` : `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
    return createSvg("path", { class: getBranchClass("edge", tree[node]), d: path });
  });
  const bestLast = [...positions].sort((one, other) => Number(tree[one.node].best) - Number(tree[other.node].best));
  const boxes = bestLast.map(({ node, depth, row }) => drawBranch(tree[node], { x: getColumnLeft(depth), y: getRowTop(row), depth, onPoint }));
  const columns = Array.from({ length: maxDepth }, (_, i) => createSvg("text", { class: "tree-column", x: getColumnLeft(i + 1), y: 16 }, i + 1));
  const band = createSvg("rect", { class: "tree-step", x: getColumnLeft(step) - 6, y: 0, width: BOX.width + 12, height, rx: 6 });
  return createSvg("svg", { class: "tree", width, height, role: "img", "aria-label": "Tree of the beam. “As a table” below shows it as text." },
    band, columns, edges, boxes);
}

/**
 * @param {string} kind
 * @param {BeamNode} branch
 */
function getBranchClass(kind, { best, fate }) {
  return `${kind} is-${fate}${best ? " is-best" : ""}`;
}

/**
 * @param {BeamNode} branch
 * @param {{x: number, y: number, depth: number, onPoint: (text: string) => void}} options
 */
function drawBranch(branch, { x, y, depth, onPoint }) {
  const { token, log_probability: logProbability, score, fate } = branch;
  const name = depth === 0 && token === "" ? "start" : formatToken(token);
  const description = [
    `${name}: log-probability of the text ${formatNumber(logProbability, 4)}`,
    ...(score === null ? [] : [`score ${formatNumber(score, 4)}`]),
    fate,
  ].join(", ");
  return createSvg(
    "g",
    { class: getBranchClass("branch", branch), onmouseenter: () => onPoint(description) },
    createSvg("title", {}, description),
    createSvg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6 }),
    createSvg("text", { x: x + BOX.width / 2, y: y + BOX.height / 2, "text-anchor": "middle", "dominant-baseline": "central" }, fitText(name, BOX.width - 8, "650 12px")),
    score !== null && createSvg("text", { class: "score", x: x + BOX.width + 6, y: y + BOX.height / 2, "dominant-baseline": "central" }, formatNumber(score, 3)),
  );
}
