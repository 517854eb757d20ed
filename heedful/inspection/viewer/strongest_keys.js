/** List the keys with the largest weights of one query, as bars. */

import { createElement } from "heedful/dom.js";
import { formatToken, shortenText } from "heedful/formatting.js";
import { getTokens } from "heedful/record.js";

/** @import { AttentionMap } from "heedful/record.js" */

const MAX_KEYS = 10;

/**
 * @param {AttentionMap} map
 * @param {Float32Array} weights [Q, K]
 * @param {Float32Array} visible [Q, K], 1 or 0
 * @param {number | null} query null for a hint instead of the list
 * @returns {HTMLElement}
 */
export function createStrongestKeys(map, weights, visible, query) {
  if (query === null) return createElement("aside", { class: "strongest-keys soft hint" }, "Click a row, or press Enter on it, to list its largest weights here.");
  const { queries, keys } = getTokens(map);
  const start = query * keys.length;
  const sorted = keys.map((token, k) => ({ token, k, weight: weights[start + k] })).filter(({ k }) => visible[start + k]);
  sorted.sort((one, other) => other.weight - one.weight);
  const rest = sorted.slice(MAX_KEYS).reduce((sum, { weight }) => sum + weight, 0);
  const createBar = (/** @type {string} */ name, /** @type {number} */ weight) => [
    createElement("dt", {}, name),
    createElement("dd", {}, createElement("span", { class: "bar", style: { "--share": Math.min(1, Math.max(0, weight)) } }), weight.toFixed(4)),
  ];
  return createElement(
    "aside",
    { class: "strongest-keys", "aria-label": `Largest weights of ${formatToken(queries[query])}` },
    createElement("h2", {}, `${formatToken(queries[query])} (${query}) attends to`),
    createElement("dl", {}, sorted.slice(0, MAX_KEYS).map(({ token, k, weight }) => createBar(`${shortenText(formatToken(token), 20)} (${k})`, weight)),
      sorted.length > MAX_KEYS && createBar(`${sorted.length - MAX_KEYS} others`, rest)),
  );
}
