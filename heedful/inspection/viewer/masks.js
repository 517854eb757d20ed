/** Who may see whom: each different mask of the record once, with the attentions that use it. */

import { asTable, element, tableOf } from "heedful/dom.js";
import { gridOf } from "heedful/grid.js";
import { display } from "heedful/record.js";

/** @typedef {Record<"light" | "dark", [number, number, number]>} Shades */

const SEEN = /** @type {Shades} */ ({ light: [42, 91, 215], dark: [92, 130, 214] });
const HIDDEN = /** @type {Shades} */ ({ light: [232, 234, 240], dark: [38, 40, 49] });

export const view = {
  id: "masks",
  title: "Masks",
  help:
    "A row is a token that looks, a column one that may be looked at. Filled cells are visible; the weight of all " +
    "others is 0, for every score. Attentions with the same mask share a picture.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ ([]),
  available: (record) => record.maps.length > 0,
  show,
};

/**
 * What kind of mask this is, by its bits alone.
 * @param {{shape: number[], data: ArrayLike<number>}} visible [Q, K]
 * @returns {string}
 */
export function nameOf({ shape: [queries, keys], data }) {
  const is = (rule) => everyCell(queries, keys, (q, k) => Boolean(data[q * keys + k]) === rule(q, k));
  if (is(() => true)) return "everything is visible";
  if (is(() => false)) return "nothing is visible";
  const shift = keys - queries;
  if (shift >= 0 && is((q, k) => k <= q + shift)) return "causal: itself and all before";
  const { before, after } = reach(queries, keys, data);
  if (is((q, k) => k - q >= -before && k - q <= after)) {
    if (before === 0 && after === 0) return "only itself";
    if (before === after) return `window of ${before} to either side`;
    return after === 0 ? `causal window of ${before} before` : `window of ${before} before and ${after} after`;
  }
  const open = Array.from({ length: keys }, (_, k) => Boolean(data[k]));
  if (is((q, k) => open[k])) return `${open.filter((each) => !each).length} keys hidden from all`;
  return "another kind of mask";
}

function everyCell(queries, keys, test) {
  for (let q = 0; q < queries; q++) for (let k = 0; k < keys; k++) if (!test(q, k)) return false;
  return true;
}

/** How far the farthest visible keys lie before and after their queries. */
function reach(queries, keys, data) {
  let [before, after] = [-Infinity, -Infinity];
  for (let q = 0; q < queries; q++) {
    for (let k = 0; k < keys; k++) {
      if (!data[q * keys + k]) continue;
      before = Math.max(before, q - k);
      after = Math.max(after, k - q);
    }
  }
  return { before, after };
}

/** Maps by their masks: same axes, same bits. */
async function grouped(maps) {
  const groups = [];
  for (const map of maps) {
    const visible = await map.visible();
    const alike = ({ visible: { data }, maps: [other] }) =>
      other.queries === map.queries && other.keys === map.keys && data.every((each, i) => each === visible.data[i]);
    const group = groups.find(alike);
    if (group) group.maps.push(map);
    else groups.push({ visible, maps: [map] });
  }
  return groups;
}

function show(host, record, app) {
  const readout = element("output", { class: "readout" }, "\u00a0");
  const place = element("div", { class: "masks" });
  host.append(readout, place);
  let gone = false;
  const draw = async () => {
    const groups = await grouped(record.maps);
    if (!gone) place.replaceChildren(...groups.map((group) => card(group, app.dark(), (text) => (readout.textContent = text))));
  };
  draw();
  const stop = app.subscribe((now, before) => now.theme !== before.theme || now === before ? draw() : undefined);
  return () => {
    gone = true;
    stop();
  };
}

function card({ visible, maps }, dark, tell) {
  const [{ queryAxis, keyAxis }] = maps;
  const [queries, keys] = [queryAxis.tokens, keyAxis.tokens];
  const seen = (q, k) => Boolean(visible.data[q * keys.length + k]);
  const theme = dark ? "dark" : "light";
  const count = visible.data.reduce((sum, each) => sum + (each ? 1 : 0), 0);
  const name = nameOf(visible);
  const picture = gridOf({
    rows: queries,
    columns: keys,
    colour: (q, k) => (seen(q, k) ? SEEN : HIDDEN)[theme],
    say: (q, k) => `${display(queries[q])} (${q}) ${seen(q, k) ? "may see" : "may not see"} ${display(keys[k])} (${k})`,
    tell,
    label: `Mask: ${name}`,
    width: 400,
    largest: 18,
  });
  const rows = queries.map((token, q) => [display(token), keys.map((key, k) => (seen(q, k) ? display(key) : "·")).join(" ")]);
  return element(
    "section",
    { class: "mask-card" },
    element("h2", {}, name[0].toUpperCase() + name.slice(1)),
    element("p", { class: "soft" }, maps.map((map) => map.label).join(", ")),
    element("p", { class: "soft small" }, `${queryAxis.name} to ${keyAxis.name}: ${count} of ${queries.length * keys.length} pairs are visible`),
    element("div", { class: "grid-scroll" }, picture),
    asTable(() => tableOf(["who looks", "what it may see"], rows)),
  );
}
