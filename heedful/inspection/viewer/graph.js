/**
 * Attention flow (Abnar and Zuidema 2020): how much could pass to a token of the last layer if weights were widths of
 * pipes.
 *
 * Python has the same in heedful/inspection/flow.py, which also says which attentions make the graph and where, and has
 * computed rollout. Flow alone is computed here too, when a token is chosen: all pairs of a hundred tokens take minutes,
 * which would slow down the writing of a page, although few of them are ever looked at. A test keeps both equal.
 */

/** @typedef {import("heedful/record.js").Axis} Axis */
/** @typedef {import("heedful/record.js").Inspection} Inspection */
/** @typedef {{rows: number, columns: number, data: Float64Array}} Matrix */
/**
 * @typedef {object} Graph
 * @property {Axis[]} inputs what the nodes are on the lowest level, the same number of nodes on each level
 * @property {Axis} queries what some of them are on the highest one
 * @property {number} top number of the first of these
 * @property {Matrix[]} steps where each node takes from on the level below, from the tokens up; rows sum to 1
 * @property {number} size nodes of a level
 */

const HALF = 0.5;
const NOTHING = 1e-9;

/**
 * The mean over heads, each row of which sums to 1, or to 0 where a query sees nothing.
 * @param {{shape: number[], data: Float32Array}} weights [H, Q, K] @returns {Matrix}
 */
export function meanOfHeads({ shape: [heads, queries, keys], data }) {
  const made = { rows: queries, columns: keys, data: new Float64Array(queries * keys) };
  for (let h = 0; h < heads; h++) {
    for (let i = 0; i < queries * keys; i++) made.data[i] += data[h * queries * keys + i] / heads;
  }
  for (let q = 0; q < queries; q++) {
    const row = made.data.subarray(q * keys, (q + 1) * keys);
    const sum = row.reduce((total, each) => total + each, 0);
    if (Math.abs(sum) > NOTHING) row.forEach((each, k) => (row[k] = each / sum));
  }
  return made;
}

/**
 * All attention of one side as one graph, with the encoder's below the decoder's.
 * @param {Inspection} record @param {string} side one that has no obstacle @returns {Promise<Graph>}
 */
export async function graphOf(record, side) {
  const { queries, top, steps, ...overall } = record.overall[side];
  const inputs = overall.inputs.map((name) => record.axis(name));
  const size = inputs.reduce((sum, axis) => sum + axis.tokens.length, 0);
  const made = steps.map(async ([map, row, column]) => stepOf(meanOfHeads(await record.maps[map].weights()), { row, column, size }));
  return { inputs, queries: record.axis(queries), top, steps: await Promise.all(made), size };
}

/**
 * Number of an axis' first node.
 * @param {Axis[]} inputs @param {string} name @returns {number}
 */
export function startOf(inputs, name) {
  let start = 0;
  for (const axis of inputs) {
    if (axis.name === name) return start;
    start += axis.tokens.length;
  }
  throw new Error(`no axis ${name} among ${inputs.map((axis) => axis.name).join(", ")}`);
}

/** One half stays, the other is taken from what is looked at; all other nodes keep what they have. */
function stepOf(weights, { row, column, size }) {
  const made = { rows: size, columns: size, data: new Float64Array(size * size) };
  for (let i = 0; i < size; i++) made.data[i * size + i] = 1;
  for (let q = 0; q < weights.rows; q++) {
    const seen = weights.data.subarray(q * weights.columns, (q + 1) * weights.columns);
    if (seen.every((each) => each === 0)) continue;
    const place = (row + q) * size;
    made.data[place + row + q] = HALF;
    seen.forEach((each, k) => (made.data[place + column + k] += HALF * each));
  }
  return made;
}

/** A directed graph with capacities. */
export class Network {
  /** @param {number} nodes */
  constructor(nodes) {
    this.out = Array.from({ length: nodes }, () => /** @type {number[]} */ ([]));
    this.ends = [];
    this.capacities = [];
  }

  /** @param {number} from @param {number} to @param {number} capacity */
  join(from, to, capacity) {
    this.out[from].push(this.ends.length);
    this.out[to].push(this.ends.length + 1);
    this.ends.push(to, from);
    this.capacities.push(capacity, 0);
  }
}

/**
 * The largest flow from one node to another (Dinic 1970): shortest ways are filled, all of one length at a time.
 * @param {Network} network @param {number} from @param {number} to @returns {number}
 */
export function maxflow({ out, ends, capacities }, from, to) {
  const left = Float64Array.from(capacities);
  const level = new Int32Array(out.length);
  const next = new Int32Array(out.length);
  const push = (node, most) => {
    if (node === to) return most;
    for (; next[node] < out[node].length; next[node]++) {
      const edge = out[node][next[node]];
      if (left[edge] < NOTHING || level[ends[edge]] !== level[node] + 1) continue;
      const pushed = push(ends[edge], Math.min(most, left[edge]));
      if (pushed > 0) {
        left[edge] -= pushed;
        left[edge ^ 1] += pushed;
        return pushed;
      }
    }
    return 0;
  };
  let total = 0;
  while (measure(out, ends, left, { level, from, to })) {
    next.fill(0);
    for (let pushed = push(from, Infinity); pushed > 0; pushed = push(from, Infinity)) total += pushed;
  }
  return total;
}

/** Writes how many edges with capacity left lie between `from` and each node; whether `to` can be reached. */
function measure(out, ends, left, { level, from, to }) {
  level.fill(-1);
  level[from] = 0;
  const queue = [from];
  for (let i = 0; i < queue.length; i++) {
    for (const edge of out[queue[i]]) {
      if (left[edge] < NOTHING || level[ends[edge]] >= 0) continue;
      level[ends[edge]] = level[queue[i]] + 1;
      queue.push(ends[edge]);
    }
  }
  return level[to] >= 0;
}

/** All that a node of the last level can reach: an edge for each number of a step that is above zero. */
function networkOf(steps, { node, size }) {
  const network = new Network(size * (steps.length + 1));
  let reached = new Set([node]);
  for (let level = steps.length; level > 0; level--) {
    const { data } = steps[level - 1];
    const below = new Set();
    for (const row of reached) {
      for (let column = 0; column < size; column++) {
        const capacity = data[row * size + column];
        if (capacity < NOTHING) continue;
        network.join(level * size + row, (level - 1) * size + column, capacity);
        below.add(column);
      }
    }
    reached = below;
  }
  return network;
}

/**
 * How much can flow from a token of the last level to each of these inputs, one at a time.
 * @param {Graph} graph @param {number} query number of the token @param {number[]} inputs numbers of nodes
 * @returns {Generator<number>} in the order of the inputs, each computed when it is asked for
 */
export function* flows({ steps, size, top }, query, inputs) {
  const node = top + query;
  const network = networkOf(steps, { node, size });
  for (const input of inputs) yield maxflow(network, steps.length * size + node, input);
}
