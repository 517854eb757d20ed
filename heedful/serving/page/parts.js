/** What several views are made of: fields, bars, answers that come, and errors. */

import { element } from "./dom.js";
import { look } from "./asking.js";

/** @typedef {{name: string, does: string[], ways?: (string | null)[][], languages?: Record<string, string>, takes?: string}} Model */
/** @typedef {{models: Model[], indices: string[], orders: Record<string, string[]>, limits: Record<string, number>}} Served */

let made = 0;

/**
 * A field with its label above.
 * @param {string} label
 * @param {HTMLElement} control
 * @returns {HTMLElement}
 */
export function field(label, control) {
  control.id ||= `field-${++made}`;
  return element("div", { class: "field" }, element("label", { for: control.id }, label), control);
}

/**
 * Room for a text that grows with it; Ctrl+Enter sends its form.
 * @param {Record<string, any>} [attributes]
 * @returns {HTMLTextAreaElement}
 */
export function area(attributes = {}) {
  return element("textarea", {
    rows: 3, dir: "auto", spellcheck: "false", ...attributes,
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      /** @type {HTMLTextAreaElement} */ (event.target).form?.requestSubmit();
    },
  });
}

/**
 * A choice among values and what they are called.
 * @param {[string, string][]} options
 * @param {(value: string) => void} [changed]
 * @returns {HTMLSelectElement}
 */
export function choice(options, changed = () => {}) {
  const control = element("select", { onchange: () => changed(control.value) });
  control.append(...options.map(([value, text]) => element("option", { value }, text)));
  return control;
}

/**
 * Which of several models; nothing to see where there is one.
 * @param {Served} served
 * @param {string} use
 * @param {(model: Model) => void} [changed]
 * @returns {{models: Model[], control: HTMLElement | null, model: () => Model}}
 */
export function modelChoice(served, use, changed = () => {}) {
  const models = served.models.filter((each) => each.does.includes(use));
  const select = choice(models.map(({ name }) => [name, name]), () => changed(model()));
  const model = () => models.find(({ name }) => name === select.value) ?? models[0];
  return { models, control: models.length > 1 ? field("Model", select) : null, model };
}

/**
 * A form that sends a request when submitted: busy while it does, with a button that stops it.
 * @param {object} options
 * @param {string} options.label of its button
 * @param {any[]} options.fields
 * @param {any[]} [options.more] next to the button
 * @param {(signal: AbortSignal) => Promise<void>} options.work
 * @returns {HTMLFormElement}
 */
export function asking({ label, fields, more = [], work }) {
  /** @type {AbortController | null} */
  let running = null;
  const wrong = element("p", { class: "wrong", role: "alert", hidden: true });
  const button = element("button", { type: "submit", class: "main" }, label);
  const stop = element("button", { type: "button", hidden: true, onclick: () => running?.abort() }, "Stop");
  const form = element("form", { class: "asking", onsubmit: run }, fields,
    element("div", { class: "acts" }, button, stop, more), wrong);
  return form;

  /** @param {SubmitEvent} event */
  async function run(event) {
    event.preventDefault();
    running?.abort();
    const mine = (running = new AbortController());
    wrong.hidden = true;
    form.setAttribute("aria-busy", "true");
    stop.hidden = false;
    await attempt(wrong, () => work(mine.signal));
    if (running !== mine) return;
    running = null;
    form.removeAttribute("aria-busy");
    if (document.activeElement === stop) button.focus();
    stop.hidden = true;
  }
}

/**
 * Does something that may be refused, and shows the reason; no message if the user stopped it.
 * @param {HTMLElement} wrong where to show it
 * @param {() => Promise<void>} work
 */
export async function attempt(wrong, work) {
  try {
    await work();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    wrong.hidden = false;
    wrong.textContent = error instanceof Error ? error.message : String(error);
    if (!(error instanceof Error) || error.name !== "Error") console.warn(error);
  }
}

/**
 * A button that opens the inspector's page.
 * @param {() => object} message what is looked at
 * @param {string} [label]
 * @returns {HTMLElement}
 */
export function looking(message, label = "Show me how") {
  const wrong = element("span", { class: "wrong", role: "alert", hidden: true });
  const button = element("button", {
    type: "button", title: "what the model attends to, in a new tab",
    onclick: async () => {
      wrong.hidden = true;
      button.disabled = true;
      await attempt(wrong, () => look(message()));
      button.disabled = false;
    },
  }, label);
  return element("span", { class: "looking" }, button, wrong);
}

/**
 * Shares as bars, after their names.
 * @param {{name: string, share: number, text?: string}[]} rows
 * @param {string} label
 * @returns {HTMLElement}
 */
export function bars(rows, label) {
  return element("dl", { class: "bars", "aria-label": label, role: "group" }, rows.map(({ name, share, text }) => [
    element("dt", { dir: "auto" }, name),
    element("dd", {},
      element("span", { class: "bar", "aria-hidden": "true", style: { "--share": Math.max(0, Math.min(1, share)) } }),
      element("span", {}, text ?? percent(share))),
  ]));
}

/** @param {number} share */
export function percent(share) {
  return share > 0.9995 ? "100 %" : share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

/**
 * A text with parts of it marked.
 * @param {string} text
 * @param {number[][]} marks first character and the one after the last, in order, in code points
 * @returns {Node[]}
 */
export function marked(text, marks) {
  const letters = [...text]; // the server counts code points, not halves of them
  /** @type {Node[]} */
  const parts = [];
  let at = 0;
  for (const [start, stop] of marks) {
    parts.push(document.createTextNode(letters.slice(at, start).join("")));
    parts.push(element("mark", {}, letters.slice(start, stop).join("")));
    at = stop;
  }
  parts.push(document.createTextNode(letters.slice(at).join("")));
  return parts;
}

/**
 * A place for answers, which tells those who listen when one is there.
 * @param {string} label
 * @returns {HTMLElement}
 */
export function answerPlace(label) {
  return element("section", { class: "answer", "aria-label": label, "aria-live": "polite" });
}
