/** What a model that does not write predicts for a text: candidates for hidden tokens, tags, classes, where an answer is. */

import { bar } from "heedful/chart.js";
import { css, ramp, standingOut } from "heedful/colour.js";
import { lookedAt } from "heedful/decoding.js";
import { asTable, element, tableOf } from "heedful/dom.js";
import { fitting } from "heedful/looking.js";
import { display, matrixOf } from "heedful/record.js";
import { written } from "heedful/strips.js";

export const view = {
  id: "answers",
  title: "Answers",
  help:
    "What the model predicts for the text: the candidates for a hidden token, the tags of a word, the class of the " +
    "whole text, or where an answer begins and ends. Choose a marked token to see its candidates and what it looks " +
    "at in the chosen attention. Where the candidates are tokens of the text itself, these are shaded by their " +
    "probability, the most probable in full colour.",
  chooses: /** @type {("map" | "head" | "ramp")[]} */ (["map", "head", "ramp"]),
  available: (record) => record.answers.length > 0,
  show,
};

/** The map of the encoder whose weights are shown. */
function mapOf(record, app) {
  return fitting(record, app, ({ role }) => role === "encoder");
}

function show(host, record, app) {
  const { answers } = record;
  const state = { chosen: 0, turn: 0 };
  const button = (text, act) => element("button", { type: "button", onclick: act }, text);
  const back = button("Back", () => go(state.chosen - 1));
  const forth = button("Next", () => go(state.chosen + 1));
  const progress = element("span", { class: "soft" });
  const stage = element("div", { class: "decoding" });
  host.append(
    element("div", { class: "controls keep" }, back, forth, progress),
    stage,
    asTable(() => tableOf(["asked", "of", "answer", "probability", "others"], answers.map(rowOf))),
  );

  function go(number) {
    state.chosen = Math.max(0, Math.min(answers.length - 1, number));
    const { place } = answers[state.chosen];
    if (place !== null && mapOf(record, app)?.map === record.maps[app.get().map]) app.set({ query: place });
    draw();
  }
  async function draw() {
    const turn = ++state.turn;
    const answer = answers[state.chosen];
    progress.textContent = `${state.chosen + 1} of ${answers.length}`;
    back.disabled = state.chosen === 0;
    forth.disabled = state.chosen === answers.length - 1;
    const found = answer.place === null ? null : mapOf(record, app);
    const weights = found && (await matrixOf(found.map, found.head));
    if (turn !== state.turn) return;
    const shade = ramp(app.ramp());
    const focused = stage.contains(document.activeElement);
    stage.replaceChildren(
      element("div", {}, textOf(record, state.chosen, { shade, go }), found && lookedAt(found, weights, answer.place, shade)),
      saidOf(answer),
    );
    if (focused) stage.querySelector("[aria-current]")?.focus();
  }

  const take = () => {
    const { query, map } = app.get();
    const asked = mapOf(record, app)?.map === record.maps[map] ? answers.findIndex(({ place }) => place !== null && place === query) : -1;
    if (asked >= 0) state.chosen = asked;
  };
  take();
  draw();
  const stop = app.subscribe(() => (take(), draw()));
  return () => {
    state.turn = -Infinity;
    stop();
  };
}

/** The answer, in one word or number. */
function nameOf({ number, options }) {
  return number === null ? display(options[0][0]) : written(number, 4);
}

function rowOf(answer) {
  const [first, ...others] = answer.options;
  return [
    answer.about, answer.subject && display(answer.subject), nameOf(answer), first ? written(first[1], 4) : "",
    others.map(([name, chance]) => `${display(name)} ${written(chance, 3)}`).join(", "),
  ];
}

/** The text, whose tokens can be chosen where they have answers, and buttons for the answers about the whole text. */
function textOf(record, chosen, { shade, go }) {
  const { answers } = record;
  const chances = new Map(answers[chosen].options.filter(([, , place]) => place !== null).map(([, chance, place]) => [place, chance]));
  const most = Math.max(0, ...chances.values());
  const text = record.axes.find(({ name }) => name === "source") ?? record.axes[0];
  const tokens = text.tokens.map((token, place) => {
    const asked = answers.findIndex((each) => each.place === place);
    if (asked >= 0) return choice(asked, display(token));
    const chance = chances.get(place);
    const colour = chance === undefined || most === 0 ? null : shade(chance / most);
    const style = colour ? { background: css(colour), color: standingOut(colour) } : {};
    const title = chance === undefined ? null : `${display(token)}: ${written(chance, 4)}`;
    return element("span", { class: colour ? "word looked-at" : "word", style, title, "data-chance": chance ?? null }, display(token));
  });
  const whole = answers.flatMap((each, i) => (each.place === null ? [choice(i, each.about)] : []));
  return element(
    "section",
    { class: "decoding-text" },
    whole.length > 0 && [element("h2", {}, "About the whole text"), element("div", { class: "words" }, whole)],
    element("h2", {}, "Text"),
    element("div", { class: "words", tabindex: 0, role: "region", "aria-label": "Tokens of the text" }, tokens),
  );

  function choice(number, words) {
    const now = number === chosen;
    return element("button", {
      type: "button",
      class: now ? "word is-now" : "word is-asked",
      "aria-current": now ? "true" : null,
      "aria-label": `${answers[number].about}: ${answers[number].subject ? display(answers[number].subject) : words}`,
      "data-answer": number,
      onclick: () => go(number),
    }, words);
  }
}

/** The options of one answer with their probabilities. */
function saidOf({ about, subject, number, options }) {
  const heading = element("h2", {}, subject ? `${about}: ${display(subject)}` : about);
  if (number !== null) return element("section", { class: "decoding-chances" }, heading, element("p", {}, written(number, 4)));
  const rows = options.map(([name, chance], i) =>
    element(
      "tr",
      { class: i === 0 ? "is-written" : "" },
      element("th", { scope: "row", title: display(name) }, display(name)),
      element("td", {}, bar(chance, written(chance, 3), i === 0 ? "of-written" : "")),
    ),
  );
  return element(
    "section",
    { class: "decoding-chances" },
    heading,
    element("table", { class: "bars" },
      element("thead", {}, element("tr", {}, ["Answer", "Probability"].map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows)),
  );
}
