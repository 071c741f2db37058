"""Limits of the interpreter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the interpreter; there are no others.

    Attributes:
        instructions: Instructions per entry point; after that its remaining calls are not followed.
        per_line: Instructions per line of the project, over all entry points.
        least: Instructions of a small project.
        depth: Activations on the stack.
        repeated_loops: Nested loops that run two rounds; loops inside of these run one.
        items: Largest literal sequence that a loop goes through element by element.
    """

    instructions: int = 30_000
    per_line: int = 3
    least: int = 100_000
    depth: int = 14
    repeated_loops: int = 3
    items: int = 4


class BudgetSpentError(Exception):
    """The entry point has used its instructions."""
