/** Which tokens of a source a translation looked at: both in rows, and lines between them, as they come. */

import { asTable, element, svg, tableOf } from "./dom.js";

/** @typedef {{source: string[], target: string[], weights: number[][]}} Alignment */

const FAINT = 0.1;
/** Weights below this draw no line. */

/**
 * A picture that can be given more of an alignment again and again.
 * @returns {{node: HTMLElement, show: (alignment: Alignment) => void}}
 */
export function alignmentPicture() {
  /** @type {Alignment} */
  let shown = { source: [], target: [], weights: [] };
  /** @type {{side: "source" | "target", place: number} | null} */
  let chosen = null;
  const drawing = svg("svg", { "aria-hidden": "true" });
  const rows = { source: row("source", "Source"), target: row("target", "Translation") };
  const stage = element("div", { class: "alignment" }, drawing, rows.source.node, rows.target.node);
  const table = asTable(() => tableOf(["translation", ...shown.source.map(name)],
    shown.target.map((token, i) => [name(token), ...shown.weights[i].map((each) => each.toFixed(2))])));
  const node = element("div", {}, stage, table);
  new ResizeObserver(() => draw()).observe(stage);
  return { node, show };

  /** @param {Alignment} alignment */
  function show(alignment) {
    if (alignment.target.length < shown.target.length) chosen = null;
    shown = alignment;
    for (const side of /** @type {const} */ (["source", "target"])) rows[side].fill(alignment[side]);
    draw();
  }

  /**
   * Tokens side by side: one stop of the Tab key, arrows between them.
   * @param {"source" | "target"} side
   * @param {string} label
   */
  function row(side, label) {
    const list = element("div", {
      class: `tokens ${side}`, role: "listbox", "aria-label": `${label}, token by token`, "aria-orientation": "horizontal", tabindex: "0",
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const now = chosen?.side === side ? chosen.place : -1;
        const last = shown[side].length - 1;
        const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last, Escape: -2 }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        choose(next === -2 ? null : { side, place: Math.max(0, Math.min(last, next)) });
      },
      onblur: () => choose(null),
      onpointerleave: () => list !== document.activeElement && choose(null),
    });
    /** @param {string[]} tokens */
    const fill = (tokens) => {
      const there = [...list.children];
      if (there.length > tokens.length) there.splice(tokens.length).forEach((each) => each.remove());
      tokens.forEach((token, place) => {
        if (!there[place]) list.append(element("span", {
          class: "piece", role: "option", id: `${list.dataset.id ??= String(Math.random()).slice(2)}-${place}`, "aria-selected": "false",
          onpointerenter: () => choose({ side, place }),
        }));
        const piece = /** @type {HTMLElement} */ (list.children[place]);
        if (piece.textContent !== name(token)) piece.textContent = name(token);
        piece.classList.toggle("ends", token === "</s>");
      });
    };
    return { node: list, fill };
  }

  /** @param {typeof chosen} next */
  function choose(next) {
    chosen = next;
    for (const side of /** @type {const} */ (["source", "target"])) {
      const list = rows[side].node;
      list.removeAttribute("aria-activedescendant");
      [...list.children].forEach((piece, place) => {
        const mine = chosen?.side === side && chosen.place === place;
        piece.setAttribute("aria-selected", String(mine));
        if (mine) list.setAttribute("aria-activedescendant", piece.id);
        piece.style.setProperty("--weight", String(!chosen || chosen.side === side ? 0 : weight(chosen, place)));
      });
    }
    draw();
  }

  /**
   * @param {{side: "source" | "target", place: number}} from
   * @param {number} place on the other side
   */
  function weight(from, place) {
    return (from.side === "target" ? shown.weights[from.place]?.[place] : shown.weights[place]?.[from.place]) ?? 0;
  }

  function draw() {
    const frame = stage.getBoundingClientRect();
    const places = (/** @type {HTMLElement} */ list, /** @type {"top" | "bottom"} */ edge) => [...list.children].map((each) => {
      const box = each.getBoundingClientRect();
      return [box.left + box.width / 2 - frame.left, box[edge] - frame.top];
    });
    const above = places(rows.source.node, "bottom");
    const below = places(rows.target.node, "top");
    drawing.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    const lines = shown.weights.flatMap((weights, t) => weights.map((value, s) => ({ value, s, t })))
      .filter(({ value, s, t }) => value >= FAINT && above[s] && below[t])
      .sort((one, other) => one.value - other.value);
    drawing.replaceChildren(...lines.map(({ value, s, t }) => {
      const mine = !chosen || (chosen.side === "source" ? chosen.place === s : chosen.place === t);
      const [[x, y], [u, v]] = [above[s], below[t]];
      const middle = (y + v) / 2;
      return svg("path", {
        d: `M${x} ${y}C${x} ${middle} ${u} ${middle} ${u} ${v}`,
        class: mine ? (chosen ? "chosen" : "") : "other",
        "stroke-opacity": (mine ? 0.15 + 0.85 * value : 0.05).toFixed(3),
        "stroke-width": (1 + 3.2 * value).toFixed(2),
      });
    }));
  }
}

/**
 * A token as one reads it.
 * @param {string} token
 */
function name(token) {
  return token === "</s>" ? "end" : token.replace(/^▁(?=.)/u, "").replace(/\n/gu, "␊") || "␣";
}
