/** Tabs as assistive technology knows them: one stop for the Tab key, arrows between them. */

import { element } from "heedful/dom.js";

/**
 * @param {import("heedful/main.js").View[]} views
 * @param {import("heedful/app.js").App} app
 * @param {HTMLElement} panel
 * @returns {HTMLElement}
 */
export function tabs(views, app, panel) {
  const made = views.map(({ id, title }) => element("button", {
    type: "button", role: "tab", id: `tab-${id}`, "aria-controls": panel.id, onclick: () => app.set({ view: id }),
  }, title));
  const refresh = () => made.forEach((tab, i) => {
    const chosen = views[i].id === app.get().view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    const row = tab.parentElement;
    if (chosen && row && row.scrollWidth > row.clientWidth) row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
  });
  refresh();
  requestAnimationFrame(refresh); // in its place the row knows which tabs are out of sight
  app.subscribe(refresh);
  return element("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: move }, made);

  /** @param {KeyboardEvent} event */
  function move(event) {
    const now = views.findIndex(({ id }) => id === app.get().view);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: views.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const place = (next + views.length) % views.length;
    app.set({ view: views[place].id });
    made[place].focus();
  }
}
