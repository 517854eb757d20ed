/** What mattered, by gradients, next to what was looked at. */

import { unpack } from "heedful/arrays.js";
import { tokenRow } from "heedful/choosing.js";
import { css, ramp, signed, standingOut } from "heedful/colour.js";
import { asTable, element, labelled, tableOf } from "heedful/dom.js";
import { gridOf } from "heedful/grid.js";
import { largestOf, shaded } from "heedful/looking.js";
import { at, display, matrixOf } from "heedful/record.js";
import { largest, stripKey, written } from "heedful/strips.js";

/** Share of a change that may be missing before the page warns. */
const MISSING = 0.05;
const METHODS = { gradient: "Gradient × input", integrated: "Integrated gradients" };

export const view = {
  id: "mattered",
  title: "What mattered",
  help:
    "Attention shows where the model looked; this view shows what counted for its answer. Each token has a score: " +
    "orange counts for the answer, blue against it. Scores are in nats of the answer's log-probability: 0.7 about " +
    "doubles the probability. Gradient × input measures how the answer changes with each word's vector at this " +
    "point; integrated gradients measure it on the whole way from no word to the word, and then the scores of a row " +
    "sum to what the words changed. A token may be looked at and not matter, or matter and not be looked at.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head", "ramp"]),
  available: (record) => record.attributions.length > 0,
  show,
};

function show(host, record, app) {
  const state = { chosen: 0, method: 0, turn: 0 };
  const readout = element("output", { class: "readout" }, "\u00a0");
  const tell = (text) => (readout.textContent = text);
  const [top, place] = [element("div", {}), element("div", {})];
  let row = /** @type {ReturnType<typeof tokenRow> | null} */ (null);
  const found = () => record.attributions[state.method];
  const methods = element("select", { onchange: () => ((state.method = Number(methods.value)), begin()) },
    record.attributions.map(({ method }, i) => element("option", { value: i }, METHODS[method])));
  host.append(...[
    record.attributions.length > 1 && element("div", { class: "controls" }, labelled("Method", methods)),
    top, place, readout, asTable(() => table(record, found())),
  ].filter(Boolean));

  function begin() {
    const { names, about } = found();
    state.chosen = Math.min(state.chosen, names.length - 1);
    row = tokenRow(names, { label: about === "written" ? "Written token" : "Answer", chosen: state.chosen, choose: go });
    top.replaceChildren(row.node);
    draw();
  }
  function go(chosen) {
    state.chosen = chosen;
    row?.mark(chosen);
    draw();
  }
  async function draw() {
    const turn = ++state.turn;
    const now = found();
    const [numbers, looked] = await Promise.all([unpack(now.scores), lookedOf(record, app, now, state.chosen)]);
    if (turn !== state.turn) return;
    const tokens = tokensOf(record, now.axes);
    const scores = tokens.map((_, k) => at(numbers, state.chosen, k));
    place.replaceChildren(
      element("div", { class: "mattered" }, scoredText(tokens, scores, app.dark()), looked && lookedText(looked, ramp(app.ramp()))),
      totals(now, state.chosen, scores),
      element("h2", {}, "For all answers"),
      ...matrix({ now, tokens, numbers, chosen: state.chosen, go, tell, dark: app.dark() }),
    );
  }

  begin();
  const stop = app.subscribe(draw);
  return () => {
    state.turn = -Infinity;
    stop();
  };
}

/** Tokens of several axes, one axis after another. */
function tokensOf(record, axes) {
  return axes.flatMap((name) => record.axis(name).tokens.map((token) => ({ axis: name, token })));
}

async function table(record, { names, axes, scores }) {
  const numbers = await unpack(scores);
  const tokens = tokensOf(record, axes).map(({ token }) => display(token));
  return tableOf(["for", ...tokens], names.map((name, i) => [display(name), ...tokens.map((_, k) => written(at(numbers, i, k), 3))]));
}

/** The text of each axis, every token in the colour of its score. */
function scoredText(tokens, scores, dark) {
  const most = largest(scores);
  const axes = [...new Set(tokens.map(({ axis }) => axis))];
  const word = ({ token }, k) => {
    const colour = signed(most ? scores[k] / most : 0, dark);
    const style = { background: css(colour), color: standingOut(colour) };
    return element("span", { class: "word looked-at", style, title: `${display(token)}: ${written(scores[k], 3)}`, "data-column": k, "data-score": scores[k] }, display(token));
  };
  const order = scores.map((_, k) => k).sort((one, two) => Math.abs(scores[two]) - Math.abs(scores[one])).slice(0, 4);
  return element("section", {}, element("h2", {}, "What mattered"),
    axes.map((axis) => [
      element("p", { class: "soft small" }, axis),
      element("div", { class: "words", tabindex: 0, role: "region", "aria-label": `Tokens of ${axis}, coloured by score` },
        tokens.map((token, k) => token.axis === axis && word(token, k))),
    ]),
    element("p", { class: "small" }, stripKey(most, dark), order.map((k) => `${display(tokens[k].token)} ${written(scores[k], 2)}`).join(", ")));
}

/** What the chosen attention looked at for the same answer; null where no attention fits. */
async function lookedOf(record, app, { about, places, axes }, chosen) {
  const wrote = about === "written";
  const place = wrote ? places[chosen] : record.answers[places[chosen]].place;
  const asks = wrote
    ? (map) => map.role !== "encoder" && map.queryAxis.tokens.length === record.written.length
    : (map) => map.role === "summary" || (place !== null && map.role === "encoder");
  const fits = (map) => asks(map) && axes.includes(map.keys);
  const { map: index, head } = app.get();
  const own = record.maps[index] && fits(record.maps[index]);
  const map = own ? record.maps[index] : record.maps.findLast((each) => fits(each) && each.role !== "decoder") ?? record.maps.findLast(fits);
  if (!map) return null;
  const weights = await matrixOf(map, own ? head : "mean");
  const query = map.role === "summary" ? 0 : place;
  return { map, head: own ? head : "mean", weights: map.keyAxis.tokens.map((_, k) => at(weights, query, k)) };
}

function lookedText({ map, head, weights }, shade) {
  const most = largestOf(weights);
  const words = map.keyAxis.tokens.map((token, k) =>
    element("span", { class: "word looked-at", style: shaded(shade, weights[k], most), title: `${display(token)}: ${written(weights[k], 4)}`, "data-weight": weights[k] }, display(token)));
  const who = head !== "mean" ? `head ${head}` : map.heads.length > 1 ? "mean of its heads" : "its only head";
  return element("section", {}, element("h2", {}, "What it looked at"),
    element("p", { class: "soft small" }, `${map.keyAxis.name}, by ${map.label}, ${who}`),
    element("div", { class: "words", tabindex: 0, role: "region", "aria-label": `Tokens of ${map.keyAxis.name}, shaded by weight` }, words),
    element("p", { class: "soft small" }, `The strongest weight is ${written(most, 3)}.`));
}

/** Where the numbers come from, and whether they are complete. */
function totals({ method, steps, unit, values, baselines, gaps }, chosen, scores) {
  const sum = written(scores.reduce((total, each) => total + each, 0), 3);
  const [value, named] = [written(values[chosen], 3), unit && ` ${unit}`];
  if (!baselines) return element("p", { class: "soft small" }, `${METHODS[method]}: the answer has ${value}${named}, and the scores sum to ${sum}.`);
  const change = values[chosen] - baselines[chosen];
  const far = Math.abs(gaps[chosen]) > MISSING * Math.max(1, Math.abs(change));
  return element("p", { class: far ? "banner" : "soft small" },
    `${METHODS[method]} in ${steps} steps: the answer has ${value}${named} with all words and ${written(baselines[chosen], 3)} without any. ` +
    `The words changed it by ${written(change, 3)}, and the scores sum to ${sum}: completeness lacks ${written(gaps[chosen], 3)}.` +
    (far ? " That is much: take more steps, unless this model chooses hard where it looks, which gradients cannot follow." : ""));
}

/** All rows at once. */
function matrix({ now, tokens, numbers, chosen, go, tell, dark }) {
  const most = largest(Array.from(numbers.data));
  const names = tokens.map(({ token }) => token);
  const grid = gridOf({
    rows: now.names,
    columns: names,
    colour: (i, k) => signed(most ? at(numbers, i, k) / most : 0, dark),
    say: (i, k) => `${display(names[k])} (${tokens[k].axis}) for ${display(now.names[i])}: ${written(at(numbers, i, k), 4)}`,
    tell, choose: go, chosen,
    label: "Scores of all tokens",
    width: Math.min(900, innerWidth - 180),
    largest: 30,
  });
  return [element("div", { class: "grid-scroll" }, grid), stripKey(most, dark)];
}
