/** Load the numbers of one attention for one query: all stages from the input of the query to the output. */

import { getVector, sumNumbers } from "heedful/arrays.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { AttentionMap } from "heedful/record.js" */

const TOLERANCE = 0.02; // of numbers in half precision

/**
 * @typedef {object} AttentionStages
 * @property {number[]} input from which the query was computed
 * @property {number[]} query
 * @property {number[][]} keys
 * @property {number[][]} values
 * @property {number} scale
 * @property {number[]} products scores without scale and bias
 * @property {number[]} scaled products with scale
 * @property {number[] | null} bias of the positions
 * @property {number[]} scores
 * @property {boolean[]} visible
 * @property {number[]} weights
 * @property {number[]} context of this head
 * @property {number[]} output of all heads
 * @property {boolean} isDot whether the products are dot products of query and keys
 * @property {boolean} isSoftmax whether the weights are the softmax of the visible scores
 * @property {boolean} isSum whether the context is only the weighted sum of the values
 */

/**
 * Return all vectors of one head.
 * @param {NumberArray} array [H, N, d]
 * @param {number} head
 */
function listVectors(array, head) {
  return Array.from({ length: array.shape[1] }, (_, i) => getVector(array, head, i));
}

/**
 * @param {number[]} one
 * @param {number[]} other
 * @returns {number}
 */
function computeDotProduct(one, other) {
  return one.reduce((sum, each, i) => sum + each * other[i], 0);
}

/**
 * Compute the softmax of the visible scores; zeros if no score is visible.
 * @param {number[]} scores
 * @param {boolean[]} visible
 * @returns {number[]}
 */
export function computeSoftmax(scores, visible) {
  const largest = Math.max(...scores.filter((_, k) => visible[k]));
  const powers = scores.map((score, k) => (visible[k] ? Math.exp(score - largest) : 0));
  const sum = sumNumbers(powers);
  return powers.map((each) => (sum > 0 ? each / sum : 0));
}

/**
 * Return the sum of weighted vectors.
 * @param {number[]} weights
 * @param {number[][]} vectors
 * @returns {number[]}
 */
function sumWeighted(weights, vectors) {
  return vectors[0].map((_, i) => weights.reduce((sum, weight, k) => sum + weight * vectors[k][i], 0));
}

/**
 * Return whether two vectors are equal, except for the rounding of the record.
 * @param {number[]} one
 * @param {number[]} other
 */
function areClose(one, other) {
  const largest = Math.max(1, ...other.map(Math.abs));
  return one.length === other.length && one.every((each, i) => Math.abs(each - other[i]) <= TOLERANCE * largest);
}

/**
 * @param {AttentionMap} map with recorded steps
 * @param {object} place
 * @param {number} place.head index of the head in the record
 * @param {number} place.query
 * @returns {Promise<AttentionStages>}
 */
export async function loadStages(map, { head, query }) {
  const [steps, weights, visible] = await Promise.all([map.loadSteps(), map.loadWeights(), map.loadVisible()]);
  if (!steps) throw new Error("this attention was recorded without its steps");
  const bias = steps.bias && getVector(steps.bias, steps.bias.shape[0] === 1 ? 0 : head, query);
  const stages = {
    input: getVector(steps.inputs, query),
    query: getVector(steps.queries, head, query),
    keys: listVectors(steps.keys, head),
    values: listVectors(steps.values, head),
    scale: steps.scale,
    bias,
    scores: getVector(steps.scores, head, query),
    visible: getVector(visible, query).map(Boolean),
    weights: getVector(weights, head, query),
    context: getVector(steps.contexts, head, query),
    output: getVector(steps.outputs, query),
  };
  const scaled = stages.scores.map((score, k) => score - (bias ? bias[k] : 0));
  const products = scaled.map((each) => each / stages.scale);
  const dotProducts = stages.keys.map((key) => (key.length === stages.query.length ? computeDotProduct(stages.query, key) : NaN));
  return {
    ...stages,
    scaled,
    products,
    isDot: areClose(dotProducts, products),
    isSoftmax: areClose(computeSoftmax(stages.scores, stages.visible), stages.weights),
    isSum: areClose(sumWeighted(stages.weights, stages.values), stages.context),
  };
}
