"""Cases of ESP294: masks in the order of a sort on what is not sorted."""

from __future__ import annotations

import pytest

FILTER = """
import torch
import torch.nn.functional as F


def top_p(logits, p):
    {body}
    return logits
"""
SORT = "values, order = torch.sort(logits, dim=-1, descending=True)"
MADE = ["cum = F.softmax(values, dim=-1).cumsum(-1)", "drop = cum > p"]
SHIFTED = ["drop[..., 1:] = drop[..., :-1].clone()", "drop[..., 0] = False"]
FILL = 'logits = logits.masked_fill(drop, float("-inf"))'

WRONG = {
    "filled": [SORT, *MADE, FILL],
    "shifted by one": [SORT, *MADE, *SHIFTED, FILL],
    "a method": ["values, order = logits.sort(dim=-1, descending=True)", *MADE, "logits.masked_fill_(drop, -1e9)"],
    "written by index": [SORT, *MADE, *SHIFTED, 'logits[drop] = -float("inf")'],
    "where": [SORT, *MADE, "logits = torch.where(drop, -1e9, logits)"],
    "in place of a name": [SORT, "logits[torch.cumsum(values.softmax(-1), dim=-1) > p] = -1e9"],
    "what is kept": [SORT, "keep = values.softmax(-1).cumsum(-1) <= p", "logits = logits.masked_fill(~keep, -1e9)"],
}
RIGHT = {
    "scattered": [SORT, *MADE, "drop = drop.scatter(-1, order, drop)", FILL],
    "scattered in place": [SORT, *MADE, "logits = logits.masked_fill(drop.scatter(1, order, drop), -1e9)"],
    "the sorted values": [SORT, *MADE, "values = values.masked_fill(drop, -1e9)", "logits = values.gather(-1, order)"],
    "indices that go": [SORT, *MADE, "gone = order[drop]", "logits[gone] = -1e9"],
    "a threshold": [SORT, "limit = values[..., 9:10]", "drop = logits < limit", FILL],
    "a threshold by the sum": [
        SORT,
        "n = (values.softmax(-1).cumsum(-1) < p).sum(-1, keepdim=True)",
        "logits = logits.masked_fill(torch.arange(9) > n, -1e9)",
    ],
    "sorted from here on": [SORT, *MADE, "logits = values", FILL],
    "sorted back": [SORT, *MADE, "drop = drop.gather(-1, order.argsort(-1))", FILL],
    "another mask": [SORT, *MADE, "logits = logits.masked_fill(logits.isnan(), 0)"],
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_mask_in_sorted_order_on_unsorted_values_is_reported(found, body):
    assert found("ESP294", FILTER.format(body="\n    ".join(body))) == [body[-1]]


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_masks_in_the_order_of_what_they_mask_are_left_alone(found, body):
    assert found("ESP294", FILTER.format(body="\n    ".join(body))) == []
