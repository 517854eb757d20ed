/** Create the parts that several views use: fields, forms, bars, and regions for answers. */

import { createElement } from "./dom.js";
import { openInspection } from "./requests.js";

/** @import { Child } from "./dom.js" */
/** @import { ServedModel, ServerInfo } from "./requests.js" */
/**
 * @typedef {object} PageView
 * @property {string} id
 * @property {string} title
 * @property {string} about explanation of the view
 * @property {(server: ServerInfo) => boolean} isAvailable whether the server has a model for the view
 * @property {(host: HTMLElement, server: ServerInfo) => void} show
 */

let fieldCount = 0;

/**
 * Return whether a model of the server has a capability.
 * @param {ServerInfo} server
 * @param {string} capability
 */
export function hasCapability(server, capability) {
  return server.models.some((model) => model.does.includes(capability));
}

/**
 * Create a field: a control with its label above.
 * @param {string} label
 * @param {HTMLElement} control
 * @returns {HTMLElement}
 */
export function createField(label, control) {
  control.id ||= `field-${++fieldCount}`;
  return createElement("div", { class: "field" }, createElement("label", { for: control.id }, label), control);
}

/**
 * Create a text area, in which Ctrl+Enter sends the form.
 * @param {import("./dom.js").Attributes} [attributes]
 * @returns {HTMLTextAreaElement}
 */
export function createTextArea(attributes = {}) {
  return createElement("textarea", {
    rows: 3, dir: "auto", spellcheck: "false", ...attributes,
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      /** @type {HTMLTextAreaElement} */ (event.target).form?.requestSubmit();
    },
  });
}

/**
 * Create a select.
 * @param {[value: string, text: string][]} options
 * @param {(value: string) => void} [onChange]
 * @returns {HTMLSelectElement}
 */
export function createSelect(options, onChange = () => {}) {
  const select = createElement("select", { onchange: () => { onChange(select.value); } });
  select.append(...options.map(([value, text]) => createElement("option", { value }, text)));
  return select;
}

/**
 * Create a select of the models with a capability.
 * @param {ServerInfo} server
 * @param {string} capability
 * @param {() => void} [onChange]
 * @returns {{control: HTMLElement | null, getModel: () => ServedModel}} `control` is null if there is only one model
 */
export function createModelSelect(server, capability, onChange = () => {}) {
  const models = server.models.filter((model) => model.does.includes(capability));
  const select = createSelect(models.map(({ name }) => [name, name]), onChange);
  const getModel = () => models.find(({ name }) => name === select.value) ?? models[0];
  return { control: models.length > 1 ? createField("Model", select) : null, getModel };
}

/**
 * Create a form that sends a request when it is submitted. During the request it is busy, and has a button that stops it.
 * @param {object} options
 * @param {string} options.label of the button
 * @param {Child[]} options.fields
 * @param {Child[]} [options.buttons] next to the button
 * @param {(signal: AbortSignal) => Promise<void>} options.onSubmit
 * @returns {HTMLFormElement}
 */
export function createRequestForm({ label, fields, buttons = [], onSubmit }) {
  /** @type {AbortController | null} */
  let current = null;
  const alert = createAlert();
  const button = createElement("button", { type: "submit", class: "main" }, label);
  const stop = createElement("button", { type: "button", hidden: true, onclick: () => current?.abort() }, "Stop");
  const form = createElement("form", { class: "request-form", onsubmit: submit }, fields,
    createElement("div", { class: "buttons" }, button, stop, buttons), alert);
  return form;

  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    current?.abort();
    const controller = (current = new AbortController());
    alert.hidden = true;
    form.setAttribute("aria-busy", "true");
    stop.hidden = false;
    await showErrors(alert, () => onSubmit(controller.signal));
    if (current !== controller) return;
    current = null;
    form.removeAttribute("aria-busy");
    if (document.activeElement === stop) button.focus();
    stop.hidden = true;
  }
}

/**
 * Add a form and the region of its answer to a view.
 * @param {HTMLElement} host
 * @param {object} options
 * @param {string} options.label of the button
 * @param {Child[]} options.fields
 * @param {Child[]} [options.buttons] next to the button
 * @param {(signal: AbortSignal) => Promise<Child[]>} options.load returns the content of the answer
 */
export function addFormAndAnswer(host, { label, fields, buttons, load }) {
  const region = createAnswerRegion("Answer");
  const form = createRequestForm({ label, fields, buttons, onSubmit: async (signal) => {
    region.setAttribute("aria-busy", "true");
    try {
      region.replaceChildren(createElement("article", { class: "card" }, await load(signal)));
    } finally {
      region.removeAttribute("aria-busy");
    }
  } });
  host.append(createElement("div", { class: "two" }, form, region));
}

/**
 * Create a hidden place for an error message.
 * @returns {HTMLElement}
 */
export function createAlert() {
  return createElement("p", { class: "error", role: "alert", hidden: true });
}

/**
 * Run an action, and show its error if it fails. An action that the user stopped shows none.
 * @param {HTMLElement} alert
 * @param {() => Promise<void>} action
 */
export async function showErrors(alert, action) {
  try {
    await action();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    alert.hidden = false;
    alert.textContent = error instanceof Error ? error.message : String(error);
    if (!(error instanceof Error) || error.name !== "Error") console.warn(error);
  }
}

/**
 * Create a button that opens the page of an inspection.
 * @param {() => object} buildMessage returns what to inspect
 * @returns {HTMLElement}
 */
export function createInspectButton(buildMessage) {
  const alert = createElement("span", { class: "error", role: "alert", hidden: true });
  const button = createElement("button", {
    type: "button",
    title: "Open a page in a new tab that shows what the model attends to",
    onclick: async () => {
      alert.hidden = true;
      button.disabled = true;
      await showErrors(alert, () => openInspection(buildMessage()));
      button.disabled = false;
    },
  }, "Show attention");
  return createElement("span", { class: "inspect" }, button, alert);
}

/**
 * Create a list of names with bars.
 * @param {{name: string, share: number}[]} rows
 * @param {string} label
 * @returns {HTMLElement}
 */
export function createBars(rows, label) {
  return createElement("dl", { class: "bars", "aria-label": label, role: "group" }, rows.map(({ name, share }) => [
    createElement("dt", { dir: "auto" }, name),
    createElement("dd", {},
      createElement("span", { class: "bar", "aria-hidden": "true", style: { "--share": Math.max(0, Math.min(1, share)) } }),
      createElement("span", {}, formatPercent(share))),
  ]));
}

/** @param {number} share */
export function formatPercent(share) {
  return share > 0.9995 ? "100 %" : share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

/**
 * Return a text as nodes, some parts of which are marked.
 * @param {string} text
 * @param {[start: number, stop: number][]} marks in order, in code points
 * @returns {Node[]}
 */
export function markText(text, marks) {
  const letters = [...text]; // the server counts code points, JavaScript counts UTF-16 code units
  /** @type {Node[]} */
  const nodes = [];
  let end = 0;
  for (const [start, stop] of marks) {
    nodes.push(document.createTextNode(letters.slice(end, start).join("")));
    nodes.push(createElement("mark", {}, letters.slice(start, stop).join("")));
    end = stop;
  }
  nodes.push(document.createTextNode(letters.slice(end).join("")));
  return nodes;
}

/**
 * Create a region for answers, which screen readers announce.
 * @param {string} label
 * @returns {HTMLElement}
 */
export function createAnswerRegion(label) {
  return createElement("section", { class: "answer", "aria-label": label, "aria-live": "polite" });
}
