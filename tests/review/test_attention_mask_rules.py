"""Cases of ESP239 and ESP240: masks that come after the softmax, and masks that hide a position from itself."""

from __future__ import annotations

import pytest

AFTER = """
    import math
    import torch
    import torch.nn.functional as F

    def attend(scores, mask, values, dropout):
        weights = {weights}
        weights = {masked}
        return weights @ values
    """


@pytest.mark.parametrize(
    "weights",
    ["torch.softmax(scores, dim=-1)", "F.softmax(scores, -1)", "scores.softmax(-1)", "dropout(scores.softmax(-1))"],
)
@pytest.mark.parametrize("low", ["float('-inf')", "-1e9", "-math.inf", "torch.finfo(scores.dtype).min"])
def test_probabilities_filled_with_a_low_number_are_reported(found, weights, low):
    masked = f"weights.masked_fill(mask == 0, {low})"
    assert found("ESP239", AFTER.format(weights=weights, masked=masked)) == [f"weights = {masked}"]


def test_probabilities_that_callers_give_are_reported_where_they_are_filled(found):
    source = """
        import torch

        def weighted(weights, mask, values):
            return weights.masked_fill(mask, -1e9) @ values

        def attend(scores, mask, values):
            return weighted(scores.softmax(dim=-1), mask, values)
        """
    assert found("ESP239", source) == ["return weights.masked_fill(mask, -1e9) @ values"]


@pytest.mark.parametrize(
    ("weights", "masked"),
    [
        ("scores", "weights.masked_fill(mask, -1e9)"),
        ("torch.softmax(scores, dim=-1)", "weights.masked_fill(mask, 0.0)"),
        ("torch.log_softmax(scores, dim=-1)", "weights.masked_fill(mask, float('-inf'))"),
        ("torch.softmax(scores, dim=-1) if mask is None else scores", "weights.masked_fill(mask, -1e9)"),
        ("torch.softmax(scores, dim=-1).log()", "weights.masked_fill(mask, -1e9)"),
    ],
)
def test_scores_and_zeros_are_not_reported(found, weights, masked):
    assert found("ESP239", AFTER.format(weights=weights, masked=masked)) == []


CAUSAL = """
    import torch

    def attend(scores, n):
        mask = {mask}
        return scores.masked_fill({used}, float('-inf')).softmax(dim=-1)
    """


@pytest.mark.parametrize(
    ("mask", "used"),
    [
        ("torch.triu(torch.ones(n, n, dtype=torch.bool))", "mask"),
        ("torch.triu(torch.ones(n, n), diagonal=0)", "mask.bool()"),
        ("torch.ones(n, n).triu()", "mask == 1"),
        ("torch.triu(torch.ones(1, n, n), 0).bool()", "mask[None]"),
    ],
)
def test_a_triangle_with_its_diagonal_is_reported(found, mask, used):
    assert len(found("ESP240", CAUSAL.format(mask=mask, used=used))) == 1


def test_a_triangle_of_low_numbers_with_its_diagonal_is_reported(found):
    source = "import torch\n\ndef mask(n):\n    return torch.triu(torch.full((n, n), float('-inf')))\n"
    assert found("ESP240", source) == ["return torch.triu(torch.full((n, n), float('-inf')))"]


@pytest.mark.parametrize(
    ("mask", "used"),
    [
        ("torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)", "mask"),
        ("torch.tril(torch.ones(n, n)).bool()", "~mask"),
        ("torch.tril(torch.ones(n, n))", "mask == 0"),
        ("torch.triu(torch.full((n, n), float('-inf')), diagonal=1)", "mask < 0"),
        ("torch.triu(torch.ones(n, n), 1)", "mask.bool()"),
    ],
)
def test_a_triangle_without_its_diagonal_is_not_reported(found, mask, used):
    assert found("ESP240", CAUSAL.format(mask=mask, used=used)) == []


def test_a_triangle_that_counts_pairs_is_not_reported(found):
    source = "import torch\n\ndef pairs(x, n):\n    return x[torch.triu(torch.ones(n, n, dtype=torch.bool))]\n"
    assert found("ESP240", source) == []
