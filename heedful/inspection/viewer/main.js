/** The page: choices above, one view below, and the keys that reach everything. */

import * as alignment from "heedful/alignment.js";
import * as regions from "heedful/regions.js";
import * as frames from "heedful/frames.js";
import * as glimpses from "heedful/glimpses.js";
import * as hops from "heedful/hops.js";
import * as chain from "heedful/chain.js";
import * as turns from "heedful/turns.js";
import * as heads from "heedful/heads.js";
import * as model from "heedful/model.js";
import * as steps from "heedful/steps.js";
import * as decoding from "heedful/decoding.js";
import * as answers from "heedful/answers.js";
import * as masks from "heedful/masks.js";
import * as positions from "heedful/positions.js";
import * as flow from "heedful/flow.js";
import * as unrolled from "heedful/unrolled.js";
import * as architecture from "heedful/architecture.js";
import * as mattered from "heedful/mattered.js";
import * as summary from "heedful/summary.js";
import { createApp } from "heedful/app.js";
import { ramps } from "heedful/colour.js";
import { element } from "heedful/dom.js";
import { explanation } from "heedful/explanation.js";
import { listenToKeys, keysDialog } from "heedful/keys.js";
import { readRecord } from "heedful/record.js";
import { tabs } from "heedful/tabs.js";
import { toolbar } from "heedful/toolbar.js";
import { tourButton } from "heedful/tour.js";

/** @typedef {import("heedful/app.js").App} App */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/**
 * @typedef {object} View
 * @property {string} id
 * @property {string} title
 * @property {string} help how to read it
 * @property {("map" | "head" | "ramp")[]} [chooses] what of the toolbar matters to it; all where this is missing
 * @property {(record: Inspection) => boolean} available
 * @property {(host: HTMLElement, record: Inspection, app: App) => () => void} show returns how to clean up
 */

/** @type {View[]} */
const VIEWS = [
  regions, frames, glimpses, hops, chain, turns, alignment, heads, model, steps, decoding, answers, mattered, masks, positions, flow,
  unrolled, architecture, summary,
].map((each) => each.view);

begin(/** @type {HTMLElement} */ (document.getElementById("heedful")), readRecord());

/**
 * @param {HTMLElement} page
 * @param {Inspection} record
 */
function begin(page, record) {
  const views = VIEWS.filter((view) => view.available(record));
  const app = createApp(record, { views: views.map((view) => view.id), ramps: ramps.map(({ name }) => name) });
  const panel = element("section", { id: "panel", role: "tabpanel", tabindex: "-1" });
  const dialog = keysDialog(views);
  page.append(...[
    element("p", { class: "subtitle" }, subtitle(record)),
    record.notes.length > 0 && element("ul", { class: "notes" }, record.notes.map((note) => element("li", {}, note))),
    toolbar(record, app, views, () => dialog.showModal(), [tourButton(record, app, panel)]),
    tabs(views, app, panel),
    panel,
    dialog,
  ].filter((each) => each instanceof Node));
  dress(app);
  listenToKeys(record, app, views, dialog);
  let leave = enter(panel, record, app, views);
  matchMedia("print").addEventListener("change", ({ matches }) => unfold(panel, matches));
  app.subscribe((state, before) => {
    dress(app);
    if (state.view === before.view) return;
    leave();
    leave = enter(panel, record, app, views);
  });
  document.documentElement.dataset.ready = "true";
}

/**
 * Shows the chosen view.
 * @param {HTMLElement} panel
 * @param {Inspection} record
 * @param {App} app
 * @param {View[]} views
 * @returns {() => void} how to clean up
 */
function enter(panel, record, app, views) {
  const view = views.find(({ id }) => id === app.get().view);
  if (!view) {
    panel.replaceChildren(element("p", {}, "This record contains nothing that can be shown."));
    return () => {};
  }
  const host = element("div", { class: `view view-${view.id}` });
  panel.setAttribute("aria-labelledby", `tab-${view.id}`);
  panel.replaceChildren(explanation(view), host);
  return view.show(host, record, app);
}

/**
 * Opens what is folded while the page is printed, because readers cannot open it on paper.
 * @param {HTMLElement} panel
 * @param {boolean} onPaper
 */
function unfold(panel, onPaper) {
  for (const each of panel.querySelectorAll(onPaper ? "details:not([open])" : "details[data-unfolded]")) {
    each.toggleAttribute("open", onPaper);
    each.toggleAttribute("data-unfolded", onPaper);
  }
}

/** @param {App} app */
function dress(app) {
  document.documentElement.dataset.theme = app.dark() ? "dark" : "light";
}

/** @param {Inspection} record */
function subtitle(record) {
  const tokens = record.axes.map(({ name, size }) => `${name} ${size}`).join(", ");
  const count = record.maps.reduce((sum, map) => sum + map.heads.length, 0);
  return `${record.model} · tokens: ${tokens} · ${count} ${count === 1 ? "head" : "heads"} in ${record.maps.length} ` +
    `${record.maps.length === 1 ? "attention" : "attentions"}`;
}
