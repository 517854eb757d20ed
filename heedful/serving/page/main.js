/** The page: what is served decides which views there are. */

import { key, Refused, served } from "./asking.js";
import { element } from "./dom.js";
import { field } from "./parts.js";
import { view as translate } from "./translate.js";
import { view as files } from "./files.js";
import { view as generate } from "./generate.js";
import { view as chat } from "./chat.js";
import { view as caption } from "./caption.js";
import { view as look } from "./glimpses.js";
import { view as transcribe } from "./hearing.js";
import { answer, classify, detect, fill, tag } from "./reading.js";
import { search } from "./search.js";
import { view as stories } from "./stories.js";

/** @typedef {{id: string, title: string, about: string, there: (served: any) => boolean, show: (host: HTMLElement, served: any) => void}} View */

/** @type {View[]} */
const VIEWS = [translate, files, generate, chat, answer, search, stories, caption, look, transcribe, fill, detect, classify, tag];
const LATER = 2000;
/** Milliseconds until the next request to a server that is still loading its models. */
const NEXT = { auto: "light", light: "dark", dark: "auto" };

const page = /** @type {HTMLElement} */ (document.getElementById("heedful"));
themed();
begin();

/** Asks what is served, and for a key if the server requires one. */
async function begin() {
  try {
    shown(await served());
  } catch (error) {
    const refused = error instanceof Refused ? error : new Refused(0, String(error));
    if (refused.status === 503) setTimeout(begin, LATER);
    if (refused.status === 401 || refused.status === 403) askForKey(refused);
    else page.replaceChildren(element("p", { class: "banner", role: "alert" }, refused.message,
      " ", element("button", { type: "button", onclick: begin }, "Try again")));
  }
  document.documentElement.dataset.ready = "true";
}

/** @param {any} told */
function shown(told) {
  const views = VIEWS.filter((view) => view.there(told));
  const names = [...told.models.map((/** @type {any} */ each) => each.name), ...told.indices];
  /** @type {HTMLElement} */ (document.getElementById("serves")).textContent = names.join(" · ");
  if (!views.length) {
    page.replaceChildren(element("p", { class: "banner" }, "This server has no model that this page can show. ",
      element("a", { href: "/docs" }, "List of requests")));
    return;
  }
  const panels = new Map(views.map((view) => [view.id, element("section", {
    id: `panel-${view.id}`, role: "tabpanel", "aria-labelledby": `tab-${view.id}`, tabindex: "-1", hidden: true,
  })]));
  const tabs = views.map((view) => element("button", {
    type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": `panel-${view.id}`, onclick: () => choose(view.id),
  }, view.title));
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": "What models do", hidden: views.length < 2,
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      const now = tabs.indexOf(/** @type {any} */ (document.activeElement));
      const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const place = (next + tabs.length) % tabs.length;
      choose(views[place].id);
      tabs[place].focus();
    } }, tabs);
  page.replaceChildren(list, ...panels.values());
  const wanted = location.hash.slice(1);
  choose(panels.has(wanted) ? wanted : views[0].id);
  addEventListener("hashchange", () => panels.has(location.hash.slice(1)) && choose(location.hash.slice(1)));

  /** @param {string} id */
  function choose(id) {
    for (const [place, view] of views.entries()) {
      const panel = /** @type {HTMLElement} */ (panels.get(view.id));
      const mine = view.id === id;
      tabs[place].setAttribute("aria-selected", String(mine));
      tabs[place].tabIndex = mine ? 0 : -1;
      panel.hidden = !mine;
      if (mine && !panel.childElementCount) {
        panel.append(element("p", { class: "about" }, view.about));
        view.show(panel, told);
      }
      if (mine) tabs[place].scrollIntoView({ block: "nearest", inline: "center" });
    }
    document.title = `${views.find((view) => view.id === id)?.title} · heedful`;
    if (location.hash.slice(1) !== id) history.replaceState(null, "", `#${id}`);
  }
}

/** @param {Refused} refused */
function askForKey(refused) {
  const input = element("input", { type: "password", autocomplete: "off", required: true, "aria-describedby": "why" });
  page.replaceChildren(element("form", {
    class: "asking key",
    onsubmit: (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      key.set(input.value.trim());
      begin();
    },
  }, element("h2", {}, "This server needs a key"), element("p", { id: "why", role: key.get() ? "alert" : false }, refused.message),
  field("API key, which is kept until this tab is closed", input),
  element("div", { class: "acts" }, element("button", { type: "submit", class: "main" }, "Go on"))));
  input.focus();
}

/** The theme of the browser, unless the user chooses another. */
function themed() {
  const button = /** @type {HTMLElement} */ (document.getElementById("theme"));
  const root = document.documentElement;
  const set = (/** @type {string} */ theme) => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    localStorage.setItem("heedful-theme", theme);
  };
  set(localStorage.getItem("heedful-theme") ?? "auto");
  button.addEventListener("click", () => set(NEXT[/** @type {keyof typeof NEXT} */ (root.dataset.theme)] ?? "auto"));
}
