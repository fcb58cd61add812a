"""Rows and columns of the boxes in one container: the longest path is the spine, the rest is beside it."""

from collections import defaultdict

import networkx as nx


def acyclic(nodes: list[str], links: list[tuple[str, str]]) -> nx.DiGraph:
    """The links as a graph without cycles: a link that would close one is left out."""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    for a, b in links:
        if a != b and not nx.has_path(graph, b, a):
            graph.add_edge(a, b)
    return graph


def ranks(graph: nx.DiGraph, fed: set[str]) -> dict[str, int]:
    """Row of each node: under its sources. A source not fed from outside stands right above its target."""
    rank: dict[str, int] = {}
    order = list(nx.topological_sort(graph))
    for node in order:
        rank[node] = max((rank[p] + 1 for p in graph.predecessors(node)), default=0)
    for node in reversed(order):
        if node not in fed and not graph.in_degree(node) and graph.out_degree(node):
            rank[node] = min(rank[s] for s in graph.successors(node)) - 1
    return rank


def columns(graph: nx.DiGraph, rank: dict[str, int], leaving: set[str], fed: set[str]) -> dict[str, int]:
    """Column of each node: 0 for the spine, negative to the left, positive to the right."""
    column: dict[str, int] = {}
    taken: dict[int, set[int]] = defaultdict(set)
    last = max(rank.values(), default=0)
    chains = _chains(graph)
    for number, chain in enumerate(chains):
        rows = _rows(graph, rank, chain, last if chain[-1] in leaving else -1)
        chosen = 0
        if number:
            tops = [column[p] for p in graph.predecessors(chain[0]) if p in column]
            chosen = _free(rows, taken, side=_side(tops, taken))
        taken[chosen] |= rows
        column.update(dict.fromkeys(chain, chosen))
    return column


def _chains(graph: nx.DiGraph) -> list[list[str]]:
    """Cut the graph into paths, each the best of what is left; the first is the spine."""
    rest = graph.copy()
    position = {n: i for i, n in enumerate(graph)}
    chains = []
    while rest:
        chains.append(_best_path(graph, rest, position))
        rest.remove_nodes_from(chains[-1])
    return chains[:1] + sorted(chains[1:], key=lambda c: position[c[0]])


def _best_path(graph: nx.DiGraph, rest: nx.DiGraph, position: dict[str, int]) -> list[str]:
    """The longest path; among equals the one that skips no box of its own, with the most edges."""
    best: dict[str, list[tuple]] = {}
    for node in nx.topological_sort(rest):
        before = [path for p in rest.predecessors(node) for path in best[p]] or [(0, 0, 0, 0, ())]
        paths = []
        for length, skips, edges, _, path in before:
            skips -= sum(p in path[:-1] for p in graph.predecessors(node))
            path = (*path, node)
            paths.append((length + 1, skips, edges + graph.degree(node), -position[path[0]], path))
        best[node] = sorted(paths)[-8:]  # a few, as a later node may turn a good start into a skip
    return list(max(path for paths in best.values() for path in paths)[-1])


def _rows(graph: nx.DiGraph, rank: dict[str, int], chain: list[str], last: int) -> set[int]:
    """Rows a chain occupies, with those its line runs through from its source and to its last target."""
    above = [rank[p] + 1 for p in graph.predecessors(chain[0])]
    below = [rank[s] - 1 for n in chain for s in graph.successors(n)]
    first = min([rank[chain[0]], *above])
    return set(range(first, max([rank[chain[-1]], last, *below]) + 1))


def _side(tops: list[int], taken: dict[int, set[int]]) -> int:
    """The side a chain belongs to: that of what feeds it, else the emptier one, the left first."""
    sides = {1 if c > 0 else -1 for c in tops if c}
    if len(sides) == 1:
        return sides.pop()
    left = sum(len(rows) for c, rows in taken.items() if c < 0)
    right = sum(len(rows) for c, rows in taken.items() if c > 0)
    return -1 if left <= right else 1


def _free(rows: set[int], taken: dict[int, set[int]], side: int) -> int:
    column = side
    while taken[column] & rows:
        column += side
    return column
