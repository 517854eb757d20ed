/** The numbers of one attention for one query: every stage from the query's input to its output. */

const CLOSE = 0.02;

/**
 * @typedef {object} Stages
 * @property {number[]} input what the query was made of
 * @property {number[]} query
 * @property {number[][]} keys
 * @property {number[][]} values
 * @property {number} scale
 * @property {number[]} products scores before their scale and bias
 * @property {number[]} scaled
 * @property {number[]|null} bias
 * @property {number[]} scores
 * @property {boolean[]} visible
 * @property {number[]} weights of the record
 * @property {number[]} context of this head
 * @property {number[]} output of all heads
 * @property {boolean} isDot whether the products are inner products of query and keys
 * @property {boolean} isSoftmax whether the weights are the softmax of the visible scores
 * @property {boolean} isSum whether the context is the sum of the values by the weights and nothing else
 */

/** One vector of an array of any number of axes. */
function line({ shape, data }, ...indices) {
  const width = shape[shape.length - 1];
  const start = indices.reduce((place, index, axis) => place * shape[axis] + index, 0);
  return Array.from(data.subarray(start * width, (start + 1) * width));
}

/** All vectors of one head. */
function lines(array, head) {
  return Array.from({ length: array.shape[1] }, (_, i) => line(array, head, i));
}

/** @param {number[]} a @param {number[]} b @returns {number} */
export function dot(a, b) {
  return a.reduce((sum, each, i) => sum + each * b[i], 0);
}

/**
 * The softmax over what is visible; zeros where nothing is.
 * @param {number[]} scores @param {boolean[]} visible @returns {number[]}
 */
export function softmax(scores, visible) {
  const most = Math.max(...scores.filter((_, k) => visible[k]));
  const powers = scores.map((score, k) => (visible[k] ? Math.exp(score - most) : 0));
  const sum = powers.reduce((total, each) => total + each, 0);
  return powers.map((each) => (sum > 0 ? each / sum : 0));
}

/**
 * The sum of vectors by weights.
 * @param {number[]} weights @param {number[][]} vectors @returns {number[]}
 */
export function weighted(weights, vectors) {
  return vectors[0].map((_, i) => weights.reduce((sum, weight, k) => sum + weight * vectors[k][i], 0));
}

/** Whether two lists are equal except for the rounding of the record. */
function alike(a, b, tolerance = CLOSE) {
  const largest = Math.max(1, ...b.map(Math.abs));
  return a.length === b.length && a.every((each, i) => Math.abs(each - b[i]) <= tolerance * largest);
}

/**
 * @param {import("heedful/record.js").AttentionMap} map with a walk @param {object} place
 * @param {number} place.head the head's place among those of the record
 * @param {number} place.query
 * @returns {Promise<Stages>}
 */
export async function stagesOf(map, { head, query }) {
  const [walk, weights, visible] = await Promise.all([map.walkArrays(), map.weights(), map.visible()]);
  if (!walk) throw new Error("this attention was recorded without its stages");
  const made = {
    input: line(walk.inputs, query),
    query: line(walk.queries, head, query),
    keys: lines(walk.keys, head),
    values: lines(walk.values, head),
    scale: map.walk.scale,
    bias: walk.bias ? line(walk.bias, walk.bias.shape[0] === 1 ? 0 : head, query) : null,
    scores: line(walk.scores, head, query),
    visible: line(visible, query).map(Boolean),
    weights: line(weights, head, query),
    context: line(walk.contexts, head, query),
    output: line(walk.outputs, query),
  };
  const scaled = made.scores.map((score, k) => score - (made.bias ? made.bias[k] : 0));
  const products = scaled.map((each) => each / made.scale);
  const inner = made.keys.map((key) => (key.length === made.query.length ? dot(made.query, key) : NaN));
  return {
    ...made,
    scaled,
    products,
    isDot: alike(inner, products),
    isSoftmax: alike(softmax(made.scores, made.visible), made.weights),
    isSum: alike(weighted(made.weights, made.values), made.context),
  };
}
