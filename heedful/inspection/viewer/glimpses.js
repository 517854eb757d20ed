/** A path of glimpses over a picture: where each looked, how large its squares were, and the answer after each. */

import { bar } from "heedful/chart.js";
import { tokenRow } from "heedful/choosing.js";
import { asTable, element, svg, tableOf } from "heedful/dom.js";
import { display } from "heedful/record.js";
import { written } from "heedful/strips.js";

const SIDE = 480;

export const view = {
  id: "glimpses",
  title: "Glimpses",
  help:
    "The model saw the picture only through squares, sharp in the smallest and coarser in each larger one. The path " +
    "goes from glimpse to glimpse by their numbers; the squares are those of the chosen one. Next to it is what the " +
    "model would have answered after that glimpse.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ ([]),
  available: (record) => record.glimpses.length > 0,
  show,
};

function show(host, record) {
  const { glimpses } = record;
  const axis = record.axes.find(({ kind, pictures }) => kind === "grid" && pictures);
  const stage = element("div", { class: "decoding" });
  const row = tokenRow(glimpses.map((_, i) => String(i + 1)), { label: "Glimpses", chosen: glimpses.length - 1, choose: draw });
  host.append(row.node, stage, asTable(() => tableOf(["glimpse", "row", "column", "sizes", "would say"], glimpses.map(rowOf))));

  function draw(chosen) {
    row.mark(chosen);
    stage.replaceChildren(pathOver(axis, glimpses, chosen), saidAfter(glimpses[chosen], chosen));
  }
  draw(glimpses.length - 1);
  return () => {};
}

function rowOf({ row, column, sizes, options }, i) {
  return [i + 1, written(row), written(column), sizes.map((size) => written(size)).join(", "), options.map(([name, chance]) => `${display(name)} ${written(chance, 3)}`).join(", ")];
}

function pathOver({ aspect, pictures }, glimpses, chosen) {
  const [width, height] = [SIDE * Math.min(1, aspect), SIDE / Math.max(1, aspect)];
  const centre = ({ row, column }) => [column * width, row * height];
  const square = (glimpse, size, name) => {
    const [x, y] = centre(glimpse);
    const side = size * height;
    return svg("rect", { class: name, x: x - side / 2, y: y - side / 2, width: side, height: side });
  };
  const dot = (glimpse, i) => {
    const [x, y] = centre(glimpse);
    return svg("g", { class: i === chosen ? "glimpse is-now" : "glimpse" }, svg("circle", { cx: x, cy: y, r: 11 }), svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central" }, i + 1));
  };
  const beyond = Math.max(12, ...glimpses.map((each) => {
    const [x, y] = centre(each);
    return (Math.max(...each.sizes) * height) / 2 - Math.min(x, y, width - x, height - y);
  }));
  const [wide, high] = [width, height].map((side) => side + 2 * beyond);
  return svg("svg", { class: "glimpses", viewBox: `${-beyond} ${-beyond} ${wide} ${high}`, width: wide, role: "img", "aria-label": `Path of ${glimpses.length} glimpses; ${chosen + 1} at row ${written(glimpses[chosen].row)}, column ${written(glimpses[chosen].column)}` },
    svg("image", { href: pictures[0], width, height }),
    glimpses.map((each) => square(each, Math.min(...each.sizes), "seen")),
    svg("polyline", { class: "glimpse-path", points: glimpses.map((each) => centre(each).join(",")).join(" ") }),
    glimpses[chosen].sizes.map((size) => square(glimpses[chosen], size, "seen is-now")),
    glimpses.map(dot));
}

function saidAfter({ options }, chosen) {
  const rows = options.map(([name, chance], i) => element("tr", { class: i ? "" : "is-written" }, element("th", { scope: "row" }, display(name)), element("td", {}, bar(chance, written(chance, 3), i ? "" : "of-written"))));
  return element("section", { class: "decoding-chances" }, element("h2", {}, `After glimpse ${chosen + 1}`),
    options.length ? element("table", { class: "bars" }, element("tbody", {}, rows)) : element("p", { class: "soft" }, "There is no answer after this glimpse."));
}
