"""Specification of a target as text: its name, its inputs and how to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

# Told what is being done, and which fraction of the whole is behind it.
Tell: TypeAlias = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """One target.

    Attributes:
        name: `file.py:function` or `package.module:Class.method`.
        inputs: Inputs as on the command line, such as `randn(32,128)`.
        inputs_from: `FILE:FUNCTION` that returns the inputs instead.
        device: Where modules and inputs are moved, such as `cpu` or `cuda:0`.
        seed: What every generator is seeded with before the target is built.
        captured: A file of recorded calls, where workers can read it, whose inputs replace all others; empty
            while they are being recorded.
        captured_from: What made that record, as the person named it.
    """

    name: str
    inputs: tuple[str, ...] = ()
    inputs_from: str | None = None
    device: str = "cpu"
    seed: int = 0
    captured: str | None = None
    captured_from: str = ""

    def request(self) -> JsonObject:
        """Return it as a worker takes it."""
        return {
            "name": self.name,
            "texts": list(self.inputs),
            "inputs_from": self.inputs_from,
            "seed": self.seed,
            "device": self.device,
            "captured": None if self.captured is None else {"file": self.captured, "source": self.captured_from},
        }

    def described(self) -> JsonObject:
        """Return it as reports hold it: where workers read recorded calls is gone by then."""
        return replace(self, captured=self.captured and PurePath(self.captured).name).request()
