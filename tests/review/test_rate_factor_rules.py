"""Cases of ESP145: factors of a learning rate that a whole-number division makes zero."""

from __future__ import annotations

import pytest

HEAD = """
    import math
    from functools import partial
    from torch.optim.lr_scheduler import LambdaLR

    {body}
    """


@pytest.mark.parametrize(
    "body",
    [
        "def make(o, w):\n        return LambdaLR(o, lambda s: (s + 1) // w)",
        "def make(o, w):\n        return LambdaLR(o, lr_lambda=lambda s: min(1.0, s // w))",
        "def make(o, w):\n        return LambdaLR(o, [lambda s: s // w if s < w else 1.0])",
        "def make(o, w):\n        f = lambda s: float(s // w)\n        return LambdaLR(o, f)",
        "def factor(s):\n        return s // 500\n\n    def make(o):\n        return LambdaLR(o, factor)",
        (
            "def factor(w, s):\n        if s < w:\n            return s // w\n        return 1.0\n\n"
            "    def make(o, w):\n        return LambdaLR(o, partial(factor, w))"
        ),
        (
            "class T:\n        def factor(self, s):\n            x = (s + 1) // self.w\n            return x\n"
            "        def make(self, o):\n            return LambdaLR(o, self.factor)"
        ),
    ],
)
def test_a_factor_by_whole_number_division_is_reported(found, body):
    assert len(found("ESP145", HEAD.format(body=body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "def make(o, w):\n        return LambdaLR(o, lambda s: (s + 1) / w)",
        "def make(o):\n        return LambdaLR(o, lambda s: 0.95 ** (s // 10))",
        "def make(o):\n        return LambdaLR(o, lambda s: 1 / (1 + s // 10))",
        "def make(o):\n        return LambdaLR(o, lambda s: max(0.1, s // 10))",
        "def make(o):\n        return LambdaLR(o, lambda s: 1.0 - s // 10)",
        "def make(o, w):\n        f = lambda s: s // w\n        return f(3), LambdaLR(o, lambda s: 1.0)",
        "def make(o, rates):\n        return LambdaLR(o, lambda s: rates[s // 10])",
    ],
)
def test_a_step_in_an_exponent_or_a_sum_is_not_reported(found, body):
    assert found("ESP145", HEAD.format(body=body)) == []
