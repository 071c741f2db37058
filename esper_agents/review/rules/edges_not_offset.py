"""ESP277: graphs are joined to a batch, and their edges keep the numbers of their own nodes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import SEEN, FileRule
from esper_agents.review.softmaxes import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_EDGES = pattern(r"edge_?(?:index|indices|idx|list)|edges|edge_pairs")
_JOINS = ("torch.cat", "torch.concat", "torch.concatenate", "torch.hstack")


class EdgesNotOffset(FileRule):
    """A batch of graphs whose nodes are joined one after the other, and whose edges are joined as they are.

    ## Why it costs
    The nodes of the second graph follow those of the first. Edges that still count from 0 all connect nodes of the
    first graph: the others have none, and messages cross between graphs. The shapes fit, and nothing raises.

    ## When it is right
    Edges to which the number of earlier nodes is added: `edge_index + offset`.

    ## Sources
    PyTorch Geometric documentation, "Advanced Mini-Batching": adjacency matrices are stacked diagonally, and edge
    indices are incremented by the number of nodes.
    """

    code, name = "ESP277", "edges-not-offset"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def collate(graphs):\n"
        "    x = torch.cat([g.x for g in graphs])\n"
        "    edges = torch.cat([g.edge_index for g in graphs], dim=1)\n"
        "    return x, edges\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def collate(graphs):\n"
        "    x, edges, offset = torch.cat([g.x for g in graphs]), [], 0\n"
        "    for g in graphs:\n"
        "        edges.append(g.edge_index + offset)\n"
        "        offset += len(g.x)\n"
        "    return x, torch.cat(edges, dim=1)\n"
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the joins of edges that keep the numbers of their own nodes."""
        joins = file.calls_to(*_JOINS)
        for call in joins:
            if call.function.is_module or not _is_along(call, {1, -1}):
                continue
            graphs = _graphs(call, edges=True)
            others = [each for each in joins if each.function is call.function and _is_along(each, {0})]
            if graphs and any(_graphs(each, edges=False) == graphs for each in others):
                yield self.hit(
                    call.node,
                    "the edges of each graph still count its own nodes from 0, while the nodes are joined one after "
                    "the other: all edges point into the first graph",
                    remedy="add the number of earlier nodes to the edges of each graph",
                    basis=SEEN,
                )


def _is_along(call: Call, axes: set[int]) -> bool:
    given = call.argument(1, "dim") or call.argument(1, "axis")
    axis = 0 if given is None else written(given)
    return axis in axes or (call.tail == "hstack" and 1 in axes)


def _graphs(call: Call, *, edges: bool) -> str:
    """Return what the parts of a join are taken of, graph by graph: the edges of each as they are, or its nodes."""
    given = call.argument(0, "tensors")
    match given:
        case (
            ast.ListComp(elt=part, generators=[ast.comprehension(target=ast.Name(id=one), iter=over, ifs=[])])
            | ast.GeneratorExp(elt=part, generators=[ast.comprehension(target=ast.Name(id=one), iter=over, ifs=[])])
        ):
            return ast.unparse(over) if _is_part(part, one, edges=edges) else ""
        case ast.Name(id=name):
            added = [each for each in call.function.calls if each.tail == "append" and each.receiver == name]
            loop = added[0].block.loop if len(added) == 1 else None
            if loop is None or not isinstance(loop.node, ast.For) or not added[0].node.args:
                return ""
            over = loop.node.iter
            if isinstance(over, ast.Call) and dotted(over.func) == "enumerate" and over.args:
                over = over.args[0]
            is_part = any(_is_part(added[0].node.args[0], one, edges=edges) for one in loop.targets)
            return ast.unparse(over) if is_part else ""
        case _:
            return ""


def _is_part(part: ast.expr, graph: str, *, edges: bool) -> bool:
    """Return whether an expression is the edges of a graph as they are, or another part of it."""
    match part:
        case ast.Attribute(value=ast.Name(id=name), attr=key):
            pass
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
            pass
        case _:
            return False
    return name == graph and (_EDGES.fullmatch(tail_of(key)) is not None) is edges
