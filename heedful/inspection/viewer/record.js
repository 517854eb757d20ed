/** The record that the page carries: what heedful/inspection/web.py writes, with arrays unpacked when asked for. */

import { at, part, unpack } from "heedful/arrays.js";

export { at, part };

/** @typedef {import("heedful/arrays.js").Numbers} Numbers */
/** @typedef {{name: string, start: number, stop: number}} Span */
/**
 * @typedef {object} Axis
 * @property {string} name
 * @property {string[]} tokens
 * @property {"text" | "grid" | "frames"} kind
 * @property {string} size as users read it
 * @property {number | null} columns of a grid
 * @property {string[] | null} pictures addresses that hold them
 * @property {number} [aspect] how many times wider than high they are
 * @property {number[]} marked places known to matter
 * @property {Span[]} spans parts of a text
 */
/** @typedef {"encoder" | "decoder" | "cross" | "summary"} Role */
/**
 * What kind of head it is: means over the queries that see anything, as heedful/inspection/heads.py computes them; null
 * where no query has what is measured.
 * @typedef {object} Measures
 * @property {number | null} entropy relative to that of equal weights on all that is visible, 0 to 1
 * @property {number | null} distance between query and key, in tokens; null where these are of different texts
 * @property {number | null} diagonal weight on the key with the query's own number
 * @property {number | null} previous on the key before that one
 * @property {number | null} next on the key after it
 * @property {number | null} first on the first key
 * @property {number | null} last on the last key
 * @property {number | null} largest the largest weight
 * @property {boolean} uniform every query looks at all that it sees alike
 * @property {boolean} unchanging queries that see the same keys have the same weights
 */
/**
 * All attention of one side, as heedful/inspection/flow.py joins it; or an obstacle, and nothing else.
 * @typedef {object} Overall
 * @property {string} [obstacle] why there is nothing, in a sentence
 * @property {string} queries name of an axis
 * @property {string[]} inputs names of axes
 * @property {number} top number of the first query among the nodes of the last level
 * @property {[number, number, number][]} steps index of a map, and the nodes of its first query and key
 * @property {any} shares rollout, packed [1, Q, I]
 */
/**
 * @typedef {object} AttentionMap
 * @property {string} path where the attention is in the model
 * @property {Role} role
 * @property {number} layer
 * @property {number[]} heads numbers of the heads, in the order of the arrays
 * @property {string} queries name of an axis
 * @property {string} keys name of an axis
 * @property {string} label such as "cross 2"
 * @property {any} walk as packed; null where it was not recorded
 * @property {() => Promise<Numbers>} weights [H, Q, K]
 * @property {() => Promise<Numbers>} visible [Q, K], 1 or 0
 * @property {() => Promise<Record<string, any> | null>} walkArrays the walk with its arrays unpacked, and `scale`; null where it was not recorded
 * @property {object | null} edges of a chain, as packed
 * @property {() => Promise<{heads: Numbers, mean: Numbers}>} joint these: [H, Q-1, K, K], and their mean over heads
 * @property {[number[], number][][]} [chains] the most probable ones with their probability: of each head, and last of the mean
 * @property {Measures[]} measures of each head, and last of the mean over heads
 * @property {Axis} queryAxis
 * @property {Axis} keyAxis
 */
/**
 * @typedef {object} Inspection
 * @property {string} model
 * @property {string[]} notes
 * @property {Axis[]} axes
 * @property {AttentionMap[]} maps
 * @property {Record<string, Overall>} overall by side, "decoder" first
 * @property {{side: string, axis: string, words: any, places: any, segments: any}[]} embedded packed; see `unpack`
 * @property {{token: string, log_probability: number, alternatives: [string, number][]}[]} written
 * @property {{about: string, subject: string, place: number | null, number: number | null, options: [string, number, number | null][]}[]} answers
 * @property {{parent: number, token: string, log_probability: number, score: number | null, fate: string, best: boolean}[]} tree
 * @property {{name: string, places: number[], vectors: any, relative: boolean}[]} encodings packed
 * @property {{row: number, column: number, sizes: number[], options: [string, number, number | null][]}[]} glimpses
 * @property {any[]} levels layers that read tokens, as heedful/blocks/layer_info.py describes them
 * @property {string} said all that was written
 * @property {{part: "embedding" | "output", side: string, size: number}[]} widths
 * @property {any[]} attributions packed; see heedful/mattered.js
 * @property {any} unrolled the diagram of the model, laid out as heedful/inspection/figures/unrolled.py does; null for none
 * @property {(name: string) => Axis} axis
 * @property {(role: Role, layer: number) => AttentionMap | undefined} findMap
 * @property {() => Role[]} roles those that are there, in the order of the maps
 * @property {(role: Role) => AttentionMap[]} layers maps of one role
 */

/**
 * The record of this page.
 * @returns {Inspection}
 */
export function readRecord() {
  return recordOf(JSON.parse(document.getElementById("record")?.textContent ?? "null"));
}

/**
 * @param {any} payload as written by `payload` of heedful/inspection/web.py
 * @returns {Inspection}
 */
export function recordOf(payload) {
  const axis = (/** @type {string} */ name) => {
    const found = payload.axes.find((/** @type {Axis} */ each) => each.name === name);
    if (!found) throw new Error(`no axis ${name} in this record`);
    return found;
  };
  const maps = payload.maps.map((/** @type {any} */ each) => mapOf(each, axis));
  return {
    ...payload,
    maps,
    axis,
    findMap: (role, layer) => maps.find((/** @type {AttentionMap} */ each) => each.role === role && each.layer === layer),
    roles: () => [...new Set(maps.map((/** @type {AttentionMap} */ each) => each.role))],
    layers: (role) => maps.filter((/** @type {AttentionMap} */ each) => each.role === role),
  };
}

/**
 * @param {any} each
 * @param {(name: string) => Axis} axis
 * @returns {AttentionMap}
 */
function mapOf(each, axis) {
  return {
    ...each,
    label: `${each.role} ${each.layer}`,
    queryAxis: axis(each.queries),
    keyAxis: axis(each.keys),
    weights: () => unpack(each.weights),
    visible: () => unpack(each.visible),
    joint: async () => ({ heads: await unpack(each.edges), mean: await unpack(each.edgesMean) }),
    walkArrays: async () => {
      if (!each.walk) return null;
      const isPacked = (/** @type {any} */ value) => typeof value === "object" && value !== null;
      const pairs = Object.entries(each.walk).map(async ([name, value]) => [name, isPacked(value) ? await unpack(value) : value]);
      return Object.fromEntries(await Promise.all(pairs));
    },
  };
}

/**
 * Tokens of both sides of a map, as they are in the text.
 * @param {AttentionMap} map
 * @returns {{queries: string[], keys: string[]}}
 */
export function tokensOf(map) {
  return { queries: map.queryAxis.tokens, keys: map.keyAxis.tokens };
}

/**
 * The weights [Q, K] of one head, by its number in the model, or their mean over heads.
 * @param {AttentionMap} map
 * @param {number | "mean"} head
 * @returns {Promise<Numbers>}
 */
export async function matrixOf(map, head) {
  const weights = await map.weights();
  if (head !== "mean") return part(weights, map.heads.indexOf(head));
  const [heads, ...shape] = weights.shape;
  if (heads === 1) return part(weights, 0);
  const mean = new Float32Array(shape[0] * shape[1]);
  for (let h = 0; h < heads; h += 1) {
    const { data } = part(weights, h);
    for (let i = 0; i < mean.length; i += 1) mean[i] += data[i];
  }
  for (let i = 0; i < mean.length; i += 1) mean[i] /= heads;
  return { shape, data: mean };
}

/** Characters that do not show, or that change how others show: controls, formats, separators, lone surrogates. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

/**
 * A token with a sign for every character that would not show.
 * @param {string} token
 * @returns {string}
 */
export function display(token) {
  if (token === "") return "∅";
  const spaced = token.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
  return spaced.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code === 0x200c || code === 0x200d) return character; // Persian words and emoji need them
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

/**
 * @param {string} text
 * @param {number} length in characters
 * @returns {string} with an ellipsis where something is missing
 */
export function shortened(text, length) {
  const letters = [...text];
  return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}…`;
}
