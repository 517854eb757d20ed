/** A chain of facts: how probable each is at each step, and each pair of neighbours (Kim et al. 2017, figure 4). */

import { asTable, element, svg, tableOf } from "heedful/dom.js";
import { stepNames } from "heedful/looking.js";
import { at, display, matrixOf, part, shortened } from "heedful/record.js";
import { written } from "heedful/strips.js";

const ROW = 40;
const APART = 170;
const RADIUS = 13;
const LETTERS = 44;
const FAINTEST = 0.01;

const fits = (map) => Boolean(map.edges);

export const view = {
  id: "chain",
  title: "Chain",
  help:
    "Each column is a step of the chain, each row a fact. The darker a circle, the more probable its fact is at that " +
    "step; the thicker a line, the more probable both of its ends are together. Facts with a dot are known to " +
    "matter. Below are the most probable whole chains.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head"]),
  available: (record) => record.maps.some(fits),
  show,
};

function show(host, record, app) {
  let turn = 0;
  const draw = async () => {
    const now = ++turn;
    const chosen = record.maps[app.get().map];
    const map = chosen && fits(chosen) ? chosen : record.maps.find(fits);
    const { head } = app.get();
    const place = map.heads.length === 1 ? 0 : map.heads.indexOf(head);
    const [nodes, all] = await Promise.all([matrixOf(map, place < 0 ? "mean" : map.heads[place]), map.joint()]);
    if (now !== turn) return;
    const edges = place < 0 ? all.mean : part(all.heads, place);
    const steps = stepNames(record, map);
    const facts = map.keyAxis.tokens;
    host.replaceChildren(element("div", { class: "grid-scroll" }, picture({ nodes, edges, steps, axis: map.keyAxis })), element("h2", {}, "Most probable chains"),
      element("ol", {}, map.chains[place < 0 ? map.heads.length : place].map(([chain, chance]) => element("li", {}, `${chain.map((k) => display(facts[k])).join(" → ")} (${written(chance, 3)})`))),
      asTable(() => tableOf(["fact", ...steps], facts.map((fact, k) => [display(fact), ...steps.map((_, q) => written(at(nodes, q, k), 4))]))));
  };
  draw();
  const stop = app.subscribe(draw);
  return () => (stop(), (turn = -Infinity));
}

function picture({ nodes, edges, steps, axis: { tokens, marked } }) {
  const left = Math.min(LETTERS, Math.max(...tokens.map((token) => token.length))) * 7.2 + 40;
  const [x, y] = [(q) => left + q * APART, (k) => 46 + k * ROW];
  const pairs = steps.slice(1).flatMap((_, q) => tokens.flatMap((_, a) => tokens.map((_, b) => [q, a, b, at(edges, q, a, b)])));
  return svg("svg", { class: "chain", width: left + (steps.length - 1) * APART + 40, height: 46 + tokens.length * ROW, role: "img", "aria-label": `A chain of ${steps.length} steps over ${tokens.length} facts` },
    steps.map((name, q) => svg("text", { class: "soft", x: x(q), y: 16, "text-anchor": "middle" }, name)),
    tokens.map((token, k) => svg("text", { x: left - 30, y: y(k), "text-anchor": "end", "dominant-baseline": "central" }, (marked.includes(k) ? "● " : "") + shortened(display(token), LETTERS))),
    pairs.filter((pair) => pair[3] > FAINTEST).map(([q, a, b, chance]) => svg("line", { class: "link", x1: x(q) + RADIUS, y1: y(a), x2: x(q + 1) - RADIUS, y2: y(b), "stroke-width": 0.5 + 7 * chance, "stroke-opacity": 0.25 + 0.75 * chance }, svg("title", {}, written(chance, 3)))),
    steps.map((_, q) => tokens.map((_, k) => svg("g", {}, svg("circle", { class: "node", cx: x(q), cy: y(k), r: RADIUS, "fill-opacity": at(nodes, q, k), "data-weight": at(nodes, q, k) }),
      svg("text", { class: at(nodes, q, k) > 0.55 ? "small on-full" : "small", x: x(q), y: y(k), "text-anchor": "middle", "dominant-baseline": "central" }, written(at(nodes, q, k)))))));
}
