/** Show the glimpses of a model at a picture: their path, the sizes of their squares, and the answer after each one. */

import { createBar } from "heedful/charts.js";
import { createTokenRow } from "heedful/controls.js";
import { createElement, createSvg, createTable, createTableToggle } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { Glimpse, MapAxis } from "heedful/record.js" */

const SIDE = 480;

/** @type {PageView} */
export const glimpsesView = {
  id: "glimpses",
  title: "Glimpses",
  help:
    "The model saw the picture only through squares. The smallest square is sharp, and each larger one is coarser. The path " +
    "follows the glimpses by their numbers. The squares belong to the selected glimpse. The list shows the answer of the " +
    "model after that glimpse.",
  controls: [],
  isAvailable: (record) => record.glimpses.length > 0,
  show,
};

/** @type {PageView["show"]} */
function show(host, record) {
  const { glimpses } = record;
  const axis = record.axes.find(({ kind, pictures }) => kind === "grid" && pictures);
  const stage = createElement("div", { class: "decoding" });
  const row = createTokenRow(glimpses.map((_, i) => String(i + 1)), { label: "Glimpses", selected: glimpses.length - 1, onSelect: selectGlimpse });
  host.append(row.node, stage, createTableToggle(() => createTable(["glimpse", "row", "column", "sizes", "answers"], glimpses.map(buildTableRow))));

  function selectGlimpse(/** @type {number} */ selected) {
    row.mark(selected);
    stage.replaceChildren(...(axis ? [drawGlimpsePath(axis, glimpses, selected)] : []), createAnswersSection(glimpses[selected], selected));
  }
  selectGlimpse(glimpses.length - 1);
  return () => {};
}

/**
 * @param {Glimpse} glimpse
 * @param {number} i
 */
function buildTableRow({ row, column, sizes, options }, i) {
  return [
    i + 1, formatNumber(row), formatNumber(column), sizes.map((size) => formatNumber(size)).join(", "),
    options.map(([name, probability]) => `${formatToken(name)} ${formatNumber(probability, 3)}`).join(", "),
  ];
}

/**
 * Draw the picture, the path of the glimpses and the squares of the selected one.
 * @param {MapAxis} axis
 * @param {Glimpse[]} glimpses
 * @param {number} selected
 */
function drawGlimpsePath({ aspect = 1, pictures }, glimpses, selected) {
  const [width, height] = [SIDE * Math.min(1, aspect), SIDE / Math.max(1, aspect)];
  const centres = glimpses.map(({ row, column }) => ({ x: column * width, y: row * height }));
  const drawSquare = (/** @type {number} */ i, /** @type {number} */ size, /** @type {string} */ className) => {
    const [{ x, y }, side] = [centres[i], size * height];
    return createSvg("rect", { class: className, x: x - side / 2, y: y - side / 2, width: side, height: side });
  };
  const dots = centres.map(({ x, y }, i) => createSvg("g", { class: i === selected ? "glimpse is-current" : "glimpse" },
    createSvg("circle", { cx: x, cy: y, r: 11 }),
    createSvg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central" }, i + 1)));
  const margin = Math.max(12, ...glimpses.map(({ sizes }, i) => {
    const { x, y } = centres[i];
    return (Math.max(...sizes) * height) / 2 - Math.min(x, y, width - x, height - y);
  }));
  const box = { width: width + 2 * margin, height: height + 2 * margin };
  const { row, column, sizes: selectedSizes } = glimpses[selected];
  const label = `Path of ${glimpses.length} glimpses. Glimpse ${selected + 1} is at row ${formatNumber(row)}, column ${formatNumber(column)}.`;
  return createSvg("svg", { class: "glimpses", viewBox: `${-margin} ${-margin} ${box.width} ${box.height}`, width: box.width, role: "img", "aria-label": label },
    createSvg("image", { href: pictures?.[0], width, height }),
    glimpses.map(({ sizes }, i) => drawSquare(i, Math.min(...sizes), "seen")),
    createSvg("polyline", { class: "glimpse-path", points: centres.map(({ x, y }) => `${x},${y}`).join(" ") }),
    selectedSizes.map((size) => drawSquare(selected, size, "seen is-current")),
    dots);
}

/**
 * Create a list of the most probable answers after a glimpse.
 * @param {Glimpse} glimpse
 * @param {number} number
 */
function createAnswersSection({ options }, number) {
  const rows = options.map(([name, probability], i) => createElement("tr", { class: i ? "" : "is-written" },
    createElement("th", { scope: "row" }, formatToken(name)),
    createElement("td", {}, createBar(probability, formatNumber(probability, 3), i ? "" : "of-written"))));
  return createElement("section", { class: "decoding-options" }, createElement("h2", {}, `After glimpse ${number + 1}`),
    options.length
      ? createElement("table", { class: "bars" }, createElement("tbody", {}, rows))
      : createElement("p", { class: "soft" }, "The model gives no answer after this glimpse."));
}
