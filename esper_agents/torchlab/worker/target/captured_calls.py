"""Calls of a target by a user's script: recorded as they happen, repeated from the record."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from ..compare.tensor_bundle import Bundle, BundleError, Piece, capture
from .input_spec import Inputs, TargetError
from .pytrees import map_tensors

_LIMIT_BYTES = 1 << 30
_NOT_PYTHON = "only the calls of a function that is written in Python can be watched"


class CapturedInputs:
    """Recorded calls as inputs: each time anew, in memory of their own."""

    def __init__(self, path: str) -> None:
        """Read a file that `Watch.pieces` went into.

        Raises:
            TargetError: It is none.
        """
        remedy = "capture again with --capture FILE.py"
        try:
            with Path(path).open("rb") as opened:
                pieces = Bundle(opened.fileno()).pieces
        except (OSError, BundleError) as error:
            raise TargetError(f"{Path(path).name!r} holds no captured calls: {error}", remedy) from error
        if not pieces:
            raise TargetError(f"{Path(path).name!r} holds no captured calls", remedy)
        self._calls = list(pieces.values())
        for record in (each for piece in self._calls for each in piece.tensors):
            record["device"] = "cpu"

    def __call__(self) -> Inputs:
        """Return the inputs of one call, with torch's generator choosing."""
        return self.many(1)[0]

    def at(self, seed: int) -> Inputs:
        """Return the inputs of the call that a seed stands for: they are gone through in the order of recording."""
        # Where tensors have no numbers there is no memory to restore into.
        with _numbers() as fake:
            restored = self._calls[seed % len(self._calls)].restore()
        if fake is not None:
            restored = map_tensors(restored, fake.from_tensor)
        return Inputs(*restored)

    def many(self, calls: int) -> list[Inputs]:
        """Return the inputs of so many calls, one after another from where torch's generator begins."""
        first = int(torch.randint(len(self._calls), ()))
        return [self.at(first + each) for each in range(calls)]


@contextmanager
def _numbers() -> Iterator[Any]:
    """Have tensors with numbers even inside a FakeTensorMode, and yield that; None where there is none."""
    modes: Any = torch._C  # noqa: SLF001 - as torch's own unset_fake_temporarily, whose module takes long to import
    mode = modes._unset_dispatch_mode(modes._TorchDispatchModeKey.FAKE)  # noqa: SLF001 - likewise
    try:
        yield mode
    finally:
        if mode is not None:
            modes._set_dispatch_mode(mode)  # noqa: SLF001 - likewise


class EnoughError(BaseException):
    """The calls that were asked for are recorded: what runs may end."""


class CallRecorder:
    """Records the arguments of a function's calls at the moment of each, whoever makes them.

    Attributes:
        pieces: What was recorded, by the number of the call.
        seen: How many calls there were, with those that could not be recorded.
        refused: Why the last of those could not.
    """

    def __init__(self, watched: Any, most_calls: int) -> None:
        """Find the code to watch.

        Args:
            watched: A function, a method, an nn.Module or another object that can be called.
            most_calls: After so many recorded calls `EnoughError` is raised in the code that makes them.

        Raises:
            TargetError: It is not written in Python.
        """
        if isinstance(watched, torch.nn.Module):
            watched = watched.forward
        elif not inspect.isroutine(watched):
            watched = watched.__call__
        self._has_self = inspect.ismethod(watched)
        code = getattr(inspect.unwrap(watched), "__code__", None)
        if not isinstance(code, CodeType):
            raise TargetError(_NOT_PYTHON, "name a function of yours that calls it")
        self._name, self._line, self._file = code.co_name, code.co_firstlineno, os.path.realpath(code.co_filename)
        self._most_calls = most_calls
        self._nbytes = 0
        self.pieces: dict[str, Piece] = {}
        self.seen = 0
        self.refused = ""

    def __enter__(self) -> CallRecorder:  # noqa: PYI034 - Python 3.10 has no Self
        """Begin to watch, in all threads."""
        threading.setprofile(self._hear)
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # By its place, not by identity: a script that is run is compiled once more.
        if event != "call" or code.co_name != self._name or code.co_firstlineno != self._line:
            return
        if os.path.realpath(code.co_filename) != self._file or len(self.pieces) >= self._most_calls:
            return
        self._record(frame)
        if len(self.pieces) >= self._most_calls or self._nbytes > _LIMIT_BYTES:
            raise EnoughError

    def _record(self, frame: FrameType) -> None:
        self.seen += 1
        given = arguments(frame)
        args = given.args[1:] if self._has_self else given.args
        piece = capture((args, given.kwargs))
        try:
            piece.restore()
        except (BundleError, ValueError) as error:
            self.refused = str(error)
            return
        self.pieces[f"call-{self.seen}"] = piece
        self._nbytes += piece.nbytes()


def arguments(frame: FrameType) -> Inputs:
    """Return what a frame that is just beginning was called with; defaults that were left out are among it."""
    code, here = frame.f_code, frame.f_locals
    names = list(code.co_varnames)
    positional = names[: code.co_argcount]
    by_name = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    args = [here[each] for each in positional]
    if code.co_flags & inspect.CO_VARARGS:
        args += here[rest.pop(0)]
    kwargs = {each: here[each] for each in by_name}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(here[rest[0]])
    return Inputs(tuple(args), kwargs)
