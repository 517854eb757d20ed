/** A dialogue, or another text of several parts, and how much each word of the answer took from each part. */

import { bar } from "heedful/chart.js";
import { tokenRow } from "heedful/choosing.js";
import { element } from "heedful/dom.js";
import { largestOf, rowAt, stepping, weightTable } from "heedful/looking.js";
import { wordsOf } from "heedful/hops.js";
import { display } from "heedful/record.js";
import { written } from "heedful/strips.js";

const fits = (map) => map.keyAxis.spans.length > 0 && map.keys !== map.queries;

export const view = {
  id: "turns",
  title: "Turns",
  help:
    "The text with its turns or sentences. Choose a word of the answer: the bar of a turn is the sum of the weights of " +
    "its words, which are shaded, the strongest in full colour. The table has the sums of all words.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head", "ramp"]),
  available: (record) => record.maps.some(fits),
  show,
};

/** The weight of each span. */
export function sums(row, spans) {
  return spans.map(({ start, stop }) => row.slice(start, stop).reduce((sum, weight) => sum + weight, 0));
}

function show(host, record, app) {
  const scene = stepping(record, app, { fits, draw });
  function draw({ map, weights, step, names, shade, go }) {
    const { spans, tokens, marked } = map.keyAxis;
    const row = rowAt(weights, step);
    const most = largestOf(row);
    const by = names.map((_, i) => sums(rowAt(weights, i), spans));
    const chosen = tokenRow(names, { label: "Answer", chosen: step, choose: go });
    const focused = host.contains(document.activeElement);
    const part = ({ name, start, stop }, i) => element("article", { class: "turn" },
      wordsOf(display(name), tokens.slice(start, stop), row.slice(start, stop), shade, most), bar(by[step][i], written(by[step][i], 3)));
    const known = spans.flatMap(({ start, stop }, i) => (marked.some((k) => k >= start && k < stop) ? [i] : []));
    host.replaceChildren(chosen.node, element("div", { class: "turns" }, spans.map(part)), element("h2", {}, "All words"),
      weightTable({ title: "turn", texts: spans.map(({ name }, i) => `${i + 1} ${name}`), steps: names, weights: by, marked: known, shade, chosen: step }));
    if (focused) chosen.buttons[step].focus();
  }
  return scene.stop;
}
