/** Create elements without HTML in strings: a text always stays a text. */

/** @typedef {string | number | boolean | null | undefined} AttributeValue */
/** @typedef {(event: never) => unknown} EventHandler */
/**
 * Attributes of an element by name. A function under `onclick` and the like is an event listener; `style` may be an
 * object of properties. `true` sets an attribute without a value; `false`, `null` and `undefined` set none.
 * @typedef {Record<string, AttributeValue | EventHandler | Record<string, string | number>>} Attributes
 */
/** @typedef {Node | string | number | null | undefined | false | readonly Child[]} Child */

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * Create an HTML element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children strings and numbers become text; `null`, `undefined` and `false` are left out
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function createElement(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  fillElement(node, attributes, children);
  return node;
}

/**
 * Create an SVG element, with the same kinds of attributes and children.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function createSvg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  fillElement(node, attributes, children);
  return node;
}

/**
 * Set the attributes and the children of a new element.
 * @param {HTMLElement | SVGElement} node
 * @param {Attributes} attributes
 * @param {readonly Child[]} children
 */
function fillElement(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (typeof value === "object") {
      for (const [property, each] of Object.entries(value)) node.style.setProperty(property, String(each));
    } else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...flattenChildren(children));
}

/**
 * Return nested children as one list, without those that are left out.
 * @param {readonly Child[]} children
 * @returns {(Node | string)[]}
 */
function flattenChildren(children) {
  return children.flatMap((child) => {
    if (child === null || child === undefined || child === false) return [];
    if (child instanceof Node) return [child];
    return typeof child === "object" ? flattenChildren(child) : [String(child)];
  });
}

/**
 * Create a table whose first column contains the names of the rows.
 * @param {string[]} columns names of the columns
 * @param {(string | number)[][]} rows
 * @param {string} [caption]
 * @returns {HTMLTableElement}
 */
export function createTable(columns, rows, caption = "") {
  const createCell = (/** @type {string | number} */ text, /** @type {number} */ i) =>
    i === 0 ? createElement("th", { scope: "row" }, text) : createElement("td", {}, text);
  return createElement(
    "table",
    { class: "numbers" },
    caption && createElement("caption", {}, caption),
    createElement("thead", {}, createElement("tr", {}, columns.map((name) => createElement("th", { scope: "col" }, name)))),
    createElement("tbody", {}, rows.map((row) => createElement("tr", {}, row.map(createCell)))),
  );
}

/**
 * Create a button "As a table" that shows and hides the content of a picture as a table.
 * @param {() => Node | Promise<Node>} build returns the table; it is called each time the table is opened
 * @returns {HTMLElement}
 */
export function createTableToggle(build) {
  const place = createElement("div", { class: "as-table", tabindex: 0, role: "region", "aria-label": "Table", hidden: true });
  const button = createElement("button", {
    type: "button",
    "aria-expanded": "false",
    onclick: async () => {
      const open = place.hidden;
      if (open) place.replaceChildren(await build());
      place.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    },
  }, "As a table");
  return createElement("div", { class: "table-toggle" }, button, place);
}

/**
 * Create a canvas with the resolution of the screen, whose context counts in CSS pixels.
 * @param {number} width
 * @param {number} height
 * @returns {{canvas: HTMLCanvasElement, context: CanvasRenderingContext2D}}
 */
export function createCanvas(width, height) {
  const canvas = createElement("canvas");
  return { canvas, context: resizeCanvas(canvas, width, height) };
}

/**
 * Set the size of a canvas, which also clears it.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width in CSS pixels
 * @param {number} height in CSS pixels
 * @returns {CanvasRenderingContext2D}
 */
export function resizeCanvas(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = getContext(canvas);
  context.setTransform(canvas.width / Math.max(1, width), 0, 0, canvas.height / Math.max(1, height), 0, 0);
  return context;
}

/**
 * Return the two-dimensional context of a canvas.
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
export function getContext(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser has no memory left for a canvas");
  return context;
}

/**
 * Create a label around a control.
 * @param {string} text
 * @param {HTMLElement} control
 * @returns {HTMLElement}
 */
export function createLabel(text, control) {
  const input = control.matches("select, input") ? control : control.querySelector("select, input");
  input?.setAttribute("aria-label", text); // otherwise the accessible name of a select would include its options
  return createElement("label", { class: "labelled" }, createElement("span", {}, text), control);
}

/**
 * Create a check box with its label.
 * @param {string} text
 * @param {boolean} checked
 * @param {(checked: boolean) => void} onChange
 * @returns {HTMLElement}
 */
export function createCheckbox(text, checked, onChange) {
  const box = createElement("input", { type: "checkbox", onchange: () => { onChange(box.checked); } });
  box.checked = checked;
  return createElement("label", { class: "checkbox" }, box, createElement("span", {}, text));
}
