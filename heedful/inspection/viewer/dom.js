/** Elements, made without any HTML in strings: text is only ever text. */

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element of HTML.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `onclick` and the like are listeners; `style` may be an object; true is an
 *   attribute without a value; false, null and undefined are no attribute
 * @param {...Child} children strings become text
 * @returns {any}
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * An element of SVG, with the same attributes and children.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * @param {any} made
 * @param {Record<string, any>} attributes
 * @param {Child[]} children
 */
function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style" && typeof value === "object") {
      for (const [property, each] of Object.entries(value)) made.style.setProperty(property, String(each));
    } else made.setAttribute(name, value === true ? "" : String(value));
  }
  const wanted = /** @type {any[]} */ (children).flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  made.append(...wanted.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/**
 * A table whose first column names the rows.
 * @param {string[]} columns
 * @param {(string | number)[][]} rows
 * @param {string} [caption]
 * @returns {HTMLTableElement}
 */
export function tableOf(columns, rows, caption = "") {
  const cell = (/** @type {string | number} */ text, /** @type {number} */ i) =>
    i === 0 ? element("th", { scope: "row" }, text) : element("td", {}, text);
  return element(
    "table",
    { class: "numbers" },
    caption && element("caption", {}, caption),
    element("thead", {}, element("tr", {}, columns.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map(cell)))),
  );
}

/**
 * A button "As a table" and, once it is pressed, the table: what a picture shows, for those who read or hear it.
 * @param {() => Node | Promise<Node>} make
 * @returns {HTMLElement}
 */
export function asTable(make) {
  const place = element("div", { class: "as-table", tabindex: 0, role: "region", "aria-label": "Table", hidden: true });
  const button = element("button", {
    type: "button",
    "aria-expanded": "false",
    onclick: async () => {
      const open = place.hidden;
      if (open) place.replaceChildren(await make());
      place.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    },
  }, "As a table");
  return element("div", { class: "fallback" }, button, place);
}

/**
 * A canvas as sharp as the screen, whose context counts in CSS pixels.
 * @param {number} width
 * @param {number} height
 * @returns {{canvas: HTMLCanvasElement, context: CanvasRenderingContext2D}}
 */
export function canvasFor(width, height) {
  const canvas = element("canvas");
  return { canvas, context: resized(canvas, width, height) };
}

/**
 * Gives a canvas another size; it is empty then.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
export function resized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(canvas.width / Math.max(1, width), 0, 0, canvas.height / Math.max(1, height), 0, 0);
  return context;
}

/**
 * A label around a control.
 * @param {string} text
 * @param {HTMLElement} control
 * @returns {HTMLElement}
 */
export function labelled(text, control) {
  const input = control.matches("select, input") ? control : control.querySelector("select, input");
  input?.setAttribute("aria-label", text); // else the name of a list would include its options
  return element("label", { class: "labelled" }, element("span", {}, text), control);
}

/**
 * A box to tick.
 * @param {string} text
 * @param {boolean} on
 * @param {(on: boolean) => void} changed
 * @returns {HTMLElement}
 */
export function tick(text, on, changed) {
  const box = element("input", { type: "checkbox", onchange: () => changed(box.checked) });
  box.checked = on;
  return element("label", { class: "tick" }, box, element("span", {}, text));
}
