// Lays a graph out, beside the page: 500 nodes take a second.
// A worker has no import map, so that the library is named by its path.
import { graphlib, layout } from "/vendor/@dagrejs/dagre@3.1.3/dist/dagre.esm.js";

onmessage = ({ data: { number, nodes, edges, width, height } }) => {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 70, marginx: 24, marginy: 24 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of nodes) graph.setNode(id, { width, height });
  for (const [from, to] of edges) graph.setEdge(from, to);
  layout(graph);
  const positions = {};
  for (const id of nodes) {
    const { x, y } = graph.node(id);
    positions[id] = { x: Math.round(x - width / 2), y: Math.round(y - height / 2) };
  }
  postMessage({ number, positions });
};
