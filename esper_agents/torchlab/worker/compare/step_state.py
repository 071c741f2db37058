"""State that lasts between steps of a plan: inputs, live outputs, and contents of the bundle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..target.pytrees import tensors_of
from .tensor_bytes import address

if TYPE_CHECKING:
    from .tensor_bundle import Piece

# Of the outputs of earlier calls, so many bytes are kept to see whether a later call changes them.
_MOST_KEPT = 256 << 20


@dataclass
class LiveOutputs:
    """Outputs of a step that are still alive.

    Attributes:
        step: The step's number.
        given: What the step returned.
        piece: What it looked like then.
        spans: Where its tensors lie in memory.
    """

    step: int
    given: Any
    piece: Piece
    spans: list[tuple[int, int]]


@dataclass
class Sequence:
    """What lasts from one step of a plan to the next.

    Attributes:
        last: Inputs of the last step.
        given: What the last step returned.
        kept: Outputs of earlier steps, still alive.
        kept_bytes: Their size.
        pieces: What goes into the bundle.
        names: For each step by number, the piece with its output.
        held: The state that the module has as far as is known; None where a call may have changed it.
        held_piece: What it looked like when it was set; None where that was not looked at.
        own_ns: Processor time of the calls in a row.
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

    def keep(self, number: int, step: dict[str, Any], piece: Piece) -> str:
        """Return the name of the piece that holds an output: an earlier one of the same inputs where it is the same."""
        earlier = self.names.get(step["same_as"]) if step["same_as"] is not None else None
        if earlier is not None and self.pieces[earlier] == piece:
            name = earlier
        else:
            name = f"output {number}"
            self.pieces[name] = piece
        self.names[number] = name
        return name

    def remember(self, number: int, given: Any, output: Piece, inputs: tuple[Any, dict[str, Any]]) -> None:
        """Take a step's inputs and outputs over to the next."""
        self.last, self.given = inputs, given
        if self.kept_bytes + output.nbytes() <= _MOST_KEPT:
            self.kept_bytes += output.nbytes()
            spans = [span for each in tensors_of(given) if (span := address(each)) is not None]
            self.kept.append(LiveOutputs(number, given, output, spans))
