/** Show the answers of a model that generates no text: candidates for hidden tokens, tags, classes, answer spans. */

import { findMax, getVector } from "heedful/arrays.js";
import { createBar } from "heedful/charts.js";
import { getRamp } from "heedful/colour.js";
import { createWeightsSection } from "heedful/decoding_view.js";
import { createElement, createTable, createTableToggle } from "heedful/dom.js";
import { formatNumber, formatToken } from "heedful/formatting.js";
import { loadHeadWeights } from "heedful/record.js";
import { createWordRegion, getColourStyle } from "heedful/shaded_text.js";
import { selectMap } from "heedful/step_selection.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { InspectionRecord, ModelAnswer } from "heedful/record.js" */
/** @import { GetColour } from "heedful/shaded_text.js" */
/** @import { Store } from "heedful/store.js" */

/** @type {PageView} */
export const answersView = {
  id: "answers",
  title: "Answers",
  help:
    "This view shows what the model predicts for the text: candidates for a hidden token, the tag of a word, the class " +
    "of the whole text, or where an answer begins and ends. Choose a marked token to see its candidates and what it " +
    "attends to. If the candidates are tokens of the text, they are shaded by their probability; the most probable " +
    "one has the full colour.",
  isAvailable: (record) => record.answers.length > 0,
  show,
};

/**
 * Select the encoder map whose weights are shown.
 * @param {InspectionRecord} record
 * @param {Store} store
 */
function selectEncoderMap(record, store) {
  return selectMap(record, store, ({ role }) => role === "encoder");
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  const { answers } = record;
  const state = { selected: 0, turn: 0 };
  const createButton = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
    createElement("button", { type: "button", onclick }, text);
  const previous = createButton("Previous", () => selectAnswer(state.selected - 1));
  const next = createButton("Next", () => selectAnswer(state.selected + 1));
  const progress = createElement("span", { class: "soft" });
  const stage = createElement("div", { class: "decoding" });
  host.append(
    createElement("div", { class: "controls keep" }, previous, next, progress),
    stage,
    createTableToggle(() => createTable(["question", "token", "answer", "probability", "other answers"], answers.map(buildTableRow))),
  );

  function selectAnswer(/** @type {number} */ number) {
    state.selected = Math.max(0, Math.min(answers.length - 1, number));
    const { place } = answers[state.selected];
    if (place !== null && selectEncoderMap(record, store)?.map === record.maps[store.get().map]) store.set({ query: place });
    draw();
  }
  async function draw() {
    const turn = ++state.turn;
    const { place } = answers[state.selected];
    progress.textContent = `${state.selected + 1} of ${answers.length}`;
    previous.disabled = state.selected === 0;
    next.disabled = state.selected === answers.length - 1;
    const getColour = getRamp(store.getRampName());
    const selection = place === null ? null : selectEncoderMap(record, store);
    const weights = selection && getVector(await loadHeadWeights(selection.map, selection.head), place ?? 0);
    if (turn !== state.turn) return;
    const hasFocus = stage.contains(document.activeElement);
    stage.replaceChildren(
      createElement("div", {},
        createTextSection(record, state.selected, { getColour, selectAnswer }),
        selection && weights && createWeightsSection(selection, weights, getColour)),
      createOptionsSection(answers[state.selected]),
    );
    const current = stage.querySelector("[aria-current]");
    if (hasFocus && current instanceof HTMLElement) current.focus();
  }
  function followQuery() {
    const { query, map } = store.get();
    if (query === null || selectEncoderMap(record, store)?.map !== record.maps[map]) return;
    const number = answers.findIndex(({ place }) => place === query);
    if (number >= 0) state.selected = number;
  }

  followQuery();
  draw();
  const unsubscribe = store.subscribe(() => {
    followQuery();
    draw();
  });
  return () => {
    state.turn = -Infinity;
    unsubscribe();
  };
}

/**
 * @param {ModelAnswer} answer
 * @returns {(string | number)[]}
 */
function buildTableRow(answer) {
  const [first, ...others] = answer.options;
  return [
    answer.about,
    answer.subject && formatToken(answer.subject),
    answer.number === null ? formatToken(first[0]) : formatNumber(answer.number, 4),
    first ? formatNumber(first[1], 4) : "",
    others.map(([name, probability]) => `${formatToken(name)} ${formatNumber(probability, 3)}`).join(", "),
  ];
}

/**
 * Create the text with a button for each token that has an answer, and buttons for the answers about the whole text.
 * @param {InspectionRecord} record
 * @param {number} selected
 * @param {{getColour: GetColour, selectAnswer: (number: number) => void}} options
 */
function createTextSection(record, selected, { getColour, selectAnswer }) {
  const { answers } = record;
  const probabilities = new Map(answers[selected].options.map(([, probability, place]) => [place, probability]));
  probabilities.delete(null);
  const largest = findMax(probabilities.values());
  const text = record.axes.find(({ name }) => name === "source") ?? record.axes[0];
  const createToken = (/** @type {string} */ token, /** @type {number} */ place) => {
    const number = answers.findIndex((answer) => answer.place === place);
    if (number >= 0) return createAnswerButton(number, formatToken(token));
    const probability = probabilities.get(place);
    if (probability === undefined) return createElement("span", { class: "word" }, formatToken(token));
    return createElement("span", {
      class: largest === 0 ? "word" : "word shaded",
      style: largest === 0 ? {} : getColourStyle(getColour(probability / largest)),
      title: `${formatToken(token)}: ${formatNumber(probability, 4)}`,
      "data-probability": probability,
    }, formatToken(token));
  };
  const wholeText = answers.flatMap((answer, i) => (answer.place === null ? [createAnswerButton(i, answer.about)] : []));
  return createElement(
    "section",
    { class: "decoding-text" },
    wholeText.length > 0 && [createElement("h2", {}, "About the whole text"), createElement("div", { class: "words" }, wholeText)],
    createElement("h2", {}, "Text"),
    createWordRegion("Tokens of the text", text.tokens.map(createToken)),
  );

  function createAnswerButton(/** @type {number} */ number, /** @type {string} */ name) {
    const isSelected = number === selected;
    const { about, subject } = answers[number];
    return createElement("button", {
      type: "button",
      class: isSelected ? "word is-current" : "word has-answer",
      "aria-current": isSelected ? "true" : null,
      "aria-label": `${about}: ${subject ? formatToken(subject) : name}`,
      "data-answer": number,
      onclick: () => selectAnswer(number),
    }, name);
  }
}

/**
 * Create a list of the possible answers with their probabilities.
 * @param {ModelAnswer} answer
 */
function createOptionsSection({ about, subject, number, options }) {
  const heading = createElement("h2", {}, subject ? `${about}: ${formatToken(subject)}` : about);
  if (number !== null) return createElement("section", { class: "decoding-options" }, heading, createElement("p", {}, formatNumber(number, 4)));
  const rows = options.map(([name, probability], i) =>
    createElement(
      "tr",
      { class: i === 0 ? "is-written" : "" },
      createElement("th", { scope: "row", title: formatToken(name) }, formatToken(name)),
      createElement("td", {}, createBar(probability, formatNumber(probability, 3), i === 0 ? "of-written" : "")),
    ),
  );
  const header = ["Answer", "Probability"].map((text) => createElement("th", { scope: "col" }, text));
  return createElement(
    "section",
    { class: "decoding-options" },
    heading,
    createElement("table", { class: "bars" }, createElement("thead", {}, createElement("tr", {}, header)), createElement("tbody", {}, rows)),
  );
}
