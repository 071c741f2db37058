"""Specification of a target as text: its name, its inputs and how to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

# Progress callback: current activity and completed fraction.
Tell: TypeAlias = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """Specification of one target.

    Attributes:
        name: `file.py:function` or `package.module:Class.method`.
        inputs: Input specifications, such as `randn(32,128)`.
        inputs_from: `FILE:FUNCTION` that returns the inputs instead.
        device: Device for modules and inputs, such as `cpu` or `cuda:0`.
        seed: Seed of every generator before the target is built.
        captured: File of recorded calls, readable by measurement processes, whose inputs replace all others; empty
            during recording.
        captured_from: Source of that record, as named by the user.
    """

    name: str
    inputs: tuple[str, ...] = ()
    inputs_from: str | None = None
    device: str = "cpu"
    seed: int = 0
    captured: str | None = None
    captured_from: str = ""

    def request(self) -> JsonObject:
        """Return the specification as a request to a measurement process."""
        return {
            "name": self.name,
            "texts": list(self.inputs),
            "inputs_from": self.inputs_from,
            "seed": self.seed,
            "device": self.device,
            "captured": None if self.captured is None else {"file": self.captured, "source": self.captured_from},
        }

    def described(self) -> JsonObject:
        """Return the specification as stored in reports, without the temporary path of recorded calls."""
        return replace(self, captured=self.captured and PurePath(self.captured).name).request()
