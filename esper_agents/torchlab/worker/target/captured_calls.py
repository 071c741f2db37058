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
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ..compare.tensor_bundle import Bundle, BundleError, Piece, capture
from .input_spec import Inputs, TargetError
from .pytrees import map_tensors

if TYPE_CHECKING:
    from typing import Self

_LIMIT_BYTES = 1 << 30
_NOT_PYTHON = "only the calls of a function that is written in Python can be watched"


class CapturedInputs:
    """Recorded calls as inputs: new copies each time."""

    def __init__(self, path: str) -> None:
        """Read a file written from `CallRecorder.pieces`.

        Raises:
            TargetError: The file is not a record of calls.
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
        for record in (tensor for piece in self._calls for tensor in piece.tensors):
            record["device"] = "cpu"

    def __call__(self) -> Inputs:
        """Return the inputs of one call, chosen by torch's generator."""
        return self.many(1)[0]

    def at(self, seed: int) -> Inputs:
        """Return the inputs of the call for a seed: seeds cycle through the calls in the order of recording."""
        # Fake tensors have no memory to restore into.
        with _numbers() as fake:
            restored = self._calls[seed % len(self._calls)].restore()
        if fake is not None:
            restored = map_tensors(restored, fake.from_tensor)
        return Inputs(*restored)

    def many(self, calls: int) -> list[Inputs]:
        """Return the inputs of a number of consecutive calls, starting at one chosen by torch's generator."""
        first = int(torch.randint(len(self._calls), ()))
        return [self.at(first + each) for each in range(calls)]


@contextmanager
def _numbers() -> Iterator[Any]:
    """Restore real tensors inside an active FakeTensorMode, and yield that mode; None without one."""
    modes: Any = torch._C  # noqa: SLF001 - as torch's own unset_fake_temporarily, whose module takes long to import
    mode = modes._unset_dispatch_mode(modes._TorchDispatchModeKey.FAKE)  # noqa: SLF001 - same reason
    try:
        yield mode
    finally:
        if mode is not None:
            modes._set_dispatch_mode(mode)  # noqa: SLF001 - same reason


Watcher = TypeVar("Watcher", bound="CallWatcher")


class EnoughError(BaseException):
    """Signal that all requested calls are recorded; ends the script."""


class CodePosition:
    """Position of a callable's code; a script that is run is compiled again, so that identity does not suffice.

    Attributes:
        has_self: Whether calls have the object as their first argument, which belongs to no call.
    """

    def __init__(self, watched: Any) -> None:
        """Find the code of a function, a method, an nn.Module or another callable.

        Raises:
            TargetError: The callable is not written in Python.
        """
        if isinstance(watched, torch.nn.Module):
            watched = watched.forward
        elif not inspect.isroutine(watched):
            watched = watched.__call__
        self.has_self = inspect.ismethod(watched)
        code = getattr(inspect.unwrap(watched), "__code__", None)
        if not isinstance(code, CodeType):
            raise TargetError(_NOT_PYTHON, "name a function of yours that calls it")
        self._name, self._line, self._file = code.co_name, code.co_firstlineno, os.path.realpath(code.co_filename)

    def is_at(self, code: CodeType) -> bool:
        """Return whether code is that of the callable."""
        is_near = code.co_name == self._name and code.co_firstlineno == self._line
        return is_near and os.path.realpath(code.co_filename) == self._file


class CallWatcher:
    """Context in which each call of the process, in all threads, is reported to `_hear`."""

    def __enter__(self) -> Self:
        """Start watching, in all threads."""
        threading.setprofile(self._hear)
        sys.setprofile(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        raise NotImplementedError


class CallRecorder(CallWatcher):
    """Recorder of the arguments of a function's calls at the moment of the call, from any caller.

    Attributes:
        pieces: Recorded arguments, by the number of the call.
        seen: Number of calls, including those that could not be recorded.
        most_calls: Number of recorded calls after which `EnoughError` is raised.
        refused: Reason that the last of those could not be recorded.
    """

    def __init__(self, watched: Any, most_calls: int) -> None:
        """Find the code object to watch.

        Args:
            watched: A function, a method, an nn.Module or another callable.
            most_calls: Number of recorded calls after which `EnoughError` is raised in the calling code.

        Raises:
            TargetError: The callable is not written in Python.
        """
        self._code = CodePosition(watched)
        self.most_calls = most_calls
        self._nbytes = 0
        self.pieces: dict[str, Piece] = {}
        self.seen = 0
        self.refused = ""

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or len(self.pieces) >= self.most_calls or not self._code.is_at(frame.f_code):
            return
        self._record(frame)
        if len(self.pieces) >= self.most_calls or self._nbytes > _LIMIT_BYTES:
            raise EnoughError

    def _record(self, frame: FrameType) -> None:
        self.seen += 1
        given = arguments(frame)
        args = given.args[1:] if self._code.has_self else given.args
        piece = capture((args, given.kwargs))
        try:
            piece.restore()
        except (BundleError, ValueError) as error:
            self.refused = str(error)
            return
        self.pieces[f"call-{self.seen}"] = piece
        self._nbytes += piece.nbytes()


def arguments(frame: FrameType) -> Inputs:
    """Return the arguments of a frame that is just starting, including defaults."""
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
