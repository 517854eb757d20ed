/** What one token looks at most, as bars. */

import { element } from "heedful/dom.js";
import { display, shortened, tokensOf } from "heedful/record.js";

const MOST = 10;

/**
 * The strongest keys of a query.
 * @param {import("heedful/record.js").AttentionMap} map
 * @param {Float32Array} weights [Q, K]
 * @param {Float32Array} visible [Q, K], 1 or 0
 * @param {number | null} query none where null
 * @returns {HTMLElement}
 */
export function rowOf(map, weights, visible, query) {
  if (query === null) return element("aside", { class: "row-of soft hint" }, "Choose a row by a click or Enter to keep what it looks at most here.");
  const { queries, keys } = tokensOf(map);
  const start = query * keys.length;
  const found = keys.map((token, k) => ({ token, k, weight: weights[start + k] })).filter(({ k }) => visible[start + k]);
  found.sort((one, two) => two.weight - one.weight);
  const rest = found.slice(MOST).reduce((sum, { weight }) => sum + weight, 0);
  const bar = (/** @type {string} */ name, /** @type {number} */ weight) => [
    element("dt", {}, name),
    element("dd", {}, element("span", { class: "bar", style: { "--share": Math.min(1, Math.max(0, weight)) } }), weight.toFixed(4)),
  ];
  return element(
    "aside",
    { class: "row-of", "aria-label": `What ${display(queries[query])} looks at` },
    element("h2", {}, `${display(queries[query])} (${query}) looks at`),
    element("dl", {}, found.slice(0, MOST).map(({ token, k, weight }) => bar(`${shortened(display(token), 20)} (${k})`, weight)),
      found.length > MOST && bar(`${found.length - MOST} others`, rest)),
  );
}
