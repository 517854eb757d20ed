/** What kind of head it is, in numbers; the definitions are those of heedful/inspection/heads.py. */

const UNIFORM = 0.99;
const STILL = 0.01;

/**
 * Means over the queries of a head that see anything; null where no query has what is measured. Weights are taken
 * relative to their sum.
 * @typedef {object} Measures
 * @property {number | null} entropy relative to that of equal weights on all that is visible, 0 to 1
 * @property {number | null} distance between query and key, in tokens; null where these are of different texts
 * @property {number | null} diagonal weight on the key with the query's own number
 * @property {number | null} previous on the key before that one
 * @property {number | null} next on the key behind it
 * @property {number | null} first on the first key
 * @property {number | null} last on the last key
 * @property {number | null} largest the largest weight
 * @property {boolean} uniform every query looks at all that it sees alike
 * @property {boolean} unchanging queries that see the same keys have the same weights
 */

/**
 * @param {import("heedful/arrays.js").Numbers} weights [Q, K] of one head
 * @param {Float32Array} visible [Q, K], 1 or 0
 * @param {boolean} sameAxis whether queries and keys are counted along the same text
 * @returns {Measures}
 */
export function measures({ shape: [rows, columns], data }, visible, sameAxis) {
  const shares = sharesOf(data, rows, columns);
  const means = Object.fromEntries(
    ["entropy", "distance", "diagonal", "previous", "next", "first", "last", "largest"].map((name) => [name, mean()]),
  );
  let uniform = null;
  for (let q = 0; q < rows; q += 1) {
    const row = shares.subarray(q * columns, (q + 1) * columns);
    const seen = count(visible, q * columns, columns);
    if (!seen) continue;
    const { entropy, distance, largest } = sums(row, q);
    if (seen > 1) {
      means.entropy.add(entropy / Math.log(seen));
      uniform = uniform !== false && entropy / Math.log(seen) > UNIFORM;
    }
    if (sameAxis) means.distance.add(distance);
    means.largest.add(largest);
    means.first.add(row[0]);
    means.last.add(row[columns - 1]);
    for (const [name, k] of /** @type {[string, number][]} */ ([["diagonal", q], ["previous", q - 1], ["next", q + 1]])) {
      if (k >= 0 && k < columns) means[name].add(row[k]);
    }
  }
  const values = Object.fromEntries(Object.entries(means).map(([name, { value }]) => [name, value()]));
  return /** @type {Measures} */ ({ ...values, uniform: uniform === true, unchanging: unchanging(shares, visible, rows, columns) });
}

/** A mean that grows. */
function mean() {
  let [total, many] = [0, 0];
  return {
    add: (/** @type {number} */ number) => {
      total += number;
      many += 1;
    },
    value: () => (many ? total / many : null),
  };
}

/**
 * Weights relative to the sums of their rows; rows without weight stay zero.
 * @param {Float32Array} data
 * @param {number} rows
 * @param {number} columns
 */
function sharesOf(data, rows, columns) {
  const shares = new Float64Array(data.length);
  for (let start = 0; start < rows * columns; start += columns) {
    let sum = 0;
    for (let i = start; i < start + columns; i += 1) sum += Math.abs(data[i]);
    if (sum > 0) for (let i = start; i < start + columns; i += 1) shares[i] = Math.abs(data[i]) / sum;
  }
  return shares;
}

/**
 * @param {Float64Array} row
 * @param {number} q
 */
function sums(row, q) {
  let [entropy, distance, largest] = [0, 0, 0];
  for (let k = 0; k < row.length; k += 1) {
    if (row[k] > 0) entropy -= row[k] * Math.log(row[k]);
    distance += row[k] * Math.abs(q - k);
    if (row[k] > largest) largest = row[k];
  }
  return { entropy, distance, largest };
}

/**
 * @param {Float32Array} visible
 * @param {number} start
 * @param {number} length
 */
function count(visible, start, length) {
  let seen = 0;
  for (let i = start; i < start + length; i += 1) seen += visible[i];
  return seen;
}

/**
 * Whether no weight changes between queries that see the same keys, more than one; false where no two do.
 * @param {Float64Array} shares
 * @param {Float32Array} visible
 * @param {number} rows
 * @param {number} columns
 */
function unchanging(shares, visible, rows, columns) {
  /** @type {Map<string, {low: Float64Array, high: Float64Array, size: number}>} */
  const groups = new Map();
  let compared = false;
  for (let q = 0; q < rows; q += 1) {
    const start = q * columns;
    if (count(visible, start, columns) < 2) continue;
    const row = shares.subarray(start, start + columns);
    const key = visible.subarray(start, start + columns).join("");
    const group = groups.get(key);
    if (!group) {
      groups.set(key, { low: row.slice(), high: row.slice(), size: 1 });
      continue;
    }
    compared = true;
    for (let k = 0; k < columns; k += 1) {
      if (row[k] < group.low[k]) group.low[k] = row[k];
      if (row[k] > group.high[k]) group.high[k] = row[k];
      if (group.high[k] - group.low[k] >= STILL) return false;
    }
  }
  return compared;
}

/**
 * What is to be said of a head that looks at nothing in particular, or always at the same.
 * @param {Measures} measured
 * @returns {string} empty where there is nothing to say
 */
export function warning({ uniform, unchanging: still }) {
  if (uniform) return "Every token that it sees gets the same weight: its entropy is above 99 % of the largest for every query.";
  if (still) return "It never changes: the weights are the same for all queries that see the same tokens.";
  return "";
}
