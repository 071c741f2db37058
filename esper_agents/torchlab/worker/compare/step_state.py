"""State that lasts between steps of a plan: inputs, live outputs, and contents of the bundle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..target.pytrees import tensors_of
from .tensor_bytes import address

if TYPE_CHECKING:
    from .plan_step import PlannedStep
    from .tensor_bundle import Piece

# Bytes of earlier outputs that are kept alive to detect whether a later call changes them.
_MOST_KEPT = 256 << 20


@dataclass
class LiveOutputs:
    """Live outputs of a step.

    Attributes:
        step: Number of the step.
        given: Output of the step.
        piece: Copy of the output at that time.
        spans: Memory spans of its tensors.
    """

    step: int
    given: Any
    piece: Piece
    spans: list[tuple[int, int]]


@dataclass
class Sequence:
    """State that lasts between steps of a plan.

    Attributes:
        last: Inputs of the last step.
        given: Output of the last step.
        kept: Outputs of earlier steps, kept alive.
        kept_bytes: Size of these outputs.
        pieces: Contents of the bundle.
        names: For each step by number, the piece with its output.
        held: Known state of the module; None if a call may have changed it.
        held_piece: Copy of that state when it was set; None if it was not copied.
        own_ns: Processor time of the consecutive calls.
        others_ns: Processor time of other threads in the same time.
    """

    last: tuple[Any, dict[str, Any]] | None = None
    given: Any = None
    kept: list[LiveOutputs] = field(default_factory=list)
    kept_bytes: int = 0
    pieces: dict[str, Piece] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    held: str | None = None
    held_piece: Piece | None = None
    own_ns: int = 0
    others_ns: int = 0

    def keep(self, number: int, step: PlannedStep, piece: Piece) -> str:
        """Return the name of the piece with an output: an existing one for the same inputs if it is equal."""
        earlier = self.names.get(step.same_as) if step.same_as is not None else None
        if earlier is not None and self.pieces[earlier] == piece:
            name = earlier
        else:
            name = f"output {number}"
            self.pieces[name] = piece
        self.names[number] = name
        return name

    def remember(self, number: int, given: Any, output: Piece, inputs: tuple[Any, dict[str, Any]]) -> None:
        """Store a step's inputs and outputs for the next step."""
        self.last, self.given = inputs, given
        if self.kept_bytes + output.nbytes() <= _MOST_KEPT:
            self.kept_bytes += output.nbytes()
            spans = [span for each in tensors_of(given) if (span := address(each)) is not None]
            self.kept.append(LiveOutputs(number, given, output, spans))
