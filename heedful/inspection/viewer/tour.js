/** A guided tour for teachers: what happens to one word, one view after the other. The page is left as it was. */

import { element } from "heedful/dom.js";
import { display, shortened } from "heedful/record.js";
import { followed, stopsOf } from "heedful/stops.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */

/**
 * @param {Inspection} record
 * @param {App} app
 * @param {HTMLElement} panel where views are shown
 * @returns {HTMLElement} the button that begins it
 */
export function tourButton(record, app, panel) {
  const button = element("button", { type: "button", class: "begin-tour", onclick: () => begin() }, "Guided tour");
  /** @type {(() => void) | null} */ let end = null;
  const begin = () => {
    if (end) return;
    end = tour(record, app, panel, () => {
      end = null;
      button.focus();
    });
  };
  return button;
}

/**
 * @param {Inspection} record
 * @param {App} app
 * @param {HTMLElement} panel
 * @param {() => void} ended
 */
function tour(record, app, panel, ended) {
  const axis = followed(record);
  const explained = () => /** @type {HTMLDetailsElement | null} */ (panel.querySelector("details.help"));
  const before = { state: app.get(), spot: app.spot(), scroll: scrollY, explained: explained()?.open ?? false };
  const state = { place: firstWord(axis, app.get().query), at: 0, turn: 0, leaving: false };
  /** @type {import("heedful/stops.js").Stop[]} */ let stops = [];
  let pressed = true;

  const which = element("select", { "aria-label": "Word", onchange: () => {
    state.place = Number(which.value);
    follow();
  } }, axis?.tokens.map((token, i) => element("option", { value: i }, shortened(display(token), 24))));
  which.value = String(state.place);
  const heading = element("h2", { id: "tour-title" }, axis ? ["What happens to ", which] : "What happens");
  const progress = element("span", { class: "soft" });
  const title = element("h3", {});
  const words = element("p", {});
  const button = (/** @type {string} */ text, /** @type {() => void} */ act) => element("button", { type: "button", onclick: act }, text);
  const back = button("Previous", () => go(state.at - 1));
  const next = button("Next", () => go(state.at + 1));
  const end = button("End the tour", leave);
  const card = element("section", { class: "tour no-print", role: "region", "aria-labelledby": "tour-title" },
    element("div", { class: "tour-head" }, heading, progress),
    element("div", { class: "tour-words", role: "status", "aria-live": "polite", tabindex: 0 }, title, words),
    element("div", { class: "group" }, back, next, end));

  const observer = new MutationObserver(() => mark());
  /** Points out what the stop is about as soon as its view has drawn it; views may draw again. */
  function mark() {
    const stop = stops[state.at];
    if (!stop || state.leaving) return;
    if (!pressed && stop.press) {
      const target = panel.querySelector(stop.press);
      if (target) {
        pressed = true;
        target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      }
    }
    const found = stop.mark ? panel.querySelector(stop.mark) : null;
    for (const each of panel.querySelectorAll(".tour-mark")) if (each !== found) each.classList.remove("tour-mark");
    if (!found || found.classList.contains("tour-mark")) return;
    found.classList.add("tour-mark");
    reveal(found);
    whenDrawn(/** @type {string} */ (stop.mark), reveal); // pictures grow when their numbers are unpacked
  }
  /** Into the part of the window that the card leaves free. @param {Element} found */
  function reveal(found) {
    const box = found.getBoundingClientRect();
    const room = innerHeight - card.offsetHeight - 40;
    if (box.top < 10 || box.bottom > room) scrollBy({ top: box.top - Math.max(20, (room - box.height) / 2) });
  }
  function go(/** @type {number} */ to) {
    if (to < 0 || to >= stops.length) return;
    state.at = to;
    const stop = stops[to];
    pressed = false;
    progress.textContent = `${to + 1} of ${stops.length}`;
    title.textContent = stop.title;
    words.textContent = stop.words;
    back.disabled = to === 0;
    if (to === stops.length - 1 && document.activeElement === next) end.focus();
    next.disabled = to === stops.length - 1;
    panel.querySelectorAll(".tour-mark").forEach((each) => each.classList.remove("tour-mark"));
    app.set({ query: null, ...stop.state });
    app.point(stop.spot ?? null);
    document.documentElement.style.setProperty("--tour", `${card.offsetHeight + 30}px`);
    if (!stop.mark && !stop.spot) return;
    if (stop.spot) whenDrawn(".scroller", reveal);
    mark();
  }
  function whenDrawn(/** @type {string} */ selector, /** @type {(found: Element) => void} */ act) {
    const at = state.at;
    setTimeout(() => {
      const found = panel.querySelector(selector);
      if (found && at === state.at && !state.leaving) act(found);
    }, 120);
  }
  async function follow() {
    const turn = ++state.turn;
    const found = await stopsOf(record, state.place);
    if (turn !== state.turn || state.leaving) return;
    stops = found;
    if (stops.length === 0) words.textContent = "This record contains nothing that the tour can follow.";
    go(Math.min(state.at, stops.length - 1));
  }
  function onkey(/** @type {KeyboardEvent} */ event) {
    const inside = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || inside) return;
    if (event.key === "ArrowRight") go(state.at + 1);
    else if (event.key === "ArrowLeft") go(state.at - 1);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  }
  function leave() {
    state.leaving = true;
    observer.disconnect();
    removeEventListener("keydown", onkey);
    card.remove();
    document.documentElement.style.removeProperty("--tour");
    panel.querySelectorAll(".tour-mark").forEach((each) => each.classList.remove("tour-mark"));
    const { view, map, head, query } = before.state;
    app.set({ view, map, head, query });
    app.point(before.spot);
    delete document.documentElement.dataset.touring;
    explained()?.toggleAttribute("open", before.explained);
    scrollTo({ top: before.scroll });
    ended();
  }

  document.documentElement.dataset.touring = "true";
  observer.observe(panel, { childList: true, subtree: true });
  addEventListener("keydown", onkey);
  panel.parentElement?.append(card);
  next.focus({ preventScroll: true });
  follow();
  return leave;
}

/**
 * The token that is chosen, else the longest word that is not a special token.
 * @param {import("heedful/record.js").Axis | null} axis
 * @param {number | null} chosen
 */
function firstWord(axis, chosen) {
  const tokens = axis?.tokens ?? [];
  if (chosen !== null && chosen < tokens.length) return chosen;
  const length = (/** @type {string} */ token) => (/^[<[]/.test(token) ? 0 : [...token].length);
  return tokens.reduce((best, token, i) => (length(token) > length(tokens[best]) ? i : best), 0);
}
