/** Which frames of a clip, or of a recording, each word looked at: bars below a strip of them. */

import { asTable, element, svg, tableOf } from "heedful/dom.js";
import { listen } from "heedful/grid.js";
import { largestOf, rowAt, stepping } from "heedful/looking.js";
import { shortened } from "heedful/record.js";

const LEFT = 116;
const WIDE = 980;
const ROW = 34;
const BAR = 27;
const THUMBNAIL = 56; // least pixels of one
const SPECTROGRAM = 84;
const NAMED = 26; // pixels between numbers of frames

const fits = (map) => map.keyAxis.kind === "frames";

export const view = {
  id: "frames",
  title: "Frames",
  help:
    "Time runs from left to right. Each row is a step, with its probability where it was written; the height of a " +
    "bar is the weight of its frame, and the highest bar of all is the largest weight. Frames that are known to " +
    "matter are marked through all rows. If there are many frames, only some pictures are shown, but all frames have " +
    "bars.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head"]),
  available: (record) => record.maps.some(fits),
  show,
};

/** One path of all bars of a row. */
export function bars(row, { most, wide, high }) {
  const thick = Math.max(0.5, wide - (wide > 5 ? 1.5 : 0));
  return row.map((weight, k) => `M${(k * wide).toFixed(2)} 0h${thick.toFixed(2)}v${(-high * weight / most).toFixed(2)}h${(-thick).toFixed(2)}z`).join("");
}

function show(host, record, app) {
  const stage = element("div", { class: "grid-scroll" });
  const readout = element("output", { class: "readout" });
  const spoken = element("p", { class: "soft small" });
  let last = /** @type {any} */ (null); // what was drawn last
  const scene = stepping(record, app, { fits, draw: (now) => draw((last = now)) });
  host.append(readout, stage, spoken, asTable(() => tableOf(["step", ...last.map.keyAxis.tokens], last.names.map((name, i) => [name, ...rowAt(last.weights, i).map((weight) => weight.toFixed(4))]))));

  function draw({ map, weights, step, names, go }) {
    const axis = map.keyAxis;
    const count = axis.tokens.length;
    const rows = names.map((_, i) => rowAt(weights, i));
    const most = largestOf(rows.flat()) || 1;
    const wide = Math.min(120, WIDE / count);
    const strip = stripOf(axis, wide);
    const top = strip.high + 22;
    const size = { width: LEFT + count * wide + 8, height: top + names.length * ROW + 6 };
    const area = svg("rect", { class: "area", x: LEFT, y: top, width: count * wide, height: names.length * ROW });
    const cursor = svg("rect", { class: "grid-cursor", y: 0, width: wide, height: size.height - 4, visibility: "hidden" });
    const picture = svg("svg", { class: "frames", ...size, "aria-hidden": "true" },
      axis.marked.map((k) => svg("rect", { class: "marked", x: LEFT + k * wide, y: 0, width: wide, height: size.height }, svg("title", {}, "known to matter"))),
      strip.parts, numbersOf(axis, wide, strip.high), area,
      rows.map((row, i) => svg("g", { class: i === step ? "frame-row chosen" : "frame-row", transform: `translate(${LEFT} ${top + (i + 1) * ROW - 4})` },
        svg("text", { x: -10, y: -6, "text-anchor": "end" }, shortened(names[i], 15)),
        svg("line", { class: "rule", x1: 0, x2: count * wide, y1: 0.5, y2: 0.5 }),
        svg("path", { class: "bars", d: bars(row, { most, wide, high: BAR }) }))), cursor);
    const label = `Frames that each of ${names.length} steps looks at. Arrow keys read the bars, Enter chooses a step.`;
    const node = element("div", { class: "grid can-choose", tabindex: 0, role: "img", "aria-label": label }, picture);
    const point = (i, j) => {
      cursor.setAttribute("x", LEFT + j * wide);
      cursor.setAttribute("visibility", "visible");
      readout.textContent = `${names[i]} (${i}) looks at frame ${axis.tokens[j]}: ${rows[i][j].toFixed(4)}${axis.marked.includes(j) ? ", known to matter" : ""}`;
      node.setAttribute("aria-label", `${label} ${readout.textContent}`);
    };
    listen(node, { canvas: area, cell: { wide, high: ROW }, shape: [names.length, count], first: step, point, choose: go });
    const focused = stage.contains(document.activeElement);
    stage.replaceChildren(node);
    if (focused) node.focus();
    readout.replaceChildren(element("span", { class: "hint" }, "Point at a bar, or move with the arrow keys, to read its weight."));
    spoken.textContent = `${map.label}; the highest bar is ${most.toFixed(3)}`;
  }
  return scene.stop;
}

/** Pictures along the top: as many as there is room for, or the one that all frames divide. */
function stripOf({ pictures, aspect, tokens }, wide) {
  if (!pictures) return { high: 0, parts: [] };
  const picture = (href, x, width, height) => svg("image", { href, x, y: 0, width, height, preserveAspectRatio: "none" });
  if (pictures.length < tokens.length) return { high: SPECTROGRAM, parts: [picture(pictures[0], LEFT, wide * tokens.length, SPECTROGRAM)] };
  const every = Math.ceil(THUMBNAIL / wide);
  const width = every * wide - 2;
  const high = Math.min(90, width / aspect);
  const shown = pictures.flatMap((href, k) => (k % every === 0 ? [[href, k]] : []));
  return { high, parts: shown.map(([href, k]) => picture(href, LEFT + k * wide, Math.min(high * aspect, (tokens.length - k) * wide), high)) };
}

function numbersOf({ tokens }, wide, high) {
  const every = Math.ceil(NAMED / wide);
  return tokens.map((name, k) => k % every === 0 && svg("text", { class: "soft", x: LEFT + (k + 0.5) * wide, y: high + 14, "text-anchor": "middle" }, name));
}
