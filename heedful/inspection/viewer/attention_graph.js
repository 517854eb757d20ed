/**
 * Compute attention flow (Abnar and Zuidema 2020): the most that can flow to a token of the last layer if weights are
 * the capacities of pipes.
 *
 * heedful/inspection/flow.py contains the same. It also decides which attentions form the graph, and computes rollout.
 * Only flow is computed here too, when a user selects a token: all pairs of a hundred tokens take minutes, which would
 * slow down the writing of a page, and few of them are ever shown. A test compares both.
 */

import { sumNumbers } from "heedful/arrays.js";

/** @import { NumberArray } from "heedful/arrays.js" */
/** @import { InspectionRecord, MapAxis, SideRollout } from "heedful/record.js" */
/** @typedef {{rows: number, columns: number, data: Float64Array}} FloatMatrix */
/**
 * @typedef {object} AttentionGraph
 * @property {MapAxis[]} inputs axes of the nodes of the lowest level; all levels have the same number of nodes
 * @property {MapAxis} queries axis of some nodes of the highest level
 * @property {number} top number of the first of these nodes
 * @property {FloatMatrix[]} steps shares that each node takes from the nodes of the level below, from the tokens up; rows
 *   sum to 1
 * @property {number} size number of nodes of a level
 */

const RESIDUAL_SHARE = 0.5;
const EPSILON = 1e-9;

/**
 * Return the mean of the weights over heads, normalized so that each row sums to 1, or to 0 if the query sees no key.
 * @param {NumberArray} weights [H, Q, K]
 * @returns {FloatMatrix}
 */
export function averageHeads({ shape: [heads, queries, keys], data }) {
  const mean = { rows: queries, columns: keys, data: new Float64Array(queries * keys) };
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < queries * keys; i++) mean.data[i] += data[h * queries * keys + i] / heads;
  }
  for (let q = 0; q < queries; q++) {
    const row = mean.data.subarray(q * keys, (q + 1) * keys);
    const sum = row.reduce((total, each) => total + each, 0);
    if (Math.abs(sum) > EPSILON) row.forEach((each, k) => { row[k] = each / sum; });
  }
  return mean;
}

/**
 * Load all attention of one side as a graph. The graph of the decoder contains the encoder below it.
 * @param {InspectionRecord} record
 * @param {SideRollout} rollout of the side
 * @returns {Promise<AttentionGraph>}
 */
export async function loadGraph(record, rollout) {
  const inputs = rollout.inputs.map((name) => record.getAxis(name));
  const size = sumNumbers(inputs.map((axis) => axis.tokens.length));
  const steps = rollout.steps.map(async ([map, row, column]) =>
    buildStep(averageHeads(await record.maps[map].loadWeights()), { row, column, size }));
  return { inputs, queries: record.getAxis(rollout.queries), top: rollout.top, steps: await Promise.all(steps), size };
}

/**
 * Return the number of the first node of an axis.
 * @param {MapAxis[]} inputs
 * @param {string} name
 * @returns {number}
 */
export function getFirstNode(inputs, name) {
  let start = 0;
  for (const axis of inputs) {
    if (axis.name === name) return start;
    start += axis.tokens.length;
  }
  throw new Error(`no axis ${name} among ${inputs.map((axis) => axis.name).join(", ")}`);
}

/**
 * Build the step of one attention: its queries keep one half and take the other half from their keys; all other nodes
 * stay as they are.
 * @param {FloatMatrix} weights
 * @param {{row: number, column: number, size: number}} place of the weights in the step
 * @returns {FloatMatrix}
 */
function buildStep(weights, { row, column, size }) {
  const step = { rows: size, columns: size, data: new Float64Array(size * size) };
  for (let i = 0; i < size; i++) step.data[i * size + i] = 1;
  for (let q = 0; q < weights.rows; q++) {
    const keys = weights.data.subarray(q * weights.columns, (q + 1) * weights.columns);
    if (keys.every((each) => each === 0)) continue;
    const start = (row + q) * size;
    step.data[start + row + q] = RESIDUAL_SHARE;
    keys.forEach((each, k) => { step.data[start + column + k] += RESIDUAL_SHARE * each; });
  }
  return step;
}

/** A directed graph with capacities. */
class FlowNetwork {
  /** @param {number} nodes number of nodes */
  constructor(nodes) {
    /** Numbers of the edges that leave each node. */
    this.edges = Array.from({ length: nodes }, () => /** @type {number[]} */ ([]));
    /** Node at the end of each edge; an edge and its reverse have neighbouring numbers. @type {number[]} */
    this.ends = [];
    /** @type {number[]} */
    this.capacities = [];
  }

  /**
   * Add an edge and its reverse.
   * @param {number} from
   * @param {number} to
   * @param {number} capacity
   */
  addEdge(from, to, capacity) {
    this.edges[from].push(this.ends.length);
    this.edges[to].push(this.ends.length + 1);
    this.ends.push(to, from);
    this.capacities.push(capacity, 0);
  }
}

/**
 * Compute the largest flow between two nodes (Dinic 1970), which fills the shortest paths first, all paths of one
 * length at a time.
 * @param {FlowNetwork} network
 * @param {number} from
 * @param {number} to
 * @returns {number}
 */
function computeMaxFlow(network, from, to) {
  const { edges, ends } = network;
  const capacities = Float64Array.from(network.capacities);
  const levels = new Int32Array(edges.length);
  const nextEdges = new Int32Array(edges.length);
  /** @type {(node: number, limit: number) => number} */
  const pushFlow = (node, limit) => {
    if (node === to) return limit;
    for (; nextEdges[node] < edges[node].length; nextEdges[node]++) {
      const edge = edges[node][nextEdges[node]];
      if (capacities[edge] < EPSILON || levels[ends[edge]] !== levels[node] + 1) continue;
      const pushed = pushFlow(ends[edge], Math.min(limit, capacities[edge]));
      if (pushed > 0) {
        capacities[edge] -= pushed;
        capacities[edge ^ 1] += pushed;
        return pushed;
      }
    }
    return 0;
  };
  let total = 0;
  while (computeLevels(network, capacities, { levels, from, to })) {
    nextEdges.fill(0);
    for (let pushed = pushFlow(from, Infinity); pushed > 0; pushed = pushFlow(from, Infinity)) total += pushed;
  }
  return total;
}

/**
 * Write the distance of each node from the first one into `levels`, in edges with capacity left, and return whether the
 * last node can be reached.
 * @param {FlowNetwork} network
 * @param {Float64Array} capacities that are left
 * @param {{levels: Int32Array, from: number, to: number}} search
 * @returns {boolean}
 */
function computeLevels({ edges, ends }, capacities, { levels, from, to }) {
  levels.fill(-1);
  levels[from] = 0;
  const queue = [from];
  for (const node of queue) {
    for (const edge of edges[node]) {
      if (capacities[edge] < EPSILON || levels[ends[edge]] >= 0) continue;
      levels[ends[edge]] = levels[node] + 1;
      queue.push(ends[edge]);
    }
  }
  return levels[to] >= 0;
}

/**
 * Build the network of all nodes that a node of the last level can reach, with an edge for each positive share.
 * @param {FloatMatrix[]} steps
 * @param {{node: number, size: number}} start
 * @returns {FlowNetwork}
 */
function buildNetwork(steps, { node, size }) {
  const network = new FlowNetwork(size * (steps.length + 1));
  let reached = new Set([node]);
  for (let level = steps.length; level > 0; level--) {
    const { data } = steps[level - 1];
    /** @type {Set<number>} */ const below = new Set();
    for (const row of reached) {
      for (let column = 0; column < size; column++) {
        const capacity = data[row * size + column];
        if (capacity < EPSILON) continue;
        network.addEdge(level * size + row, (level - 1) * size + column, capacity);
        below.add(column);
      }
    }
    reached = below;
  }
  return network;
}

/**
 * Compute the flow from a token of the last level to each of some inputs, one after the other.
 * @param {AttentionGraph} graph
 * @param {number} query number of the token
 * @param {number[]} inputs numbers of nodes
 * @yields {number} the flow of the next input
 */
export function* computeFlows({ steps, size, top }, query, inputs) {
  const node = top + query;
  const network = buildNetwork(steps, { node, size });
  for (const input of inputs) yield computeMaxFlow(network, steps.length * size + node, input);
}
