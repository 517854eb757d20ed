/** Build the page: controls at the top, one view below them, and keyboard shortcuts. */

import { alignmentView } from "heedful/alignment_view.js";
import { answersView } from "heedful/answers_view.js";
import { architectureView } from "heedful/architecture_view.js";
import { attributionView } from "heedful/attribution_view.js";
import { chainView } from "heedful/chain_view.js";
import { RAMP_CHOICES } from "heedful/colour.js";
import { decodingView } from "heedful/decoding_view.js";
import { createElement } from "heedful/dom.js";
import { createExplanation } from "heedful/explanation.js";
import { flowView } from "heedful/flow_view.js";
import { framesView } from "heedful/frames_view.js";
import { glimpsesView } from "heedful/glimpses_view.js";
import { headsView } from "heedful/heads_view.js";
import { hopsView } from "heedful/hops_view.js";
import { masksView } from "heedful/masks_view.js";
import { modelView } from "heedful/model_view.js";
import { positionsView } from "heedful/positions_view.js";
import { readRecord } from "heedful/record.js";
import { regionsView } from "heedful/regions_view.js";
import { addShortcuts, createShortcutsDialog } from "heedful/shortcuts.js";
import { stepsView } from "heedful/steps_view.js";
import { createStore } from "heedful/store.js";
import { summaryView } from "heedful/summary_view.js";
import { createTabs } from "heedful/tabs.js";
import { createToolbar } from "heedful/toolbar.js";
import { createTourButton } from "heedful/tour.js";
import { turnsView } from "heedful/turns_view.js";
import { unrolledView } from "heedful/unrolled_view.js";

/** @import { InspectionRecord } from "heedful/record.js" */
/** @import { Store } from "heedful/store.js" */
/**
 * @typedef {object} PageView
 * @property {string} id
 * @property {string} title
 * @property {string} help explanation of the view
 * @property {("map" | "head" | "ramp")[]} [controls] controls of the toolbar that the view uses; by default all
 * @property {(record: InspectionRecord) => boolean} isAvailable whether the record contains what the view shows
 * @property {(host: HTMLElement, record: InspectionRecord, store: Store) => () => void} show fills the host, and returns
 *   the function that closes the view
 */

const VIEWS = [
  regionsView, framesView, glimpsesView, hopsView, chainView, turnsView, alignmentView, headsView, modelView, stepsView,
  decodingView, answersView, attributionView, masksView, positionsView, flowView, unrolledView, architectureView, summaryView,
];

startPage(/** @type {HTMLElement} */ (document.getElementById("heedful")), readRecord());

/**
 * @param {HTMLElement} page
 * @param {InspectionRecord} record
 */
function startPage(page, record) {
  const views = VIEWS.filter((view) => view.isAvailable(record));
  const store = createStore(record, { views: views.map((view) => view.id), ramps: RAMP_CHOICES.map(({ name }) => name) });
  const panel = createElement("section", { id: "panel", role: "tabpanel", tabindex: "-1" });
  const dialog = createShortcutsDialog(views);
  page.append(createElement("p", { class: "subtitle" }, formatSubtitle(record)));
  if (record.notes.length > 0) {
    page.append(createElement("ul", { class: "notes" }, record.notes.map((note) => createElement("li", {}, note))));
  }
  page.append(
    createToolbar(record, store, views, () => dialog.showModal(), [createTourButton(record, store, panel)]),
    createTabs(views, store, panel),
    panel,
    dialog,
  );
  applyTheme(store);
  addShortcuts(record, store, views, dialog);
  let closeView = showView(panel, record, store, views);
  matchMedia("print").addEventListener("change", ({ matches }) => setDetailsOpen(panel, matches));
  store.subscribe((state, before) => {
    applyTheme(store);
    if (state.view === before.view) return;
    closeView();
    closeView = showView(panel, record, store, views);
  });
  document.documentElement.dataset.ready = "true";
}

/**
 * Show the selected view.
 * @param {HTMLElement} panel
 * @param {InspectionRecord} record
 * @param {Store} store
 * @param {PageView[]} views
 * @returns {() => void} closes the view
 */
function showView(panel, record, store, views) {
  const view = views.find(({ id }) => id === store.get().view);
  if (!view) {
    panel.replaceChildren(createElement("p", {}, "This record contains nothing that this page can show."));
    return () => {};
  }
  const host = createElement("div", { class: `view view-${view.id}` });
  panel.setAttribute("aria-labelledby", `tab-${view.id}`);
  panel.replaceChildren(createExplanation(view), host);
  return view.show(host, record, store);
}

/**
 * Open all closed details while the page is printed, because readers cannot open them on paper.
 * @param {HTMLElement} panel
 * @param {boolean} isPrinted
 */
function setDetailsOpen(panel, isPrinted) {
  for (const each of panel.querySelectorAll(isPrinted ? "details:not([open])" : "details[data-unfolded]")) {
    each.toggleAttribute("open", isPrinted);
    each.toggleAttribute("data-unfolded", isPrinted);
  }
}

/** @param {Store} store */
function applyTheme(store) {
  document.documentElement.dataset.theme = store.isDark() ? "dark" : "light";
}

/** @param {InspectionRecord} record */
function formatSubtitle(record) {
  const tokens = record.axes.map(({ name, size }) => `${name} ${size}`).join(", ");
  const heads = record.maps.reduce((sum, map) => sum + map.heads.length, 0);
  const maps = record.maps.length;
  return `${record.model} · tokens: ${tokens} · ${heads} ${heads === 1 ? "head" : "heads"} in ${maps} ` +
    `attention ${maps === 1 ? "map" : "maps"}`;
}
