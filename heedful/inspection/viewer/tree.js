/** Where the branches of a beam's tree are in its picture: a column for each step, the returned text on the first row. */

/**
 * @typedef {object} Place
 * @property {number} node number in the record's tree
 * @property {number} depth column, the root's is 0
 * @property {number} row
 */

/**
 * Depth of each branch: how many tokens were written with it.
 * @param {{parent: number}[]} tree parents stand anywhere
 * @returns {number[]}
 */
export function depths(tree) {
  const found = tree.map(() => -1);
  tree.forEach((_, node) => {
    const path = [];
    for (let each = node; each >= 0 && found[each] < 0; each = tree[each].parent) path.push(each);
    const last = path[path.length - 1];
    if (last === undefined) return;
    let depth = tree[last].parent < 0 ? 0 : found[tree[last].parent] + 1;
    for (const each of path.reverse()) found[each] = depth++;
  });
  return found;
}

/**
 * Rows are shared by branches that do not meet: each continues straight to its best child, and others branch off below.
 * @param {{parent: number, log_probability: number, best: boolean, fate: string, score: number|null}[]} tree
 * @param {{pruned: boolean}} shown whether pruned branches have a place
 * @returns {Place[]}
 */
export function layout(tree, { pruned }) {
  const depth = depths(tree);
  const children = tree.map(() => []);
  const roots = [];
  tree.forEach((branch, node) => {
    if (!pruned && branch.fate === "pruned" && !branch.best) return;
    (branch.parent < 0 ? roots : children[branch.parent]).push(node);
  });
  const rank = (a, b) => Number(tree[b].best) - Number(tree[a].best) || lives(tree[b]) - lives(tree[a]) || tree[b].log_probability - tree[a].log_probability;
  const taken = [];
  const places = [];
  const pending = roots.sort(rank).reverse().map((node) => ({ node, above: 0 }));
  while (pending.length) {
    const { node, above } = /** @type {{node: number, above: number}} */ (pending.pop());
    const chain = [node];
    for (let next = node; children[next].length; chain.push(next)) [next] = children[next].sort(rank);
    const last = chain[chain.length - 1];
    const end = depth[last] + (tree[last].score === null ? 0 : 1);
    const row = free(taken, { from: depth[node], to: end, above });
    chain.forEach((each) => places.push({ node: each, depth: depth[each], row }));
    for (const each of chain) for (const other of children[each].slice(1).reverse()) pending.push({ node: other, above: row + 1 });
  }
  return places;
}

function lives({ fate }) {
  return { lived: 2, ended: 1, pruned: 0 }[fate] ?? 0;
}

/** The first row from `above` on where these columns are free; takes them. */
function free(taken, { from, to, above }) {
  for (let row = above; ; row++) {
    taken[row] ??= new Set();
    const columns = Array.from({ length: to - from + 1 }, (_, i) => from + i);
    if (columns.some((column) => taken[row].has(column))) continue;
    columns.forEach((column) => taken[row].add(column));
    return row;
  }
}
