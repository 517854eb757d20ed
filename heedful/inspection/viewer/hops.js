/** Hops: the same facts or words looked at again and again, one column for each time. */

import { ramp } from "heedful/colour.js";
import { element } from "heedful/dom.js";
import { largestOf, rowAt, shaded, weightTable } from "heedful/looking.js";
import { display, matrixOf } from "heedful/record.js";
import { written } from "heedful/strips.js";

export const view = {
  id: "hops",
  title: "Hops",
  help:
    "Each column is one look at the same facts or words: a hop of a memory network, or one hop of a summary. A " +
    "column adds up to 1. Facts that are known to matter have a dot; a model that reasons correctly looks at them, " +
    "one after the other.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["ramp"]),
  available: (record) => hopsOf(record).length > 0,
  show,
};

/** Maps of one query at the same text, and heads of a summary, as a list of [map, head]: the longest there is. */
export function hopsOf(record) {
  const groups = new Map();
  for (const map of record.maps.filter(({ queryAxis, keyAxis }) => queryAxis.tokens.length === 1 && keyAxis.kind === "text")) {
    const name = `${map.queries}/${map.keys}`;
    const looks = map.role === "summary" ? map.heads.map((head) => [map, head]) : [[map, map.heads.length > 1 ? "mean" : map.heads[0]]];
    groups.set(name, [...(groups.get(name) ?? []), ...looks]);
  }
  const longest = [...groups.values()].sort((one, two) => two.length - one.length)[0] ?? [];
  return longest.length > 1 ? longest : [];
}

function show(host, record, app) {
  let turn = 0;
  const draw = async () => {
    const now = ++turn;
    const hops = hopsOf(record);
    const weights = (await Promise.all(hops.map(([map, head]) => matrixOf(map, head)))).map((each) => rowAt(each, 0));
    if (now !== turn) return;
    const { tokens, marked, name } = hops[0][0].keyAxis;
    const shade = ramp(app.ramp());
    const steps = hops.map((_, i) => `hop ${i + 1}`);
    const asWords = !tokens.some((token) => token.includes(" "));
    host.replaceChildren(...(asWords ? steps.map((step, i) => wordsOf(step, tokens, weights[i], shade)) : []),
      weightTable({ title: name, texts: tokens, steps, weights, marked, shade }),
      marked.length ? element("p", { class: "soft small" }, `On what is known to matter: ${steps.map((step, i) => `${step} ${written(marked.reduce((sum, k) => sum + weights[i][k], 0))}`).join(", ")}.`) : "");
  };
  draw();
  const stop = app.subscribe(draw);
  return () => (stop(), (turn = -Infinity));
}

/** A text shaded by one look at it. */
export function wordsOf(title, tokens, weights, shade, most = largestOf(weights)) {
  const words = tokens.map((token, k) => element("span", { class: "word looked-at", style: shaded(shade, weights[k], most), title: `${display(token)}: ${written(weights[k], 4)}`, "data-weight": weights[k] }, display(token)));
  return element("section", {}, element("h2", {}, title), element("div", { class: "words", tabindex: 0, role: "region", "aria-label": `${title}: tokens shaded by weight` }, words));
}
