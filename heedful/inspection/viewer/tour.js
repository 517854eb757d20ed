/** Create a guided tour, which follows one word through the views of the page and leaves the page as it was. */

import { createElement } from "heedful/dom.js";
import { formatToken, shortenText } from "heedful/formatting.js";
import { findTourAxis, loadStops } from "heedful/tour_stops.js";

/** @import { InspectionRecord, MapAxis } from "heedful/record.js" */
/** @import { Store } from "heedful/store.js" */
/** @import { TourStop } from "heedful/tour_stops.js" */

const DRAWING_DELAY = 120; // milliseconds until a view has drawn itself

/**
 * Create the button that starts the tour.
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {HTMLElement} panel that shows the views
 * @returns {HTMLElement}
 */
export function createTourButton(record, store, panel) {
  let isRunning = false;
  const button = createElement("button", { type: "button", class: "begin-tour", onclick: () => {
    if (isRunning) return;
    isRunning = true;
    startTour(record, store, panel, () => {
      isRunning = false;
      button.focus();
    });
  } }, "Guided tour");
  return button;
}

/**
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {HTMLElement} panel
 * @param {() => void} onEnd
 */
function startTour(record, store, panel, onEnd) {
  const axis = findTourAxis(record);
  const getExplanation = () => /** @type {HTMLDetailsElement | null} */ (panel.querySelector("details.help"));
  const before = { state: store.get(), highlight: store.getHighlight(), scroll: scrollY, isExplained: getExplanation()?.open ?? false };
  const tour = { place: selectWord(axis, store.get().query), index: 0, turn: 0, isEnded: false, isPressed: true };
  /** @type {TourStop[]} */ let stops = [];

  const wordSelect = createElement("select", { "aria-label": "Word", onchange: () => {
    tour.place = Number(wordSelect.value);
    loadTour();
  } }, axis?.tokens.map((token, i) => createElement("option", { value: i }, shortenText(formatToken(token), 24))));
  wordSelect.value = String(tour.place);
  const heading = createElement("h2", { id: "tour-title" }, axis ? ["What happens to ", wordSelect] : "What happens");
  const progress = createElement("span", { class: "soft" });
  const title = createElement("h3", {});
  const text = createElement("p", {});
  const createButton = (/** @type {string} */ name, /** @type {() => void} */ onclick) => createElement("button", { type: "button", onclick }, name);
  const previous = createButton("Previous", () => goToStop(tour.index - 1));
  const next = createButton("Next", () => goToStop(tour.index + 1));
  const end = createButton("End the tour", endTour);
  const card = createElement("section", { class: "tour no-print", role: "region", "aria-labelledby": "tour-title" },
    createElement("div", { class: "tour-head" }, heading, progress),
    createElement("div", { class: "tour-words", role: "status", "aria-live": "polite", tabindex: 0 }, title, text),
    createElement("div", { class: "group" }, previous, next, end));

  const observer = new MutationObserver(() => markStop());
  /** Mark the element of the stop when its view has drawn it. Views may draw again. */
  function markStop() {
    const stop = stops[tour.index];
    if (!stop || tour.isEnded) return;
    const target = !tour.isPressed && stop.press ? panel.querySelector(stop.press) : null;
    if (target) {
      tour.isPressed = true;
      target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    }
    const marked = stop.mark ? panel.querySelector(stop.mark) : null;
    removeMarks(marked);
    if (!stop.mark || !marked || marked.classList.contains("tour-mark")) return;
    marked.classList.add("tour-mark");
    scrollIntoRoom(marked);
    runWhenDrawn(stop.mark, scrollIntoRoom); // pictures grow when their numbers are unpacked
  }
  /** @param {Element | null} [kept] an element that keeps its mark */
  function removeMarks(kept) {
    for (const each of panel.querySelectorAll(".tour-mark")) if (each !== kept) each.classList.remove("tour-mark");
  }
  /**
   * Scroll an element into the part of the window that the card does not cover.
   * @param {Element} element
   */
  function scrollIntoRoom(element) {
    const box = element.getBoundingClientRect();
    const room = innerHeight - card.offsetHeight - 40;
    if (box.top < 10 || box.bottom > room) scrollBy({ top: box.top - Math.max(20, (room - box.height) / 2) });
  }
  /** @param {number} index */
  function goToStop(index) {
    if (index < 0 || index >= stops.length) return;
    const stop = stops[index];
    tour.index = index;
    tour.isPressed = false;
    progress.textContent = `${index + 1} of ${stops.length}`;
    title.textContent = stop.title;
    text.textContent = stop.text;
    previous.disabled = index === 0;
    if (index === stops.length - 1 && document.activeElement === next) end.focus();
    next.disabled = index === stops.length - 1;
    removeMarks();
    store.set({ query: null, ...stop.state });
    store.setHighlight(stop.highlight ?? null);
    document.documentElement.style.setProperty("--tour", `${card.offsetHeight + 30}px`);
    if (stop.highlight) runWhenDrawn(".scroller", scrollIntoRoom);
    if (stop.mark || stop.highlight) markStop();
  }
  /**
   * @param {string} selector
   * @param {(element: Element) => void} action
   */
  function runWhenDrawn(selector, action) {
    const { index } = tour;
    setTimeout(() => {
      const element = panel.querySelector(selector);
      if (element && index === tour.index && !tour.isEnded) action(element);
    }, DRAWING_DELAY);
  }
  async function loadTour() {
    const turn = ++tour.turn;
    const loaded = await loadStops(record, tour.place);
    if (turn !== tour.turn || tour.isEnded) return;
    stops = loaded;
    if (stops.length === 0) text.textContent = "This record contains nothing that the tour can show.";
    goToStop(Math.min(tour.index, stops.length - 1));
  }
  /** @param {KeyboardEvent} event */
  function handleKey(event) {
    const isControl = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isControl) return;
    if (event.key === "ArrowRight") goToStop(tour.index + 1);
    else if (event.key === "ArrowLeft") goToStop(tour.index - 1);
    else if (event.key === "Escape") endTour();
    else return;
    event.preventDefault();
  }
  function endTour() {
    tour.isEnded = true;
    observer.disconnect();
    removeEventListener("keydown", handleKey);
    card.remove();
    document.documentElement.style.removeProperty("--tour");
    removeMarks();
    const { view, map, head, query } = before.state;
    store.set({ view, map, head, query });
    store.setHighlight(before.highlight);
    delete document.documentElement.dataset.touring;
    getExplanation()?.toggleAttribute("open", before.isExplained);
    scrollTo({ top: before.scroll });
    onEnd();
  }

  document.documentElement.dataset.touring = "true";
  observer.observe(panel, { childList: true, subtree: true });
  addEventListener("keydown", handleKey);
  panel.parentElement?.append(card);
  next.focus({ preventScroll: true });
  loadTour();
}

/**
 * Return the position of the selected token, or else of the longest word that is not a special token.
 * @param {MapAxis | null} axis
 * @param {number | null} selected
 */
function selectWord(axis, selected) {
  const tokens = axis?.tokens ?? [];
  if (selected !== null && selected < tokens.length) return selected;
  const measure = (/** @type {string} */ token) => (/^[<[]/.test(token) ? 0 : [...token].length);
  return tokens.reduce((best, token, i) => (measure(token) > measure(tokens[best]) ? i : best), 0);
}
