/** Show hops: several attentions of one query to the same facts or words, one column for each. */

import { sumNumbers } from "heedful/arrays.js";
import { getRamp } from "heedful/colour.js";
import { createElement } from "heedful/dom.js";
import { formatNumber } from "heedful/formatting.js";
import { loadHeadWeights } from "heedful/record.js";
import { createShadedText, createWeightTable, getWeightRow } from "heedful/shaded_text.js";

/** @import { PageView } from "heedful/main.js" */
/** @import { InspectionRecord } from "heedful/record.js" */
/** @import { MapSelection } from "heedful/step_selection.js" */

/** @type {PageView} */
export const hopsView = {
  id: "hops",
  title: "Hops",
  help:
    "Each column is one attention to the same facts or words: a hop of a memory network, or a hop of a summary. The weights " +
    "of a column sum to 1. Facts that are known to matter have a dot. A model that reasons correctly attends to them, one " +
    "after the other.",
  controls: ["ramp"],
  isAvailable: (record) => findHops(record).length > 0,
  show,
};

/**
 * Find the longest series of attentions of one query to the same text: maps, or heads of a summary.
 * @param {InspectionRecord} record
 * @returns {MapSelection[]} empty if there is no series of two or more
 */
export function findHops(record) {
  /** @type {Map<string, MapSelection[]>} */ const groups = new Map();
  for (const map of record.maps.filter(({ queryAxis, keyAxis }) => queryAxis.tokens.length === 1 && keyAxis.kind === "text")) {
    const name = `${map.queries}/${map.keys}`;
    /** @type {MapSelection[]} */
    const hops = map.role === "summary" ? map.heads.map((head) => ({ map, head })) : [{ map, head: map.heads.length > 1 ? "mean" : map.heads[0] }];
    groups.set(name, [...(groups.get(name) ?? []), ...hops]);
  }
  const longest = [...groups.values()].sort((one, other) => other.length - one.length)[0] ?? [];
  return longest.length > 1 ? longest : [];
}

/** @type {PageView["show"]} */
function show(host, record, store) {
  let turn = 0;
  const draw = async () => {
    const now = ++turn;
    const hops = findHops(record);
    const matrices = await Promise.all(hops.map(({ map, head }) => loadHeadWeights(map, head)));
    if (now !== turn) return;
    const weights = matrices.map((matrix) => getWeightRow(matrix, 0));
    const { tokens, marked, name } = hops[0].map.keyAxis;
    const getColour = getRamp(store.getRampName());
    const steps = hops.map((_, i) => `hop ${i + 1}`);
    const areWords = !tokens.some((token) => token.includes(" "));
    const sums = steps.map((step, i) => `${step} ${formatNumber(sumNumbers(marked.map((k) => weights[i][k])))}`);
    host.replaceChildren(
      ...(areWords ? steps.map((step, i) => createShadedText(step, tokens, weights[i], getColour)) : []),
      createWeightTable({ title: name, texts: tokens, steps, weights, marked, getColour }),
      ...(marked.length ? [createElement("p", { class: "soft small" }, `Weight of the facts that are known to matter: ${sums.join(", ")}.`)] : []),
    );
  };
  draw();
  const unsubscribe = store.subscribe(draw);
  return () => {
    unsubscribe();
    turn = -Infinity;
  };
}
