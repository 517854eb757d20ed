/** A window onto a picture that may be far larger than the screen: it scrolls as a page does, only what shows is drawn. */

import { element, resized, svg } from "heedful/dom.js";

const LARGEST = 4096; // pixels on paper, where everything shows

/**
 * @typedef {object} Window what shows of the picture, in CSS pixels
 * @property {CanvasRenderingContext2D} context empty, its origin the upper left corner of the window
 * @property {SVGElement} overlay empty, above the canvas, with the same origin
 * @property {number} left how far the picture is scrolled
 * @property {number} top
 * @property {number} width
 * @property {number} height
 */
/**
 * @typedef {object} Scroller
 * @property {HTMLElement} node what scrolls
 * @property {HTMLElement} sizer as large as the picture
 * @property {() => void} redraw
 * @property {(width: number, height: number) => void} resize the picture's size, from the next `redraw` on
 * @property {(event: MouseEvent) => {x: number, y: number}} place of an event, in the window
 * @property {(box: {x: number, y: number, width: number, height: number}, margins: {left: number, top: number}) => void} reveal
 * @property {() => void} stop
 */

/**
 * @param {(shown: Window) => void} draw
 * @returns {Scroller}
 */
export function scroller(draw) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const overlay = svg("svg", { "aria-hidden": "true" });
  const sizer = element("div", { class: "sizer" }, element("div", { class: "pinned" }, canvas, overlay));
  const node = element("div", { class: "scroller" }, sizer);
  let size = { width: 0, height: 0 };
  let drawn = ""; // the size of the window then

  const redraw = () => {
    const width = Math.min(node.clientWidth, LARGEST);
    const height = Math.min(node.clientHeight, size.height, LARGEST);
    if (!width || !height) return;
    drawn = `${node.clientWidth} ${node.clientHeight}`;
    const context = resized(canvas, width, height);
    overlay.setAttribute("width", String(width));
    overlay.setAttribute("height", String(height));
    overlay.replaceChildren();
    draw({ context, overlay, left: node.scrollLeft, top: node.scrollTop, width, height });
  };
  let asked = 0;
  const soon = () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      redraw();
    });
  };
  const observer = new ResizeObserver(() => drawn !== `${node.clientWidth} ${node.clientHeight}` && soon());
  observer.observe(node);
  node.addEventListener("scroll", soon, { passive: true });

  return {
    node,
    sizer,
    redraw,
    resize: (width, height) => {
      size = { width, height };
      sizer.style.width = `${width}px`;
      sizer.style.height = `${height}px`;
    },
    place: (event) => {
      const box = node.getBoundingClientRect();
      return { x: event.clientX - box.left - node.clientLeft, y: event.clientY - box.top - node.clientTop };
    },
    reveal: (box, { left, top }) => {
      const seen = (/** @type {number} */ now, /** @type {number} */ start, /** @type {number} */ length, /** @type {number} */ room) =>
        Math.min(start, Math.max(now, start + length - room));
      node.scrollLeft = seen(node.scrollLeft, box.x, box.width, node.clientWidth - left);
      node.scrollTop = seen(node.scrollTop, box.y, box.height, node.clientHeight - top);
    },
    stop: () => {
      observer.disconnect();
      cancelAnimationFrame(asked);
    },
  };
}
