/** Build the page: a tab for each view that the models of the server can fill. */

import { captionView } from "./caption_view.js";
import { chatView } from "./chat_view.js";
import { createField } from "./components.js";
import { createElement } from "./dom.js";
import { filesView } from "./files_view.js";
import { generateView } from "./generate_view.js";
import { lookView } from "./look_view.js";
import { apiKey, fetchServerInfo, RequestError } from "./requests.js";
import { searchView } from "./search_view.js";
import { storiesView } from "./stories_view.js";
import { answerView, classifyView, detectView, fillView, tagView } from "./text_views.js";
import { transcribeView } from "./transcribe_view.js";
import { translateView } from "./translate_view.js";

/** @import { ServerInfo } from "./requests.js" */

const VIEWS = [
  translateView, filesView, generateView, chatView, answerView, searchView, storiesView, captionView, lookView, transcribeView,
  fillView, detectView, classifyView, tagView,
];
/** Milliseconds until the next request to a server that is still loading its models. */
const RETRY_DELAY = 2000;
/** @type {Record<string, string>} */
const NEXT_THEME = { auto: "light", light: "dark", dark: "auto" };

const page = getElement("heedful");
addThemeButton();
startPage();

/** @param {string} id */
function getElement(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element ${id}`);
  return element;
}

/** Request what the server offers, and ask the user for a key if the server requires one. */
async function startPage() {
  try {
    showTabs(await fetchServerInfo());
  } catch (error) {
    const failure = error instanceof RequestError ? error : new RequestError(0, String(error));
    if (failure.status === 503) setTimeout(startPage, RETRY_DELAY);
    if (failure.status === 401 || failure.status === 403) askForKey(failure);
    else page.replaceChildren(createElement("p", { class: "banner", role: "alert" }, failure.message,
      " ", createElement("button", { type: "button", onclick: startPage }, "Try again")));
  }
  document.documentElement.dataset.ready = "true";
}

/** @param {ServerInfo} server */
function showTabs(server) {
  const views = VIEWS.filter((view) => view.isAvailable(server));
  getElement("serves").textContent = [...server.models.map(({ name }) => name), ...server.indices].join(" · ");
  if (!views.length) {
    page.replaceChildren(createElement("p", { class: "banner" }, "This server has no model that this page can show. ",
      createElement("a", { href: "/docs" }, "API reference")));
    return;
  }
  const panels = views.map((view) => createElement("section", {
    id: `panel-${view.id}`, role: "tabpanel", "aria-labelledby": `tab-${view.id}`, tabindex: "-1", hidden: true,
  }));
  const tabs = views.map((view) => createElement("button", {
    type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": `panel-${view.id}`, onclick: () => selectView(view.id),
  }, view.title));
  const list = createElement("div", { class: "tabs", role: "tablist", "aria-label": "Views", hidden: views.length < 2, onkeydown: moveFocus }, tabs);
  page.replaceChildren(list, ...panels);
  selectView(getLinkedView() ?? views[0].id);
  addEventListener("hashchange", () => {
    const id = getLinkedView();
    if (id) selectView(id);
  });

  /** Return the id of the view in the address. */
  function getLinkedView() {
    return views.find(({ id }) => id === location.hash.slice(1))?.id;
  }

  /** @param {KeyboardEvent} event */
  function moveFocus(event) {
    const now = tabs.findIndex((tab) => tab === document.activeElement);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const place = (next + tabs.length) % tabs.length;
    selectView(views[place].id);
    tabs[place].focus();
  }

  /** @param {string} id */
  function selectView(id) {
    for (const [place, view] of views.entries()) {
      const [tab, panel, isSelected] = [tabs[place], panels[place], view.id === id];
      tab.setAttribute("aria-selected", String(isSelected));
      tab.tabIndex = isSelected ? 0 : -1;
      panel.hidden = !isSelected;
      if (!isSelected) continue;
      if (!panel.childElementCount) {
        panel.append(createElement("p", { class: "about" }, view.about));
        view.show(panel, server);
      }
      tab.scrollIntoView({ block: "nearest", inline: "center" });
      document.title = `${view.title} · heedful`;
    }
    if (location.hash.slice(1) !== id) history.replaceState(null, "", `#${id}`);
  }
}

/** @param {RequestError} failure */
function askForKey(failure) {
  const input = createElement("input", { type: "password", autocomplete: "off", required: true, "aria-describedby": "why" });
  page.replaceChildren(createElement("form", {
    class: "request-form key",
    onsubmit: (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      apiKey.set(input.value.trim());
      startPage();
    },
  }, createElement("h2", {}, "This server needs a key"),
  createElement("p", { id: "why", role: apiKey.get() ? "alert" : false }, failure.message),
  createField("API key (stored until this tab is closed)", input),
  createElement("div", { class: "buttons" }, createElement("button", { type: "submit", class: "main" }, "Continue"))));
  input.focus();
}

/** Apply the theme that the user chose, by default the theme of the browser, and switch it by a button. */
function addThemeButton() {
  const button = getElement("theme");
  const root = document.documentElement;
  const setTheme = (/** @type {string} */ theme) => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    localStorage.setItem("heedful-theme", theme);
  };
  setTheme(localStorage.getItem("heedful-theme") ?? "auto");
  button.addEventListener("click", () => setTheme(NEXT_THEME[root.dataset.theme ?? ""] ?? "auto"));
}
