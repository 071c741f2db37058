"""Pairs whose true ratio is known by construction: the same unit of work, done 40 times against 40 times the ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

UNITS = 40

_UNITS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "tanh": (torch.tanh, "randn(32,256)"),
    "matmul": (lambda x: x @ x, "randn(96,96)"),
    "norm": (lambda x: functional.layer_norm(x, x.shape[-1:]), "randn(64,256)"),
    "softmax": (lambda x: functional.softmax(x, -1), "randn(64,128)"),
    "dispatch": (lambda x: x.add(1.0).mul(2.0).sub(3.0), "randn(8)"),
    "reduction": (lambda x: x.sum(0), "randn(64,64)"),
}
WORKLOADS = {name: text for name, (_, text) in _UNITS.items()}


def _repeated(name: str, times: int) -> Callable[[torch.Tensor], torch.Tensor]:
    unit = _UNITS[name][0]

    def run(x: torch.Tensor) -> torch.Tensor:
        y = unit(x)
        for _ in range(times - 1):
            y = unit(x)
        return y

    return run


for _name in WORKLOADS:
    for _percent in (100, 120, 125, 130, 150):
        globals()[f"{_name}_{_percent}"] = _repeated(_name, UNITS * _percent // 100)
