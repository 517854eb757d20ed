/** A beam's tree as a picture, from left to right. */

import { asTable, element, svg, tableOf, tick } from "heedful/dom.js";
import { display, shortened } from "heedful/record.js";
import { written } from "heedful/strips.js";
import { depths, layout } from "heedful/tree.js";

const COLUMN = 104;
const ROW = 32;
const BOX = { width: 84, height: 23 };
const MARGIN = 8;
const HEAD = 24;

/**
 * @param {import("heedful/record.js").Inspection} record
 * @param {(text: string) => void} tell gets what is under the pointer
 * @returns {{node: HTMLElement, mark: (step: number) => void}} `mark` shows which column the text has reached
 */
export function beamTree(record, tell) {
  const { tree } = record;
  const state = { pruned: false, step: 0 };
  const place = element("div", { class: "tree-scroll", tabindex: 0, role: "region", "aria-label": "Tree of the beam" });
  const depth = depths(tree);
  const draw = () => place.replaceChildren(pictureOf(tree, { ...state, tell }));
  const pruned = tree.filter((branch) => branch.fate === "pruned").length;
  const count = (fate) => tree.filter((branch) => branch.fate === fate).length;
  const words = `${tree.length - 1} branches: ${count("ended")} ended, ${pruned} pruned. The returned text is bold and on the first row.`;
  draw();
  const node = element(
    "section",
    { class: "beam" },
    element("h2", {}, "The beam's tree"),
    element("p", { class: "soft small" }, words),
    pruned > 0 && element("div", { class: "controls" }, tick(`pruned branches (${pruned})`, false, (on) => ((state.pruned = on), draw()))),
    place,
    asTable(() => tableOf(["number", "continues", "step", "token", "log-probability", "score", "fate", "returned"], tree.map((branch, i) => [
      i, branch.parent < 0 ? "" : branch.parent, depth[i], display(branch.token), written(branch.log_probability, 4),
      branch.score === null ? "" : written(branch.score, 4), branch.fate, branch.best ? "yes" : "",
    ]))),
  );
  const mark = (step) => {
    state.step = step;
    const band = place.querySelector(".tree-step");
    band?.setAttribute("x", left(step) - 6);
    const start = left(step);
    if (start < place.scrollLeft || start + COLUMN > place.scrollLeft + place.clientWidth) place.scrollLeft = Math.max(0, start - 200);
  };
  return { node, mark };
}

function left(depth) {
  return MARGIN + depth * COLUMN;
}

function pictureOf(tree, { pruned, step, tell }) {
  const places = layout(tree, { pruned });
  const where = new Map(places.map((each) => [each.node, each]));
  const top = (row) => HEAD + MARGIN + row * ROW;
  const deepest = Math.max(...places.map((each) => each.depth));
  const width = left(deepest + 2);
  const height = top(Math.max(...places.map((each) => each.row)) + 1) + MARGIN;
  const edges = places.map(({ node, depth, row }) => {
    const parent = where.get(tree[node].parent);
    if (!parent) return null;
    const [x0, y0, x1, y1] = [left(parent.depth) + BOX.width, top(parent.row) + BOX.height / 2, left(depth), top(row) + BOX.height / 2];
    const middle = (x0 + x1) / 2;
    const path = y0 === y1 ? `M${x0} ${y0}H${x1}` : `M${x0} ${y0}C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
    return svg("path", { class: classOf("edge", tree[node]), d: path });
  });
  const order = (each) => (tree[each.node].best ? 1 : 0);
  const boxes = [...places].sort((a, b) => order(a) - order(b)).map(({ node, depth, row }) => boxOf(tree[node], { x: left(depth), y: top(row), depth, tell }));
  const columns = Array.from({ length: deepest }, (_, i) => svg("text", { class: "tree-column", x: left(i + 1), y: 16 }, i + 1));
  const band = svg("rect", { class: "tree-step", x: left(step) - 6, y: 0, width: BOX.width + 12, height, rx: 6 });
  return svg("svg", { class: "tree", width, height, role: "img", "aria-label": "Tree of the beam; read it with “As a table” below" }, band, columns, edges, boxes);
}

function classOf(kind, { best, fate }) {
  return `${kind} is-${fate}${best ? " is-best" : ""}`;
}

function boxOf(branch, { x, y, depth, tell }) {
  const { token, log_probability: logp, score, fate } = branch;
  const name = depth === 0 && token === "" ? "start" : display(token);
  const words = [`${name}: log-probability ${written(logp, 4)} in all`, score !== null && `score ${written(score, 4)}`, fate].filter(Boolean).join(", ");
  return svg(
    "g",
    { class: classOf("branch", branch), onmouseenter: () => tell(words) },
    svg("title", {}, words),
    svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6 }),
    svg("text", { x: x + BOX.width / 2, y: y + BOX.height / 2, "text-anchor": "middle", "dominant-baseline": "central" }, shortened(name, 10)),
    score !== null && svg("text", { class: "score", x: x + BOX.width + 6, y: y + BOX.height / 2, "dominant-baseline": "central" }, written(score, 3)),
  );
}
