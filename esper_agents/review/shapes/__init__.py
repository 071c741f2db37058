"""Shapes, kinds of numbers and memory layout, as far as they can be told without running the code.

A rule asks for one expression at one call: `shapes_of(index).ask(node, call)`. What cannot be told is None or a tensor
of unknown shape; nothing is worked out that nobody asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.shapes.interpreter import Interpreter

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex


def shapes_of(index: ProjectIndex) -> Interpreter:
    """Return the interpreter of a review, made once."""
    return index.once("shapes", lambda: Interpreter(index))
