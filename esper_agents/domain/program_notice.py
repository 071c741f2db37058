"""Notice of the program within the streamed text of a model."""

from __future__ import annotations


class ProgramNotice(str):
    """Line of the program within the streamed text of a model."""

    __slots__ = ()
