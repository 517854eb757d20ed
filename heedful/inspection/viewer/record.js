/** The inspection record that the page contains, and the types of its parts, which heedful/inspection/web.py writes. */

import { getSubarray, unpackArray } from "heedful/arrays.js";

/** @import { NumberArray, PackedArray } from "heedful/arrays.js" */

/** @typedef {"encoder" | "decoder" | "cross" | "summary"} AttentionRole */
/** @typedef {{name: string, start: number, stop: number}} TokenSpan a part of a text, such as a turn of a dialogue */
/**
 * @typedef {object} MapAxis
 * @property {string} name
 * @property {string[]} tokens
 * @property {"text" | "grid" | "frames"} kind
 * @property {string} size as text
 * @property {number | null} columns of a grid
 * @property {string[] | null} pictures as data URLs
 * @property {number} [aspect] width of a picture divided by its height
 * @property {number[]} marked positions that are known to matter
 * @property {TokenSpan[]} spans parts of a text
 */
/**
 * Measures of a head: means over the queries that see a key, as heedful/inspection/heads.py computes them; null if no
 * query has the measure.
 * @typedef {object} HeadMeasures
 * @property {number | null} entropy relative to the entropy of equal weights, from 0 to 1
 * @property {number | null} distance between query and key, in tokens; null if they are of different texts
 * @property {number | null} diagonal weight on the key with the position of the query
 * @property {number | null} previous weight on the key before that one
 * @property {number | null} next weight on the key after that one
 * @property {number | null} first weight on the first key
 * @property {number | null} last weight on the last key
 * @property {number | null} largest the largest weight
 * @property {boolean} uniform whether each query attends to all visible keys alike
 * @property {boolean} unchanging whether all queries that see the same keys have the same weights
 */
/**
 * The rollout of one side, as heedful/inspection/flow.py computes it, and the graph for attention flow.
 * @typedef {object} SideRollout
 * @property {undefined} [obstacle]
 * @property {string} queries name of an axis
 * @property {string[]} inputs names of axes
 * @property {number} top number of the first query among the nodes of the last level
 * @property {[map: number, row: number, column: number][]} steps index of a map, and the nodes of its first query and key
 * @property {PackedArray} shares [1, Q, I]
 */
/** @typedef {{obstacle: string}} MissingRollout the reason why a side has no rollout, in a sentence */
/**
 * Arrays of all steps of an attention from its queries to its outputs.
 * @template Numbers
 * @typedef {object} StepArrays
 * @property {Numbers} queries [H, Q, d_k]
 * @property {Numbers} keys [H, K, d_k]
 * @property {Numbers} values [H, K, d_v]
 * @property {number} scale factor of the scores
 * @property {Numbers | null} bias [H, Q, K] or [1, Q, K], of relative positions
 * @property {Numbers} scores [H, Q, K], scaled and with bias, before masking
 * @property {Numbers} contexts [H, Q, d_v]
 * @property {Numbers} inputs [Q, d_model]
 * @property {Numbers} outputs [Q, d_output]
 */
/** @typedef {StepArrays<NumberArray>} AttentionSteps */
/**
 * @typedef {object} PackedMap
 * @property {string} path of the attention module in the model
 * @property {AttentionRole} role
 * @property {number} layer
 * @property {number[]} heads numbers of the heads, in the order of the arrays
 * @property {string} queries name of an axis
 * @property {string} keys name of an axis
 * @property {PackedArray} weights [H, Q, K]
 * @property {PackedArray} visible [Q, K], 1 or 0
 * @property {StepArrays<PackedArray> | null} walk null if it was not recorded
 * @property {PackedArray | null} edges [H, Q-1, K, K], of a chain
 * @property {PackedArray} [edgesMean] their mean over heads, [Q-1, K, K]
 * @property {[keys: number[], probability: number][][]} [chains] the most probable chains of each head, and last of the mean
 * @property {HeadMeasures[]} measures of each head, and last of the mean over heads
 */
/**
 * @typedef {object} MapMethods
 * @property {string} label such as "cross 2"
 * @property {MapAxis} queryAxis
 * @property {MapAxis} keyAxis
 * @property {() => Promise<NumberArray>} loadWeights [H, Q, K]
 * @property {() => Promise<NumberArray>} loadVisible [Q, K], 1 or 0
 * @property {() => Promise<AttentionSteps | null>} loadSteps null if they were not recorded
 * @property {() => Promise<{heads: NumberArray, mean: NumberArray} | null>} loadEdges [H, Q-1, K, K], and their mean over
 *   heads; null if the map is not a chain
 */
/** @typedef {PackedMap & MapMethods} AttentionMap */
/**
 * @typedef {object} EmbeddedTokens
 * @property {string} side
 * @property {string} axis
 * @property {PackedArray} words [T, d]
 * @property {PackedArray | null} places [T, d]
 * @property {PackedArray | null} segments [T, d]
 */
/** @typedef {[token: string, logProbability: number]} TokenAlternative */
/**
 * @typedef {object} GeneratedToken
 * @property {string} token
 * @property {number} log_probability
 * @property {TokenAlternative[]} alternatives
 * @property {number | null} copy_probability of copying a token of the source; null if the model cannot copy
 */
/** @typedef {[name: string, probability: number, place: number | null]} AnswerOption */
/**
 * @typedef {object} ModelAnswer
 * @property {string} about what was asked, such as "tag"
 * @property {string} subject the token or word; empty for the whole text
 * @property {number | null} place position of its first token; null for the whole text
 * @property {number | null} number the answer if it is a number
 * @property {AnswerOption[]} options the most probable answers, best first
 */
/**
 * @typedef {object} BeamNode
 * @property {number} parent index of the node that it continues; -1 for the root
 * @property {string} token
 * @property {number} log_probability of all tokens up to here
 * @property {number | null} score by which finished texts are ranked; null for others
 * @property {"lived" | "ended" | "pruned"} fate
 * @property {boolean} best whether it is part of the returned text
 */
/** @typedef {{name: string, places: number[], vectors: PackedArray, relative: boolean}} PositionEncoding */
/** @typedef {{row: number, column: number, sizes: number[], options: AnswerOption[]}} Glimpse */
/**
 * A layer that reads tokens, as heedful/blocks/layer_info.py describes it.
 * @typedef {object} LayerInfo
 * @property {string} name
 * @property {string} side
 * @property {string} axis
 * @property {number | null} before positions to the left that a token sees; null for all
 * @property {number | null} after positions to the right that a token sees; null for all
 * @property {string[]} carries directions in which a state is passed on
 * @property {string} [starts] source of the initial state
 * @property {string[]} across names of the memories that a token attends to
 * @property {number | null} width
 */
/** @typedef {[x: number, y: number, row: number, step: number, name: string, about: string]} DiagramNode */
/**
 * The model unrolled over its tokens, as heedful/inspection/figures/unrolled.py lays it out.
 * @typedef {object} UnrolledModel
 * @property {DiagramNode[]} nodes
 * @property {[start: number, end: number][]} links indices of nodes
 * @property {[kind: string, path: string][]} courses lines of the diagram
 * @property {number[]} looking indices of the nodes that attend to a memory
 * @property {[x: number, y: number, anchor: string, name: string][]} names of the rows
 * @property {number} width
 * @property {number} height
 * @property {string} note
 * @property {Record<string, string>} kinds meaning of each kind of line
 * @property {[width: number, height: number]} box
 * @property {number} steps
 */
/** @typedef {{part: "embedding" | "output", side: string, size: number}} VectorSize */
/**
 * How much each input token contributes to outputs of the model.
 * @typedef {object} Attribution
 * @property {"gradient" | "integrated"} method
 * @property {number} steps
 * @property {"written" | "answers"} about
 * @property {number[]} places indices of the explained tokens or answers, one for each row
 * @property {string} unit of the scores
 * @property {string[]} axes names of the axes whose tokens are the columns
 * @property {PackedArray} scores [N, K]
 * @property {number[]} values explained log-probabilities or numbers
 * @property {number[] | null} baselines the same without words; null if the method does not need them
 * @property {number[] | null} gaps completeness errors
 * @property {boolean[] | null} complete whether the error of each row is small; null if there is none
 * @property {string[]} names of the rows
 */
/**
 * The parts of a record that the page uses as they are.
 * @typedef {object} RecordFields
 * @property {string} model kind of the model, in words
 * @property {string[]} notes
 * @property {MapAxis[]} axes
 * @property {Record<string, SideRollout | MissingRollout>} overall rollouts by side, "decoder" first
 * @property {EmbeddedTokens[]} embedded
 * @property {GeneratedToken[]} written
 * @property {ModelAnswer[]} answers
 * @property {BeamNode[]} tree
 * @property {PositionEncoding[]} encodings
 * @property {Glimpse[]} glimpses
 * @property {LayerInfo[]} levels
 * @property {string} said the generated text
 * @property {VectorSize[]} widths
 * @property {Attribution[]} attributions
 * @property {UnrolledModel | null} unrolled
 */
/** @typedef {RecordFields & {maps: PackedMap[]}} RecordPayload what `build_payload` of heedful/inspection/web.py returns */
/**
 * @typedef {object} RecordMethods
 * @property {AttentionMap[]} maps
 * @property {(name: string) => MapAxis} getAxis
 * @property {(role: string, layer: number) => AttentionMap | undefined} findMap
 * @property {() => AttentionRole[]} listRoles roles of the maps, in their order
 * @property {(role: string) => AttentionMap[]} listMaps maps of one role
 */
/** @typedef {RecordFields & RecordMethods} InspectionRecord */

/**
 * Read the record of this page.
 * @returns {InspectionRecord}
 */
export function readRecord() {
  return buildRecord(JSON.parse(document.getElementById("record")?.textContent ?? "null"));
}

/**
 * Add methods to a record and to its maps.
 * @param {RecordPayload} payload
 * @returns {InspectionRecord}
 */
export function buildRecord(payload) {
  const getAxis = (/** @type {string} */ name) => {
    const found = payload.axes.find((axis) => axis.name === name);
    if (!found) throw new Error(`no axis ${name} in this record`);
    return found;
  };
  const maps = payload.maps.map((map) => buildMap(map, getAxis));
  return {
    ...payload,
    maps,
    getAxis,
    findMap: (role, layer) => maps.find((map) => map.role === role && map.layer === layer),
    listRoles: () => [...new Set(maps.map((map) => map.role))],
    listMaps: (role) => maps.filter((map) => map.role === role),
  };
}

/**
 * @param {PackedMap} map
 * @param {(name: string) => MapAxis} getAxis
 * @returns {AttentionMap}
 */
function buildMap(map, getAxis) {
  return {
    ...map,
    label: `${map.role} ${map.layer}`,
    queryAxis: getAxis(map.queries),
    keyAxis: getAxis(map.keys),
    loadWeights: () => unpackArray(map.weights),
    loadVisible: () => unpackArray(map.visible),
    loadSteps: async () => map.walk && unpackSteps(map.walk),
    loadEdges: async () => map.edges && map.edgesMean
      ? { heads: await unpackArray(map.edges), mean: await unpackArray(map.edgesMean) }
      : null,
  };
}

/**
 * @param {StepArrays<PackedArray>} packed
 * @returns {Promise<AttentionSteps>}
 */
async function unpackSteps(packed) {
  return {
    scale: packed.scale,
    queries: await unpackArray(packed.queries),
    keys: await unpackArray(packed.keys),
    values: await unpackArray(packed.values),
    bias: packed.bias && await unpackArray(packed.bias),
    scores: await unpackArray(packed.scores),
    contexts: await unpackArray(packed.contexts),
    inputs: await unpackArray(packed.inputs),
    outputs: await unpackArray(packed.outputs),
  };
}

/**
 * Return the tokens of the queries and of the keys of a map.
 * @param {AttentionMap} map
 * @returns {{queries: string[], keys: string[]}}
 */
export function getTokens(map) {
  return { queries: map.queryAxis.tokens, keys: map.keyAxis.tokens };
}

/**
 * Load the weights [Q, K] of one head, or their mean over heads.
 * @param {AttentionMap} map
 * @param {number | "mean"} head its number in the model
 * @returns {Promise<NumberArray>}
 */
export async function loadHeadWeights(map, head) {
  const weights = await map.loadWeights();
  if (head !== "mean") return getSubarray(weights, map.heads.indexOf(head));
  const [heads, ...shape] = weights.shape;
  if (heads === 1) return getSubarray(weights, 0);
  const mean = new Float32Array(shape[0] * shape[1]);
  for (let h = 0; h < heads; h += 1) {
    const { data } = getSubarray(weights, h);
    for (let i = 0; i < mean.length; i += 1) mean[i] += data[i];
  }
  for (let i = 0; i < mean.length; i += 1) mean[i] /= heads;
  return { shape, data: mean };
}
