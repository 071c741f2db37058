"""Cases of ESP276 and ESP277, and of ESP202 for edges and attention: boxes, batches of graphs, axes of scores."""

from __future__ import annotations

import pytest

MIRROR = """
import torch

def mirror(image, target, w):
    boxes = target["boxes"]
    lines = target["lines"]
    {body}
    return image.flip(-1), boxes
"""


@pytest.mark.parametrize(
    "body",
    [
        "boxes[:, [0, 2]] = w - boxes[:, [0, 2]]",
        "boxes[:, 0::2] = w - boxes[:, 0::2]",
        "boxes[:, 1::2] = w - boxes[:, 1::2]",
        "boxes[..., [0, 2]] = image.shape[-1] - boxes[..., [0, 2]]",
        "boxes[:, [1, 3]] = w - 1 - boxes[:, [1, 3]]",
    ],
)
def test_a_mirror_that_keeps_the_order_of_the_edges_is_reported(body, found):
    assert found("ESP276", MIRROR.format(body=body)) == [body]


@pytest.mark.parametrize(
    "body",
    [
        "boxes[:, [0, 2]] = w - boxes[:, [2, 0]]",
        "boxes[:, [0, 2]] = w - boxes[:, [0, 2]]\n    boxes = boxes[:, [2, 1, 0, 3]]",
        "boxes[:, [0, 2]] = w - boxes[:, [0, 2]]\n    boxes[:, [0, 2]] = boxes[:, [2, 0]]",
        "boxes[:, 0] = w - boxes[:, 0]",
        "boxes[:, 0] = w - boxes[:, 0] - boxes[:, 2]",
        "lines[:, [0, 2]] = w - lines[:, [0, 2]]",
        "boxes[:, [0, 2]] = boxes[:, [0, 2]] / w",
    ],
)
def test_a_mirror_that_exchanges_the_edges_is_right(body, found):
    assert found("ESP276", MIRROR.format(body=body)) == []


COCO = """
import torch
from torchvision.ops import box_convert

class Coco:
    def __getitem__(self, i):
        image, w = self.image(i), 640
        anns = self.coco.loadAnns(self.coco.getAnnIds(i))
        boxes = torch.tensor([a["bbox"] for a in anns])
        {body}
        return image, {{"boxes": boxes, "labels": self.labels(anns)}}
"""
OVERLAP = """
from torchvision.ops import box_iou

def evaluate(model, loader):
    for images, target in loader:
        truth = target["boxes"]
        yield box_iou(truth, model(images)["found"])
"""


def test_boxes_of_coco_that_are_compared_as_corners_are_reported(found):
    files = {"data.py": COCO.format(body="pass"), "evaluate.py": OVERLAP}
    assert found("ESP276", files) == ['yield box_iou(truth, model(images)["found"])']


@pytest.mark.parametrize(
    "body",
    [
        'boxes = box_convert(boxes, "xywh", "xyxy")',
        "boxes[:, 2:] += boxes[:, :2]",
        "boxes[:, 2] = boxes[:, 0] + boxes[:, 2]",
        "boxes = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)",
    ],
)
def test_boxes_turned_into_corners_are_right(body, found):
    assert found("ESP276", {"data.py": COCO.format(body=body), "evaluate.py": OVERLAP}) == []


def test_a_mirror_of_boxes_of_coco_needs_their_width(found):
    mirror = "boxes[:, 0] = w - boxes[:, 0]"
    assert found("ESP276", COCO.format(body=mirror)) == [mirror]
    assert found("ESP276", COCO.format(body=f"{mirror} - boxes[:, 2]")) == []


COLLATE = """
import torch

def collate(graphs):
    xs, edges, offset = [], [], 0
    for i, g in enumerate(graphs):
        xs.append({node})
        edges.append({edge})
        offset += {node}.size(0)
    return torch.cat({xs}), torch.cat({edges}, dim=1)
"""


@pytest.mark.parametrize(
    ("node", "edge", "xs", "edges"),
    [
        ("g.x", "g.edge_index", "xs", "edges"),
        ("g['x']", "g['edge_index']", "xs, dim=0", "edges"),
        ("g.x", "g.edge_index", "[g.x for g in graphs]", "[g.edge_index for g in graphs]"),
        ("g.nodes", "g.edges", "[g.nodes for g in graphs], 0", "[g.edges for g in graphs]"),
    ],
)
def test_edges_that_keep_the_numbers_of_their_own_nodes_are_reported(node, edge, xs, edges, found):
    assert len(found("ESP277", COLLATE.format(node=node, edge=edge, xs=xs, edges=edges))) == 1


@pytest.mark.parametrize(
    ("node", "edge", "xs", "edges"),
    [
        ("g.x", "g.edge_index + offset", "xs", "edges"),
        ("g.x", "g.edge_index", "xs", "[e + 8 * i for i, e in enumerate(edges)]"),
        ("g.x", "g.edge_attr", "xs", "edges"),
        ("g.x", "g.edge_index", "torch.zeros(1)", "edges"),
    ],
)
def test_edges_with_an_offset_are_right(node, edge, xs, edges, found):
    assert found("ESP277", COLLATE.format(node=node, edge=edge, xs=xs, edges=edges)) == []


ATTENTION = """
import torch
import torch.nn.functional as F

def attend(h, edge_index, mask):
    src, dst = edge_index
    score = F.leaky_relu((h[src] * h[dst]).sum(-1))
    {weights}
    return torch.zeros_like(h).index_add(0, dst, a * h[src])
"""


@pytest.mark.parametrize(
    "weights", ["a = torch.softmax(score, dim=0)", "a = F.softmax(score, 0)", "a = score.softmax(dim=0)"]
)
def test_weights_of_all_edges_of_a_graph_are_reported(weights, found):
    assert found("ESP202", ATTENTION.format(weights=weights)) == [weights]


@pytest.mark.parametrize(
    "weights", ["a = softmax(score, dst)", "a = torch.softmax(score, dim=-1)", "a = torch.softmax(h[src], dim=1)"]
)
def test_weights_of_the_edges_of_one_node_are_right(weights, found):
    assert found("ESP202", ATTENTION.format(weights=weights)) == []


SCORES = """
import torch.nn.functional as F

def attend(q, k, v):
    s = {scores}
    w = F.softmax(s, dim={axis})
    return w @ v
"""


@pytest.mark.parametrize("scores", ["q @ k.transpose(-2, -1) / 8", "(q @ k.transpose(-1, -2)) * 0.1", "q @ k.mT"])
def test_weights_over_the_queries_are_reported_where_the_product_has_axes_in_front(scores, found):
    assert found("ESP202", SCORES.format(scores=scores, axis=1)) == ["w = F.softmax(s, dim=1)"]
    assert found("ESP202", SCORES.format(scores=scores, axis=-1)) == []


def test_a_plain_transpose_says_nothing_of_axes_in_front(found):
    assert found("ESP202", SCORES.format(scores="q @ k.t()", axis=1)) == []
    assert found("ESP202", SCORES.format(scores="q @ k.T", axis=1)) == []
