// Folds parallel nodes of a large graph into one with a count. Pure.

/** From this number of nodes on a graph is folded at first. */
export const LARGE = 60;

/**
 * Groups of two and more nodes with the same role and the same neighbours; each other node is a group of its own.
 * @param {any[]} nodes @param {any[]} edges
 * @returns {{groups: {id: string, members: any[]}[], edges: {id: string, from: string, to: string, both: boolean, edge: any}[]}}
 */
export function fold(nodes, edges, folds) {
  const around = new Map(nodes.map((node) => [node.id, []]));
  for (const { from, to } of edges) {
    around.get(from)?.push(`>${to}`);
    around.get(to)?.push(`<${from}`);
  }
  const byKey = new Map();
  for (const node of nodes) {
    const key = folds ? `${node.roleTemplate} ${around.get(node.id).sort().join(" ")}` : node.id;
    byKey.set(key, [...(byKey.get(key) ?? []), node]);
  }
  const groups = [...byKey.values()].map((members) => ({ id: members[0].id, members }));
  const groupOf = new Map(groups.flatMap((group) => group.members.map((node) => [node.id, group.id])));
  const seen = new Map();
  for (const edge of edges) {
    const [from, to] = [groupOf.get(edge.from), groupOf.get(edge.to)];
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${from} ${to}`;
    if (!seen.has(key)) seen.set(key, { id: edge.id, from, to, both: edge.bidirectional, edge });
  }
  return { groups, edges: [...seen.values()] };
}
