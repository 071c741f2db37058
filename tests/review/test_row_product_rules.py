"""Cases of ESP409 on loops that multiply one row at a time."""

from __future__ import annotations

import pytest

SCORES = """
    import torch
    import torch.nn.functional as F

    class Index:
        def __init__(self, vectors):
            self.vectors = vectors

        def scores(self, query):
            scores = []
            for row in {rows}:
                scores.append({score})
            return scores
    """


@pytest.mark.parametrize(
    "score",
    [
        "torch.dot(row, query).item()",
        "(row * query).sum().item()",
        "float(row @ query)",
        "row.dot(query).item()",
        "F.cosine_similarity(query, row, dim=0).item()",
    ],
)
def test_a_loop_that_multiplies_rows_is_advice(found, score):
    assert found("ESP409", SCORES.format(rows="self.vectors", score=score)) == ["for row in self.vectors:"]


@pytest.mark.parametrize(
    ("rows", "score"),
    [
        ("self.vectors", "self.model(row, query).item()"),
        ("self.vectors", "torch.dot(row, row).item()"),
        ("self.loader()", "torch.dot(row, query).item()"),
        ("self.vectors", "row.name"),
    ],
)
def test_other_loops_are_not_reported(found, rows, score):
    assert found("ESP409", SCORES.format(rows=rows, score=score)) == []
