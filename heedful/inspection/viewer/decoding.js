/** What was written, token by token: what each step looked at, other tokens that it could have written, and the beam's tree. */

import { beamTree } from "heedful/beam.js";
import { bar } from "heedful/chart.js";
import { css, ramp, standingOut } from "heedful/colour.js";
import { asTable, element, labelled, tableOf } from "heedful/dom.js";
import { fitting } from "heedful/looking.js";
import { at, display, matrixOf } from "heedful/record.js";
import { written } from "heedful/strips.js";

const PAUSE = 900;

export const view = {
  id: "decoding",
  title: "Decoding",
  help:
    "Each step writes one token. Tokens are shaded by the weights of the chosen attention at that step, the " +
    "strongest in full colour; the bars are the probabilities of the written token and of the best others. " +
    "Log-probabilities are in nats; their sum is what a beam compares, divided by length if a penalty is set. In the " +
    "tree a column is a step, and a path from left to right is a text.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head", "ramp"]),
  available: (record) => record.written.length > 0,
  show,
};

/** The map whose weights are shown, of those whose queries are steps. */
function mapOf(record, app) {
  return fitting(record, app, (map) => map.role !== "encoder" && map.queryAxis.tokens.length === record.written.length);
}

function show(host, record, app) {
  const last = record.written.length - 1;
  const state = { step: 0, timer: 0, turn: 0 };
  const readout = element("output", { class: "readout" });
  const tree = record.tree.length > 1 ? beamTree(record, (text) => (readout.textContent = text)) : null;
  const slider = element("input", { type: "range", min: 1, max: last + 1, value: 1, oninput: () => go(Number(slider.value) - 1) });
  const progress = element("span", { class: "soft" });
  const button = (text, act) => element("button", { type: "button", onclick: act }, text);
  const play = button("Play", () => (state.timer ? pause() : start()));
  const back = button("Step back", () => go(state.step - 1));
  const forth = button("Step", () => go(state.step + 1));
  const stage = element("div", { class: "decoding" });
  host.append(
    element("div", { class: "controls keep" }, play, back, forth, labelled("Step", slider), progress),
    stage,
    asTable(() => tableOf(["step", "token", "probability", "log-probability", "sum", "alternatives"], rowsOf(record))),
    tree ? element("div", {}, tree.node, readout) : element("p", { class: "soft" }, "There is no tree, because no beam search chose this text."),
  );

  function pause() {
    clearInterval(state.timer);
    state.timer = 0;
    play.textContent = "Play";
  }
  function start() {
    play.textContent = "Pause";
    if (state.step === last) go(0);
    state.timer = setInterval(() => (state.step === last ? pause() : go(state.step + 1, true)), PAUSE);
  }
  function go(step, playing = false) {
    if (!playing && state.timer) pause();
    const found = mapOf(record, app);
    const wanted = Math.max(0, Math.min(last, step));
    if (found && found.map === record.maps[app.get().map]) app.set({ query: wanted });
    state.step = wanted;
    draw();
  }
  async function draw() {
    const turn = ++state.turn;
    slider.value = state.step + 1;
    slider.setAttribute("aria-valuetext", `step ${state.step + 1}: ${display(record.written[state.step].token)}`);
    progress.textContent = `${state.step + 1} of ${last + 1}`;
    back.disabled = state.step === 0;
    forth.disabled = state.step === last;
    const found = mapOf(record, app);
    const weights = found && (await matrixOf(found.map, found.head));
    if (turn !== state.turn) return;
    const shade = ramp(app.ramp());
    const focused = stage.contains(document.activeElement);
    const looked = found && lookedAt(found, weights, state.step, shade);
    stage.replaceChildren(element("div", {}, prefix(record, state.step, go), looked), chances(record, state.step));
    if (focused) stage.querySelector("[aria-current]")?.focus();
    tree?.mark(state.step + 1);
  }

  const take = () => {
    const found = mapOf(record, app);
    const { map, query } = app.get();
    if (found && query !== null && found.map === record.maps[map]) state.step = query;
  };
  take();
  draw();
  const stop = app.subscribe(() => (take(), draw()));
  return () => {
    pause();
    state.turn = -Infinity;
    stop();
  };
}

function total(record, step) {
  return record.written.slice(0, step + 1).reduce((sum, each) => sum + each.log_probability, 0);
}

function rowsOf(record) {
  return record.written.map(({ token, log_probability: logp, alternatives }, i) => [
    i + 1, display(token), written(Math.exp(logp), 4), written(logp, 4), written(total(record, i), 4),
    alternatives.map(([other, each]) => `${display(other)} ${written(Math.exp(each), 3)}`).join(", "),
  ]);
}

/** All tokens; those still to come are faint, and each can be chosen. */
function prefix(record, step, go) {
  const tokens = record.written.map(({ token }, i) =>
    element("button", {
      type: "button",
      class: i < step ? "word" : i === step ? "word is-now" : "word is-later",
      "aria-current": i === step ? "step" : null,
      "aria-label": `step ${i + 1}: ${display(token)}`,
      "data-step": i,
      onclick: () => go(i),
    }, display(token)),
  );
  return element("section", { class: "decoding-text" }, element("h2", {}, "Written"), element("div", { class: "words" }, tokens));
}

/** What the step looked at; the strongest weight has the strongest colour, since means of many heads are small. */
export function lookedAt({ map, head }, weights, step, shade) {
  const row = map.keyAxis.tokens.map((_, k) => at(weights, step, k));
  const most = Math.max(...row);
  const tokens = map.keyAxis.tokens.map((token, k) => {
    const weight = row[k];
    const colour = shade(most > 0 ? weight / most : 0);
    const style = { background: css(colour), color: standingOut(colour) };
    return element("span", { class: "word looked-at", style, title: `${display(token)}: ${written(weight, 4)}`, "data-weight": weight }, display(token));
  });
  const who = head === "mean" ? (map.heads.length > 1 ? "mean of its heads" : "its only head") : `head ${head}`;
  return element(
    "section",
    { class: "decoding-source" },
    element("h2", {}, "Looked at"),
    element("div", { class: "words", tabindex: 0, role: "region", "aria-label": `Tokens of ${map.keyAxis.name}, shaded by weight` }, tokens),
    element("p", { class: "soft small" }, `${map.keyAxis.name}, by ${map.label}, ${who}; the strongest weight is ${written(most, 3)}`),
  );
}

/** The written token and the others that could have been. */
function chances(record, step) {
  const { token, log_probability: logp, alternatives } = record.written[step];
  const listed = alternatives.some(([other]) => other === token) ? alternatives : [[token, logp], ...alternatives];
  const rows = listed.map(([other, each]) =>
    element(
      "tr",
      { class: other === token ? "is-written" : "" },
      element("th", { scope: "row" }, display(other)),
      element("td", {}, bar(Math.exp(each), written(Math.exp(each), 3), other === token ? "of-written" : "")),
      element("td", { class: "number" }, written(each, 3)),
    ),
  );
  const sum = total(record, step);
  return element(
    "section",
    { class: "decoding-chances" },
    element("h2", {}, `Step ${step + 1}`),
    element("table", { class: "bars" },
      element("thead", {}, element("tr", {}, ["Token", "Probability", "Log-probability"].map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows)),
    element("p", { class: "soft small" }, `Log-probability of the text up to here: ${written(sum, 3)} nats (${written(sum / (step + 1), 3)} for each token).`),
  );
}
