/** Draw the attention of a translation to its source: the tokens of both in rows, with lines between them. */

import { createElement, createSvg, createTable, createTableToggle } from "./dom.js";

/** @import { TokenAlignment } from "./requests.js" */
/** @typedef {"source" | "target"} Side */
/** @typedef {{side: Side, place: number}} SideToken */

/** Weights below this have no line. */
const MIN_WEIGHT = 0.1;

const SIDES = /** @type {const} */ (["source", "target"]);

/**
 * Create a picture that can show a growing alignment.
 * @returns {{node: HTMLElement, show: (alignment: TokenAlignment) => void}}
 */
export function createAlignmentPicture() {
  /** @type {TokenAlignment} */
  let shown = { source: [], target: [], weights: [] };
  /** @type {SideToken | null} */
  let selected = null;
  const drawing = createSvg("svg", { "aria-hidden": "true" });
  const rows = { source: createRow("source", "Tokens of the source"), target: createRow("target", "Tokens of the translation") };
  const stage = createElement("div", { class: "alignment" }, drawing, rows.source, rows.target);
  const toggle = createTableToggle(() => createTable(["translation", ...shown.source.map(formatToken)],
    shown.target.map((token, i) => [formatToken(token), ...shown.weights[i].map((weight) => weight.toFixed(2))])));
  new ResizeObserver(() => drawLines()).observe(stage);
  return { node: createElement("div", {}, stage, toggle), show };

  /** @param {TokenAlignment} alignment */
  function show(alignment) {
    if (alignment.target.length < shown.target.length) selected = null;
    shown = alignment;
    for (const side of SIDES) fillRow(side, alignment[side]);
    drawLines();
  }

  /**
   * Create a row of tokens with one tab stop and arrow keys between the tokens.
   * @param {Side} side
   * @param {string} label
   * @returns {HTMLElement}
   */
  function createRow(side, label) {
    const row = createElement("div", {
      class: `tokens ${side}`, role: "listbox", "aria-label": label, "aria-orientation": "horizontal", tabindex: "0",
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const now = selected?.side === side ? selected.place : -1;
        const last = shown[side].length - 1;
        const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last, Escape: -2 }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        selectToken(next === -2 ? null : { side, place: Math.max(0, Math.min(last, next)) });
      },
      onblur: () => selectToken(null),
      onpointerleave: () => {
        if (row !== document.activeElement) selectToken(null);
      },
    });
    row.dataset.id = String(Math.random()).slice(2);
    return row;
  }

  /**
   * Return the elements of the tokens of a row.
   * @param {Side} side
   */
  function listPieces(side) {
    return /** @type {HTMLElement[]} */ ([...rows[side].children]);
  }

  /**
   * Write tokens into a row. Tokens that stay keep their elements, so that only new ones are animated.
   * @param {Side} side
   * @param {string[]} tokens
   */
  function fillRow(side, tokens) {
    const row = rows[side];
    const pieces = listPieces(side);
    pieces.splice(tokens.length).forEach((piece) => piece.remove());
    tokens.forEach((token, place) => {
      const piece = pieces[place] ?? createElement("span", {
        class: "piece", role: "option", id: `${row.dataset.id}-${place}`, "aria-selected": "false",
        onpointerenter: () => selectToken({ side, place }),
      });
      if (!pieces[place]) row.append(piece);
      if (piece.textContent !== formatToken(token)) piece.textContent = formatToken(token);
      piece.classList.toggle("end", token === "</s>");
    });
  }

  /** @param {SideToken | null} token */
  function selectToken(token) {
    selected = token;
    for (const side of SIDES) {
      rows[side].removeAttribute("aria-activedescendant");
      listPieces(side).forEach((piece, place) => {
        const isSelected = token?.side === side && token.place === place;
        piece.setAttribute("aria-selected", String(isSelected));
        if (isSelected) rows[side].setAttribute("aria-activedescendant", piece.id);
        piece.style.setProperty("--weight", String(!token || token.side === side ? 0 : getWeight(token, place)));
      });
    }
    drawLines();
  }

  /**
   * Return the weight between a token and a token of the other side.
   * @param {SideToken} token
   * @param {number} other
   */
  function getWeight({ side, place }, other) {
    return (side === "target" ? shown.weights[place]?.[other] : shown.weights[other]?.[place]) ?? 0;
  }

  function drawLines() {
    const frame = stage.getBoundingClientRect();
    const listPoints = (/** @type {Side} */ side, /** @type {"top" | "bottom"} */ edge) => listPieces(side).map((piece) => {
      const box = piece.getBoundingClientRect();
      return { x: box.left + box.width / 2 - frame.left, y: box[edge] - frame.top };
    });
    const starts = listPoints("source", "bottom");
    const ends = listPoints("target", "top");
    drawing.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    const lines = shown.weights.flatMap((weights, t) => weights.map((weight, s) => ({ weight, s, t })))
      .filter(({ weight, s, t }) => weight >= MIN_WEIGHT && starts[s] && ends[t])
      .sort((one, other) => one.weight - other.weight);
    drawing.replaceChildren(...lines.map(({ weight, s, t }) => {
      const isShown = !selected || (selected.side === "source" ? selected.place === s : selected.place === t);
      const [start, end] = [starts[s], ends[t]];
      const middle = (start.y + end.y) / 2;
      return createSvg("path", {
        d: `M${start.x} ${start.y}C${start.x} ${middle} ${end.x} ${middle} ${end.x} ${end.y}`,
        class: isShown ? (selected ? "chosen" : "") : "other",
        "stroke-opacity": (isShown ? 0.15 + 0.85 * weight : 0.05).toFixed(3),
        "stroke-width": (1 + 3.2 * weight).toFixed(2),
      });
    }));
  }
}

/**
 * Format a token for readers.
 * @param {string} token
 */
function formatToken(token) {
  return token === "</s>" ? "end" : token.replace(/^▁(?=.)/u, "").replace(/\n/gu, "␊") || "␣";
}
