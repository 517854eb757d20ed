/**
 * Who takes how much from whom over all layers: rollout and flow (Abnar and Zuidema 2020).
 *
 * Weights are means over heads. A residual connection counts one half, the attention beside it the other half. A
 * decoder's last attentions reach into the encoder's last layer, so that both stacks are one graph.
 */

/** @typedef {{rows: number, columns: number, data: Float64Array}} Matrix */
/** @typedef {{name: string, tokens: string[]}} Axis */
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

/** @param {number} rows @param {number} columns @returns {Matrix} */
export function zeros(rows, columns) {
  return { rows, columns, data: new Float64Array(rows * columns) };
}

/** @param {number} size @returns {Matrix} */
export function identity(size) {
  const made = zeros(size, size);
  for (let i = 0; i < size; i++) made.data[i * size + i] = 1;
  return made;
}

/** The product of two matrices. @param {Matrix} left @param {Matrix} right @returns {Matrix} */
export function times(left, right) {
  const made = zeros(left.rows, right.columns);
  for (let i = 0; i < left.rows; i++) {
    for (let k = 0; k < left.columns; k++) {
      const share = left.data[i * left.columns + k];
      if (share === 0) continue;
      for (let j = 0; j < right.columns; j++) {
        made.data[i * right.columns + j] += share * right.data[k * right.columns + j];
      }
    }
  }
  return made;
}

/**
 * The mean over heads, each row of which sums to 1, or to 0 where a query sees nothing.
 * @param {{shape: number[], data: Float32Array}} weights [H, Q, K] @returns {Matrix}
 */
export function meanOfHeads({ shape: [heads, queries, keys], data }) {
  const made = zeros(queries, keys);
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
 * Why rollout and flow say nothing about this side, or an empty string.
 * @param {object} record @param {"encoder"|"decoder"} side @returns {string}
 */
export function obstacle(record, side) {
  const roles = side === "encoder" ? ["encoder"] : ["encoder", "decoder", "cross"];
  if (!roles.some((role) => ofSide(side).includes(role) && record.maps.some((map) => map.role === role))) {
    return `No attention of the ${side} is in this record.`;
  }
  for (const role of roles) {
    const there = new Set(record.maps.filter((map) => map.role === role).map((map) => map.layer));
    const missing = [...Array(Math.max(-1, ...there) + 1).keys()].filter((layer) => !there.has(layer));
    if (missing.length) {
      return `The ${role} layers ${missing.join(", ")} are not in this record: rollout and flow need all, so inspect without --layers.`;
    }
  }
  return "";
}

/** Roles of a side's attentions, in the order in which a token passes them. */
function ofSide(side) {
  return side === "encoder" ? ["encoder"] : ["decoder", "cross"];
}

/**
 * All attention of one side as one graph, with the encoder's below the decoder's.
 * @param {object} record @param {"encoder"|"decoder"} side @returns {Promise<Graph>}
 */
export async function graphOf(record, side) {
  const ordered = (stack) => {
    const roles = ofSide(stack);
    const maps = record.maps.filter((map) => roles.includes(map.role));
    return maps.sort((a, b) => a.layer - b.layer || roles.indexOf(a.role) - roles.indexOf(b.role));
  };
  const own = ordered(side);
  const maps = side === "encoder" ? own : [...ordered("encoder"), ...own];
  const sources = maps.flatMap(({ role, queries, keys }) => (role === "encoder" ? [queries, keys] : role === "cross" ? [keys] : []));
  const inputs = [...new Set(sources)].map((name) => record.axis(name));
  const reading = inputs.reduce((sum, axis) => sum + axis.tokens.length, 0);
  if (side === "decoder") inputs.push(axisRead(record, own));
  const size = inputs.reduce((sum, axis) => sum + axis.tokens.length, 0);
  const start = (name) => startOf(inputs, name);
  const steps = [];
  for (const map of maps) {
    const row = map.role === "encoder" ? start(map.queries) : reading;
    const column = map.role === "decoder" ? reading : start(map.keys);
    steps.push(stepOf(meanOfHeads(await map.weights()), { row, column, size }));
  }
  const last = maps[maps.length - 1];
  return { inputs, queries: record.axis(last.queries), top: side === "decoder" ? reading : start(last.queries), steps, size };
}

/** What a decoder read, by position; where the record does not say, what it wrote stands for it. */
function axisRead(record, maps) {
  const names = [...maps.filter((map) => map.role === "decoder").map((map) => map.keys), "read", maps[0].queries];
  const length = record.axis(maps[0].queries).tokens.length;
  const axes = names.map((name) => record.axes.find((axis) => axis.name === name));
  return axes.find((axis) => axis && axis.tokens.length === length);
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
  const made = identity(size);
  for (let q = 0; q < weights.rows; q++) {
    const seen = weights.data.subarray(q * weights.columns, (q + 1) * weights.columns);
    if (seen.every((each) => each === 0)) continue;
    const place = (row + q) * size;
    made.data[place + row + q] = HALF;
    seen.forEach((each, k) => (made.data[place + column + k] += HALF * each));
  }
  return made;
}

/**
 * The share that each node of the last level has of each input: rows sum to 1.
 * @param {Graph} graph @returns {Matrix} a row for each of the graph's queries
 */
export function rolled({ steps, size, top, queries }) {
  const { data } = steps.reduce((below, step) => times(step, below), identity(size));
  const rows = queries.tokens.length;
  return { rows, columns: size, data: data.slice(top * size, (top + rows) * size) };
}

/**
 * Rollout of a record.
 * @param {object} record @param {"encoder"|"decoder"} side
 * @returns {Promise<Matrix>} columns are the inputs of `graphOf`
 */
export async function rollout(record, side) {
  return rolled(await graphOf(record, side));
}

/** A directed graph with capacities. */
export class Network {
  /** @param {number} nodes */
  constructor(nodes) {
    this.out = Array.from({ length: nodes }, () => []);
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
