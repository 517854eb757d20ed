/** What each head looks at, as lines between tokens. */

import { headColour } from "heedful/colour.js";
import { asTable, element, tableOf } from "heedful/dom.js";
import { neighbour } from "heedful/keys.js";
import { drawLines, drawTokens, layoutOf, thresholdOf } from "heedful/lines.js";
import { display, part, tokensOf } from "heedful/record.js";
import { scroller } from "heedful/scroller.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {import("heedful/record.js").AttentionMap} AttentionMap */
/** @typedef {import("heedful/record.js").Numbers} Numbers */
/** @typedef {import("heedful/lines.js").Token} Token */
/**
 * @typedef {object} Scene
 * @property {AttentionMap} map
 * @property {Numbers} weights
 * @property {Set<number>} on heads whose lines are drawn
 * @property {number | null} threshold that was chosen; null for one by the number of heads that are on
 * @property {{on: string, least: number}} [usual] the threshold of these heads, which moving a pointer does not change
 * @property {Token | null} pointed
 */

const MANY_LINES = 3000;

export const view = {
  id: "heads",
  title: "Heads",
  help:
    "Tokens that look are on the left, tokens that are looked at are on the right. A line is a weight: the larger " +
    "the weight, the more opaque the line. Its colour is the head, and lines of several heads between the same " +
    "tokens run side by side. Weak lines are left out, and more of them if more heads are on; “Lines from” brings " +
    "them back. Point at a token, or move with the arrow keys, to see only its lines and how much each head gives to " +
    "every token of the other side.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map"]),
  available: (/** @type {Inspection} */ record) => record.maps.length > 0,
  show,
};

/**
 * @param {HTMLElement} host
 * @param {Inspection} record
 * @param {App} app
 * @returns {() => void}
 */
function show(host, record, app) {
  /** @type {Scene | null} */ let scene = null;
  let asked = 0;
  const readout = element("output", { class: "readout" });
  const spoken = element("div", { class: "unseen", "aria-live": "polite", role: "status" });
  const panel = controls(record, app, () => scene, () => redraw());
  let layout = layoutOf([""], [""], 800, 1);

  const frame = scroller((shown) => {
    if (!scene) return;
    const lines = linesOf(scene, app);
    drawLines(shown, layout, lines);
    const { queries, keys, heads } = scene.map;
    drawTokens(shown, layout, lines, { queries: `${queries} (looks)`, keys: `${keys} (is looked at)`, bars: heads.length });
  });
  const redraw = () => {
    panel.refresh();
    frame.redraw();
  };
  const point = (/** @type {Token | null} */ token, byKey = false) => {
    if (!scene || (token?.side === scene.pointed?.side && token?.place === scene.pointed?.place)) return;
    scene.pointed = token;
    if (token && byKey) frame.reveal({ x: 0, y: token.place * layout.row, width: 0, height: layout.row }, { left: 0, top: layout.top });
    frame.redraw();
    readout.replaceChildren(...words(scene));
    if (byKey) spoken.textContent = readout.textContent;
  };
  const refresh = async () => {
    const { map: index, head } = app.get();
    const map = record.maps[index];
    const turn = (asked += 1);
    const weights = await map.weights();
    if (turn !== asked) return;
    const kept = scene?.map.heads.join() === map.heads.join() ? scene.on : new Set(head === "mean" ? map.heads : [head]);
    scene = { map, weights, on: kept, threshold: null, pointed: null };
    const { queries, keys } = tokensOf(map);
    layout = layoutOf(queries, keys, host.clientWidth, map.heads.length);
    frame.resize(/** @type {any} */ (layout).width, /** @type {any} */ (layout).height);
    Object.assign(frame.node.dataset, layout);
    frame.node.setAttribute("aria-label", `${map.label}: ${queries.length} tokens look at ${keys.length}. Arrow keys move between tokens.`);
    readout.replaceChildren(...words(scene));
    redraw();
    host.dataset.shown = String(index);
  };
  listen(frame, () => ({ layout, scene }), point, (query) => app.set({ query: app.get().query === query ? null : query }));
  host.append(panel.node, readout, frame.node, spoken, asTable(() => table(/** @type {Scene} */ (scene))));
  refresh();
  const stop = app.subscribe((state, before) => {
    if (scene && state.head !== before.head) scene.on = new Set(state.head === "mean" ? scene.map.heads : [state.head]);
    if (state.map !== before.map) refresh();
    else redraw();
  });
  return () => {
    stop();
    asked += 1;
    frame.stop();
  };
}

/** @param {Scene} scene */
function chosen({ map, weights, on }) {
  return map.heads.flatMap((head, i) => (on.has(head) ? [{ head, data: part(weights, i).data }] : []));
}

/** @param {Scene} scene */
function leastOf(scene) {
  if (scene.threshold !== null) return scene.threshold;
  const on = [...scene.on].sort().join();
  if (scene.usual?.on !== on) scene.usual = { on, least: thresholdOf(chosen(scene), MANY_LINES) };
  return scene.usual.least;
}

/**
 * @param {Scene} scene
 * @param {App} app
 * @returns {import("heedful/lines.js").Lines}
 */
function linesOf(scene, app) {
  const { query } = app.get();
  const fixed = query === null ? null : /** @type {Token} */ ({ side: "query", place: query });
  return { ...tokensOf(scene.map), heads: chosen(scene), threshold: leastOf(scene), only: scene.pointed ?? fixed };
}

/**
 * Chips for heads, steps between layers, and the threshold.
 * @param {Inspection} record
 * @param {App} app
 * @param {() => Scene | null} now
 * @param {() => void} changed
 */
function controls(record, app, now, changed) {
  const step = (/** @type {string} */ text, /** @type {number} */ by) =>
    element("button", { type: "button", onclick: () => app.set({ map: neighbour(record, app, by) }) }, text);
  const [before, after] = [step("‹ layer", -1), step("layer ›", 1)];
  const chips = element("div", { class: "chips", role: "group", "aria-label": "Heads" });
  const slider = element("input", { type: "range", min: 0, max: 50, step: 1, oninput: () => {
    const scene = now();
    if (scene) scene.threshold = Math.max(0.001, slider.value / 100);
    changed();
  } });
  const least = element("span", { class: "soft" });
  const all = element("button", { type: "button", class: "chip", onclick: () => {
    const scene = now();
    if (scene) scene.on = new Set(scene.on.size === scene.map.heads.length ? [] : scene.map.heads);
    changed();
  } }, "all");
  const refresh = () => {
    const scene = now();
    if (!scene) return;
    before.disabled = neighbour(record, app, -1) === app.get().map;
    after.disabled = neighbour(record, app, 1) === app.get().map;
    const focused = [...chips.children].indexOf(/** @type {Element} */ (document.activeElement));
    chips.replaceChildren(all, ...scene.map.heads.map((head) => chip(scene, head, changed)));
    chips.children[focused]?.focus();
    slider.value = String(Math.round(leastOf(scene) * 100));
    slider.setAttribute("aria-valuetext", `${slider.value} percent`);
    least.textContent = `${slider.value} %`;
  };
  const threshold = element("label", { class: "labelled" }, element("span", {}, "Lines from"), slider, least);
  return { node: element("div", { class: "controls" }, element("span", { class: "group" }, before, after), chips, threshold), refresh };
}

/**
 * @param {Scene} scene
 * @param {number} head
 * @param {() => void} changed
 */
function chip(scene, head, changed) {
  const swatch = element("span", { class: "swatch", style: { background: headColour(head) } });
  return element("button", {
    type: "button",
    class: "chip",
    "aria-pressed": String(scene.on.has(head)),
    "aria-label": `head ${head}`,
    onclick: () => {
      if (!scene.on.delete(head)) scene.on.add(head);
      changed();
    },
  }, swatch, head);
}

/**
 * @param {import("heedful/scroller.js").Scroller} frame
 * @param {() => {layout: import("heedful/lines.js").Layout, scene: Scene | null}} now
 * @param {(token: Token | null, byKey?: boolean) => void} point
 * @param {(query: number) => void} choose
 */
function listen(frame, now, point, choose) {
  const { node } = frame;
  node.tabIndex = 0;
  node.setAttribute("role", "application");
  node.setAttribute("aria-roledescription", "lines between tokens");
  const tokenAt = (/** @type {MouseEvent} */ event) => {
    const { layout, scene } = now();
    const { x, y } = frame.place(event);
    const at = x + node.scrollLeft;
    const place = Math.floor((y - layout.top + node.scrollTop) / layout.row);
    const side = at <= layout.left ? "query" : at >= layout.right ? "key" : null;
    const count = scene && side ? tokensOf(scene.map)[side === "query" ? "queries" : "keys"].length : 0;
    return side && y >= layout.top - 6 && place >= 0 && place < count ? /** @type {Token} */ ({ side, place }) : null;
  };
  node.addEventListener("pointermove", (event) => point(tokenAt(event)));
  node.addEventListener("pointerleave", () => point(null));
  node.addEventListener("click", (event) => {
    const token = tokenAt(event);
    if (token?.side === "query") choose(token.place);
  });
  node.addEventListener("keydown", (event) => {
    const { scene } = now();
    if (!scene || event.ctrlKey || event.metaKey || event.altKey) return;
    const { side, place } = scene.pointed ?? { side: "query", place: -1 };
    const counts = { query: tokensOf(scene.map).queries.length, key: tokensOf(scene.map).keys.length };
    const to = (/** @type {"query" | "key"} */ there, /** @type {number} */ wanted) =>
      point({ side: there, place: Math.min(counts[there] - 1, Math.max(0, wanted)) }, true);
    if (event.key === "ArrowDown") to(side, place + 1);
    else if (event.key === "ArrowUp") to(side, place - 1);
    else if (event.key === "ArrowRight") to("key", place);
    else if (event.key === "ArrowLeft") to("query", place);
    else if (event.key === "Home") to(side, 0);
    else if (event.key === "End") to(side, Infinity);
    else if (event.key === "Enter" && side === "query" && place >= 0) choose(place);
    else if (event.key === "Escape") point(null, true);
    else return;
    event.preventDefault();
  });
}

/**
 * The strongest weights of the token that is pointed at.
 * @param {Scene} scene
 * @returns {(string | Node)[]}
 */
function words(scene) {
  const { pointed, map } = scene;
  if (!pointed) return [element("span", { class: "soft hint" }, "Point at a token to see only its lines; a click on the left keeps them.")];
  const { queries, keys } = tokensOf(map);
  const asks = pointed.side === "query";
  const others = asks ? keys : queries;
  const found = chosen(scene).flatMap(({ head, data }) => others.map((token, other) => {
    const [q, k] = asks ? [pointed.place, other] : [other, pointed.place];
    return { head, token, weight: data[q * keys.length + k] };
  }));
  const best = found.sort((one, two) => two.weight - one.weight).slice(0, 3);
  const parts = best.map(({ head, token, weight }) => `${display(token)} ${weight.toFixed(4)} (head ${head})`);
  const token = element("b", {}, display((asks ? queries : keys)[pointed.place]));
  return [token, asks ? " looks most at " : " is looked at most by ", parts.join(", ") || "nothing: no head is on"];
}

/** @param {Scene} scene */
function table(scene) {
  const { queries, keys } = tokensOf(scene.map);
  const heads = chosen(scene);
  const rows = queries.map((token, q) => [`${q} ${display(token)}`, ...heads.map(({ data }) => {
    let best = 0;
    for (let k = 1; k < keys.length; k += 1) if (data[q * keys.length + k] > data[q * keys.length + best]) best = k;
    return `${best} ${display(keys[best])} ${data[q * keys.length + best].toFixed(4)}`;
  })]);
  return tableOf(["looks", ...heads.map(({ head }) => `head ${head}`)], rows, `${scene.map.label}: what each token looks at most`);
}
