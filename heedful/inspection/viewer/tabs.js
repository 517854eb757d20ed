/** Create the tabs of the views, with one tab stop and arrow keys, as assistive technology expects. */

import { createElement } from "heedful/dom.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { Store } from "heedful/store.js" */

/**
 * @param {PageView[]} views
 * @param {Store} store
 * @param {HTMLElement} panel
 * @returns {HTMLElement}
 */
export function createTabs(views, store, panel) {
  const tabs = views.map(({ id, title }) => createElement("button", {
    type: "button", role: "tab", id: `tab-${id}`, "aria-controls": panel.id, onclick: () => store.set({ view: id }),
  }, title));
  const refresh = () => tabs.forEach((tab, i) => {
    const selected = views[i].id === store.get().view;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    const row = tab.parentElement;
    if (selected && row && row.scrollWidth > row.clientWidth) row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
  });
  refresh();
  requestAnimationFrame(refresh); // only a row that is in the page has a width, which scrolling needs
  store.subscribe(refresh);
  return createElement("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: moveFocus }, tabs);

  /** @param {KeyboardEvent} event */
  function moveFocus(event) {
    const now = views.findIndex(({ id }) => id === store.get().view);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: views.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const place = (next + views.length) % views.length;
    store.set({ view: views[place].id });
    tabs[place].focus();
  }
}
