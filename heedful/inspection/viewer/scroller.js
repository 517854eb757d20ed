/** Create a scrollable window onto a picture that may be much larger than the screen. Only the visible part is drawn. */

import { createElement, createSvg, resizeCanvas } from "heedful/dom.js";

const MAX_SIDE = 4096; // pixels in print, where the whole picture is visible

/**
 * @typedef {object} ScrollWindow the visible part of the picture, in CSS pixels
 * @property {CanvasRenderingContext2D} context of an empty canvas, with its origin at the upper left corner of the window
 * @property {SVGElement} overlay empty, above the canvas, with the same origin
 * @property {number} left scroll position
 * @property {number} top scroll position
 * @property {number} width
 * @property {number} height
 */
/**
 * @typedef {object} Scroller
 * @property {HTMLElement} node the scrolling element
 * @property {() => void} redraw
 * @property {(width: number, height: number) => void} resize sets the size of the picture for the next `redraw`
 * @property {(event: MouseEvent) => {x: number, y: number}} getPosition of an event, in the window
 * @property {(box: {x: number, y: number, width: number, height: number}, margins: {left: number, top: number}) => void} scrollTo
 *   scrolls until a box of the picture is visible
 * @property {() => void} destroy
 */

/**
 * @param {(shown: ScrollWindow) => void} draw
 * @returns {Scroller}
 */
export function createScroller(draw) {
  const canvas = createElement("canvas", { "aria-hidden": "true" });
  const overlay = createSvg("svg", { "aria-hidden": "true" });
  const sizer = createElement("div", { class: "sizer" }, createElement("div", { class: "pinned" }, canvas, overlay));
  const node = createElement("div", { class: "scroller" }, sizer);
  let size = { width: 0, height: 0 };
  let drawnSize = ""; // size of the window when it was drawn

  const formatSize = () => `${node.clientWidth} ${node.clientHeight}`;
  const redraw = () => {
    const width = Math.min(node.clientWidth, MAX_SIDE);
    const height = Math.min(node.clientHeight, size.height, MAX_SIDE);
    if (!width || !height) return;
    drawnSize = formatSize();
    const context = resizeCanvas(canvas, width, height);
    overlay.setAttribute("width", String(width));
    overlay.setAttribute("height", String(height));
    overlay.replaceChildren();
    draw({ context, overlay, left: node.scrollLeft, top: node.scrollTop, width, height });
  };
  let frame = 0;
  const redrawSoon = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      redraw();
    });
  };
  const observer = new ResizeObserver(() => drawnSize !== formatSize() && redrawSoon());
  observer.observe(node);
  node.addEventListener("scroll", redrawSoon, { passive: true });

  return {
    node,
    redraw,
    resize: (width, height) => {
      size = { width, height };
      sizer.style.width = `${width}px`;
      sizer.style.height = `${height}px`;
    },
    getPosition: (event) => {
      const box = node.getBoundingClientRect();
      return { x: event.clientX - box.left - node.clientLeft, y: event.clientY - box.top - node.clientTop };
    },
    scrollTo: (box, { left, top }) => {
      node.scrollLeft = moveIntoView(node.scrollLeft, box.x, box.width, node.clientWidth - left);
      node.scrollTop = moveIntoView(node.scrollTop, box.y, box.height, node.clientHeight - top);
    },
    destroy: () => {
      observer.disconnect();
      cancelAnimationFrame(frame);
    },
  };
}

/**
 * Return the nearest scroll position at which an interval is visible.
 * @param {number} position present scroll position
 * @param {number} start of the interval
 * @param {number} length of the interval
 * @param {number} room length of the window
 */
function moveIntoView(position, start, length, room) {
  return Math.min(start, Math.max(position, start + length - room));
}
