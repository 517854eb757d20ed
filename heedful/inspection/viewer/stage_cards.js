/** The stages before and after the table of scores, each as a card. */

import { element } from "heedful/dom.js";
import { display } from "heedful/record.js";
import { largest, strip, written } from "heedful/strips.js";

const WIDE = 520;
/** Keys whose parts of the sum are shown one by one. */
const PARTS = 5;

/**
 * A formula whose subscripts, written after "_", are below the line.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function formulaOf(text) {
  return element("span", { class: "formula" }, lowered(text));
}

/**
 * @param {string} text
 * @returns {(string|HTMLElement)[]}
 */
export function lowered(text) {
  return text.split(/_(\w+)/).map((part, i) => (i % 2 ? element("sub", {}, part) : part));
}

/**
 * @param {number} number of the stage
 * @param {string} title
 * @param {string} formula in symbols
 * @param {string} words
 * @param {...Node} body
 * @returns {HTMLElement}
 */
export function card(number, title, formula, words, ...body) {
  return element(
    "section",
    { class: "stage" },
    element("h3", {}, element("span", { class: "badge" }, number), title, formulaOf(formula)),
    element("p", { class: "soft small" }, words),
    body,
  );
}

/** A vector with its sign and name before it. */
function line(sign, name, picture) {
  return element("div", { class: "vector" }, element("span", { class: "sign" }, sign), element("span", { class: "name" }, name), picture);
}

/** Word + position + segment = input. */
export function embeddingCard({ embedded, dark, tell }, number) {
  const { words, places, segments, token } = embedded;
  const sum = total(embedded);
  const most = largest(words, places ?? [], segments ?? [], sum);
  const draw = (vector, name) => strip(vector, { name, most, dark, width: WIDE, tell });
  const formula = ["x = e", places && "p", segments && "s"].filter(Boolean).join(" + ");
  const added = [places && "of its position", segments && "of the part of the text that it is in"].filter(Boolean);
  const text = added.length ? `The word's vector plus those ${added.join(" and ")}.` : "The word's vector; nothing is added for its position.";
  return card(
    number, "Embedding", formula, text.replace("those of its position.", "that of its position."),
    line("", `word ${display(token)}`, draw(words, "word vector")),
    places && line("+", "position", draw(places, "position vector")),
    segments && line("+", "segment", draw(segments, "segment vector")),
    added.length > 0 && line("=", "sum", draw(sum, segments ? "sum of word, position and segment" : "sum of word and position")),
  );
}

/** The sum of what was embedded. */
function total({ words, places, segments }) {
  return words.map((each, i) => each + (places ? places[i] : 0) + (segments ? segments[i] : 0));
}

/** The input and the query made of it. */
export function inputCard({ stages, embedded, map, query, dark, tell }, number) {
  const { input, query: q } = stages;
  const token = display(map.queryAxis.tokens[query]);
  const same = input.length === q.length && input.every((each, i) => Math.abs(each - q[i]) < 0.01);
  const draw = (vector, name) => strip(vector, { name, most: largest(vector), dark, width: WIDE, tell });
  const changed = embedded && !total(embedded).every((each, i) => Math.abs(each - input[i]) < 0.02);
  const words = [
    same ? "The vector that looks: this attention compares it with keys as it is." : "The vector that comes in and the query that this head makes of it.",
    changed ? "The layer changes the sum first (as a norm does)." : "",
  ].join(" ");
  const name = map.queries === "written" ? `input, to write ${token}` : `input ${token}`;
  return card(
    number, "Query", same ? "q = x" : "q = x W_Q", words,
    line("x", name, draw(input, `input of ${token}`)),
    line("q", "query", draw(q, `query of ${token}`)),
  );
}

/** The weighted sum of values. */
export function sumCard({ stages, map, dark, tell }, number) {
  const { weights, values, context, isSum } = stages;
  const order = weights.map((_, k) => k).sort((a, b) => weights[b] - weights[a]);
  const best = order.filter((k) => weights[k] > 0).slice(0, PARTS);
  const parts = best.map((k) => values[k].map((each) => weights[k] * each));
  const rest = context.map((each, i) => each - parts.reduce((sum, part) => sum + part[i], 0));
  const most = largest(context, rest, ...parts);
  const draw = (vector, name) => strip(vector, { name, most, dark, width: WIDE, tell });
  const lines = best.map((k, i) => {
    const token = display(map.keyAxis.tokens[k]);
    return line(i ? "+" : "", `${written(weights[k], 3)} × v of ${token}`, draw(parts[i], `${written(weights[k], 3)} times the value of ${token}`));
  });
  const others = weights.filter((each, k) => each !== 0 && !best.includes(k)).length;
  const remains = others > 0 || !isSum;
  const restName = [others > 0 && `${others} other ${others === 1 ? "key" : "keys"}`, !isSum && "relative positions"].filter(Boolean).join(" and ");
  return card(
    number, "Weighted sum", isSum ? "c = Σ a_j v_j" : "c = Σ a_j (v_j + p_j)",
    "Each value counts as much as its weight says; the sum is this head's context.",
    ...lines, remains && line("+", restName, draw(rest, restName)), line("=", "context", draw(context, "context")),
  );
}

/** What the attention returns. */
export function outputCard({ stages, map, head, dark, tell }, number) {
  const { context, output } = stages;
  const many = map.heads.length > 1;
  const same = !many && context.length === output.length && context.every((each, i) => Math.abs(each - output[i]) < 0.01);
  const draw = (vector, name) => strip(vector, { name, most: largest(vector), dark, width: WIDE, tell });
  const formula = same ? "o = c" : many ? "o = join(c_0, c_1, …)" : "o = join(c)";
  const words = same
    ? "The context is what this attention returns."
    : "The contexts of all heads of this layer together are what the attention returns.";
  return card(number, "Output", formula, words, line("c", map.heads.length > 1 ? `context, head ${head}` : "context", draw(context, "context")), line("o", "output", draw(output, "output")));
}
