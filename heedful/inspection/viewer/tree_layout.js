/** Compute the positions of the branches of a beam's tree: a column for each step, the returned text in the first row. */

/** @import { BeamNode } from "heedful/record.js" */
/**
 * @typedef {object} BranchPosition
 * @property {number} node index in the tree of the record
 * @property {number} depth column; 0 for the root
 * @property {number} row
 */

/**
 * Compute the depth of each branch: the number of tokens up to it.
 * @param {{parent: number}[]} tree in any order
 * @returns {number[]}
 */
export function computeDepths(tree) {
  const depths = tree.map(() => -1);
  tree.forEach((_, node) => {
    const path = [];
    for (let each = node; each >= 0 && depths[each] < 0; each = tree[each].parent) path.push(each);
    const last = path[path.length - 1];
    if (last === undefined) return;
    let depth = tree[last].parent < 0 ? 0 : depths[tree[last].parent] + 1;
    for (const each of path.reverse()) depths[each] = depth++;
  });
  return depths;
}

/**
 * Lay out a tree. Each branch continues straight to its best child, and its other children get rows below. Branches
 * that do not meet share a row.
 * @param {BeamNode[]} tree
 * @param {{showPruned: boolean}} options whether pruned branches have a position
 * @returns {BranchPosition[]}
 */
export function layOutTree(tree, { showPruned }) {
  const depths = computeDepths(tree);
  const children = tree.map(() => /** @type {number[]} */ ([]));
  const roots = /** @type {number[]} */ ([]);
  tree.forEach((branch, node) => {
    if (!showPruned && branch.fate === "pruned" && !branch.best) return;
    (branch.parent < 0 ? roots : children[branch.parent]).push(node);
  });
  const compare = (/** @type {number} */ one, /** @type {number} */ other) => compareBranches(tree[one], tree[other]);
  const takenColumns = /** @type {Set<number>[]} */ ([]);
  const positions = /** @type {BranchPosition[]} */ ([]);
  const pending = roots.sort(compare).reverse().map((node) => ({ node, above: 0 }));
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { node, above } = next;
    const path = [node];
    for (let end = node; children[end].length; path.push(end)) [end] = children[end].sort(compare);
    const last = path[path.length - 1];
    const to = depths[last] + (tree[last].score === null ? 0 : 1);
    const row = takeFreeRow(takenColumns, { from: depths[node], to, above });
    path.forEach((each) => positions.push({ node: each, depth: depths[each], row }));
    for (const each of path) for (const other of children[each].slice(1).reverse()) pending.push({ node: other, above: row + 1 });
  }
  return positions;
}

/**
 * Compare two branches for sorting: the returned text first, then the longest living, then the most probable.
 * @param {BeamNode} one
 * @param {BeamNode} other
 */
function compareBranches(one, other) {
  return Number(other.best) - Number(one.best) || rankFate(other) - rankFate(one) || other.log_probability - one.log_probability;
}

/** @param {BeamNode} branch */
function rankFate({ fate }) {
  return { lived: 2, ended: 1, pruned: 0 }[fate];
}

/**
 * Take the first row, from `above` on, in which some columns are free.
 * @param {Set<number>[]} takenColumns of each row
 * @param {{from: number, to: number, above: number}} range
 */
function takeFreeRow(takenColumns, { from, to, above }) {
  const columns = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  for (let row = above; ; row++) {
    takenColumns[row] ??= new Set();
    const taken = takenColumns[row];
    if (columns.some((column) => taken.has(column))) continue;
    columns.forEach((column) => taken.add(column));
    return row;
  }
}
