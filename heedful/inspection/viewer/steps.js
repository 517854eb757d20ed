/** One query, one head: every stage from its input to its output, with the numbers of this model. */

import { unpack } from "heedful/arrays.js";
import { tokenRow } from "heedful/choosing.js";
import { asTable, element, tableOf, tick } from "heedful/dom.js";
import { display } from "heedful/record.js";
import { embeddingCard, inputCard, outputCard, sumCard } from "heedful/stage_cards.js";
import { scoreTable, stageColumns } from "heedful/stage_table.js";
import { stagesOf } from "heedful/stages.js";
import { stripKey, written } from "heedful/strips.js";

/** Keys that are shown at first; more would make the page slow, and few readers need them. */
const MANY = 48;

export const view = {
  id: "steps",
  title: "Step by step",
  help:
    "One query token and one head, from the vector that comes in to the one that goes out. Read a row of the table " +
    "from left to right: how well this key answers the query, how position and mask change it, and which share of " +
    "the sum its value gets. Colours are numbers: orange above 0, blue below, stronger is larger; hover to read them.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head"]),
  available: (record) => record.maps.length > 0,
  show,
};

function show(host, record, app) {
  const readout = element("output", { class: "readout is-sticky", "aria-live": "off" });
  const tell = (text) => (readout.textContent = text);
  const place = element("div", { class: "stages" });
  const top = element("div", {});
  const state = { shown: Infinity, all: false, drawn: 0, count: 0 };
  host.append(top, readout, place);
  const which = element("span", { class: "soft" });
  let row = /** @type {ReturnType<typeof tokenRow> | null} */ (null);

  async function draw() {
    const turn = ++state.drawn;
    const { map: number, query } = app.get();
    const map = record.maps[number];
    if (!map.walk) {
      top.replaceChildren();
      place.replaceChildren(...howToGet(record, app));
      return;
    }
    const chosen = query ?? 0;
    const head = headOf(map, app);
    which.textContent = app.get().head === "mean" ? `Only one head at a time is shown: here head ${head}.` : "";
    const [stages, embedded] = await Promise.all([
      stagesOf(map, { head: map.heads.indexOf(head), query: chosen }),
      embeddedOf(record, map, chosen),
    ]);
    if (turn !== state.drawn) return;
    const seen = keysShown(stages, state.all);
    const about = { stages, embedded, map, head, query: chosen, dark: app.dark(), tell, seen };
    const cards = cardsOf(about);
    state.count = cards.count;
    place.replaceChildren(...cards.make(Math.min(state.shown, cards.count)));
  }

  function drawTop() {
    const map = record.maps[app.get().map];
    which.textContent = "";
    if (!map.walk) {
      draw();
      return;
    }
    const tokens = tokenRow(map.queryAxis.tokens, {
      label: "Query token",
      chosen: app.get().query ?? 0,
      choose: (query) => app.set({ query }),
    });
    row = tokens;
    const progress = element("span", { class: "soft", "aria-live": "polite" });
    const go = async (to) => {
      state.shown = to;
      await draw();
      const now = Math.min(to, state.count);
      progress.textContent = now >= state.count ? "all stages" : `${now} of ${state.count} stages`;
      back.disabled = now <= 1;
      next.disabled = now >= state.count;
    };
    const button = (text, act) => element("button", { type: "button", onclick: act }, text);
    const back = button("Previous", () => go(Math.min(state.shown, state.count) - 1));
    const next = button("Next", () => go(state.shown + 1 >= state.count ? Infinity : state.shown + 1));
    const controls = [button("First", () => go(1)), back, next, button("All", () => go(Infinity)), progress];
    const many = map.keyAxis.tokens.length > MANY && tick("all keys", state.all, (on) => ((state.all = on), draw()));
    const label = element("p", { class: "soft small" }, `Query: a token of “${map.queries}”, looking at “${map.keys}”`);
    top.replaceChildren(label, tokens.node, element("div", { class: "controls keep" }, controls, many, which));
    go(state.shown);
  }

  drawTop();
  const stop = app.subscribe((now, before) => {
    if (now.map !== before.map) drawTop();
    else {
      row?.mark(now.query ?? 0);
      draw();
    }
  });
  return () => {
    state.drawn = -Infinity;
    stop();
  };
}

function headOf(map, app) {
  const { head } = app.get();
  return head === "mean" ? map.heads[0] : head;
}

/** Numbers of the keys that get a row: all, or those with the largest weights. */
function keysShown({ weights }, all) {
  const places = weights.map((_, k) => k);
  if (all || places.length <= MANY) return places;
  return places.sort((a, b) => weights[b] - weights[a]).slice(0, MANY).sort((a, b) => a - b);
}

/** What was embedded at the position of this query, if this attention is the first to see it. */
async function embeddedOf(record, map, query) {
  if (map.layer !== 0 || map.role === "cross") return null;
  const found = record.embedded.find((each) => each.side === map.role);
  if (!found || record.axis(found.axis).tokens.length !== map.queryAxis.tokens.length) return null;
  const vector = async (packed) => {
    const { shape, data } = await unpack(packed);
    return Array.from(data.subarray(query * shape[1], (query + 1) * shape[1]));
  };
  return {
    token: record.axis(found.axis).tokens[query],
    words: await vector(found.words),
    places: found.places && (await vector(found.places)),
    segments: found.segments && (await vector(found.segments)),
  };
}

/** Cards of all stages; `make(n)` gives those of the first n stages. */
function cardsOf(about) {
  const { embedded, dark } = about;
  const first = embedded ? [embeddingCard] : [];
  const columns = stageColumns(about);
  const names = [...first, inputCard, ...columns, sumCard, outputCard];
  const make = (shown) => {
    const made = [];
    let number = 0;
    for (const card of [...first, inputCard]) if (++number <= shown) made.push(card(about, number));
    if (number < shown) made.push(scoreTable(about, columns, { from: number + 1, shown: shown - number }));
    number += columns.length;
    for (const card of [sumCard, outputCard]) if (++number <= shown) made.push(card(about, number));
    const note = element("p", { class: "soft small" }, stripKey(null, dark), "In each card the strongest colour is the largest number.");
    return [...made, note, asTable(() => numbersOf(about))];
  };
  return { count: names.length, make };
}

/** All numbers of the walk as tables. */
function numbersOf({ stages, map }) {
  const tokens = map.keyAxis.tokens.map(display);
  const { products, scaled, bias, scores, visible, weights } = stages;
  const rows = tokens.map((token, k) => [
    token, written(products[k], 4), written(scaled[k], 4), bias ? written(bias[k], 4) : "none", written(scores[k], 4),
    visible[k] ? "yes" : "no", written(weights[k], 4),
  ]);
  const vectors = { input: [stages.input], query: [stages.query], context: [stages.context], output: [stages.output] };
  const named = Object.entries({ ...vectors, key: stages.keys, value: stages.values });
  const numbers = named.flatMap(([name, group]) =>
    group.map((vector, k) => [group.length > 1 ? `${name} ${tokens[k]}` : name, vector.map((each) => written(each, 3)).join("  ")]),
  );
  return element(
    "div",
    {},
    tableOf(["key", "product", "scaled", "bias", "score", "visible", "weight"], rows, "Scores and weights"),
    tableOf(["vector", "numbers"], numbers, "Vectors"),
  );
}

function howToGet(record, app) {
  const walked = record.maps.map((map, i) => [map, i]).filter(([map]) => map.walk);
  const command = "heedful inspect RUN --text \"...\" --detail yes -o page.html";
  const words = walked.length
    ? "This record has no queries, keys and values of this attention, but it has those of:"
    : "This record has weights, but no queries, keys and values. Record them with";
  const links = walked.map(([map, i]) => element("button", { type: "button", onclick: () => app.set({ map: i }) }, map.label));
  return [
    element("p", {}, words),
    walked.length ? element("div", { class: "controls" }, links) : element("pre", { class: "command" }, command),
    element("p", { class: "soft" }, "If the record gets too large, take fewer layers: --detail yes --layers 0."),
  ];
}
