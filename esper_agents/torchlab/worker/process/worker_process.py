"""Main loop of a measurement process: confines itself, then serves requests until the lab hangs up."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from ..jobs import MODULES
from ..results import UserFrame, described
from ..target.bare_packages import packages_not_run
from ..target.input_spec import TargetError
from ..target.own_files import own_file
from ..target.result import LoadedSummary, RaisedDescription
from ..target.target import LoadedTarget, load
from . import confine
from .channel import CHANNEL_LOST, Channel, ChannelError
from .devices import bound
from .out_of_memory import ran_out

_MOST_TEXT = 4_000
# Size limit of the files for printed output and traces.
_MOST_FILE_BYTES = 4 << 30
_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENOENT)
_WORKER = (__package__ or "").rpartition(".")[0]


def live(message: dict[str, Any], files: list[int]) -> None:
    """Run as a measurement process; never returns.

    Args:
        message: Settings from the lab: `root`, `scratch`, `cache`, `grants`, `confined`,
            `own_network`, `walled`, `device`, `memory_bytes`, `tasks`, `tasks_of_user`, `cpu`, `threads`, `padding`.
        files: The process's socket, and the file for the output of user code.
    """
    code = 70
    try:
        os.setsid()
        end, said = files
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        for each in (null, said):
            os.close(each)
        # Output before a hang or a kill is often the only diagnostic information.
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # text streams have it
        channel = Channel(socket.socket(fileno=end))
        worker = _Worker(channel, message)
        try:
            held = worker.prepare()
        except OSError as error:
            channel.send({"refused": str(error)})
        else:
            worker.serve(held)
    except EOFError:
        code = 0  # the lab hung up
    except OSError:
        code = CHANNEL_LOST
    finally:
        # No user handlers, no flushing of buffers inherited from the parent.
        os._exit(code)


class _Worker:
    def __init__(self, channel: Channel, message: dict[str, Any]) -> None:
        self._channel = channel
        self._message = message
        self._target: LoadedTarget | None = None
        # Forks of one parent share its memory layout; a random shift makes them differ like independent processes.
        self._padding = bytearray(int(message.get("padding", 0)))

    def prepare(self) -> dict[str, Any]:
        """Confine this process; return the active mechanisms.

        Raises:
            OSError: The kernel refused a request.
        """
        import torch

        if self._message.get("cpu") is not None:
            os.sched_setaffinity(0, {int(self._message["cpu"])})
        torch.set_num_threads(int(self._message["threads"]))
        place = self._message["scratch"]
        confine.settle(place)
        # Shared by the processes of one arm; its name is in the scratch folder, so no arm can recognize it.
        cache = f"{place}/compiled"
        Path(cache).symlink_to(self._message["cache"])
        os.environ.update(TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=cache)
        if self._message.get("visible_gpus") is not None:
            # CUDA reads it when it starts, which no process has done before its first use of a device.
            os.environ["CUDA_VISIBLE_DEVICES"] = self._message["visible_gpus"]
        grants = {name: tuple(places) for name, places in self._message["grants"].items()}
        held: dict[str, Any] = confine.confine(
            confine.Grants(**grants),
            confine.Limits(
                self._message["memory_bytes"],
                _MOST_FILE_BYTES,
                has_cuda=self._message["device"].startswith("cuda"),
                tasks=self._message["tasks_of_user"] + self._message["tasks"],
            ),
            use_landlock=self._message["confined"],
            use_seccomp=self._message["confined"],
            has_own_network=self._message["own_network"],
            is_walled=self._message["walled"],
        )
        gc.freeze()
        return held

    def serve(self, held: dict[str, Any]) -> None:
        """Handle requests until the lab hangs up.

        Raises:
            EOFError: The lab has hung up.
        """
        self._channel.send({"ready": held})
        while True:
            request, files = self._channel.receive()
            self._answer(request, files)

    def _answer(self, request: dict[str, Any], files: list[int]) -> None:
        process = os.getpid()
        try:
            try:
                result, made = self._do(request, files)
            finally:
                if os.getpid() != process:
                    # A child that the user's code forked must not answer in its place.
                    os._exit(0)
        except BaseException as error:  # noqa: BLE001 - any error of user code is a named outcome
            self._channel.send({"raised": described(self._describe(error))})
        else:
            self._channel.send({"result": result, "packages_not_run": described(packages_not_run())}, made)
            for each in made:
                os.close(each)
        finally:
            for each in files:
                os.close(each)

    def _do(self, request: dict[str, Any], files: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        job = request["do"]
        if job == "load":
            bound(request["target"]["device"], self._message["memory_bytes"])
            self._target = load(self._message["root"], **request["target"])
            return described(_summary(self._target)), ()
        if job not in MODULES:
            raise ChannelError(job)
        module = importlib.import_module(MODULES[job], _WORKER)
        options = {**request["request"], "scratch": self._message["scratch"], "files": files}
        made = module.run(self._target, options, self._tell)
        result, kept = made if isinstance(made, tuple) else (made, ())
        return described(result), kept

    def _tell(self, what: str, fraction: float) -> None:
        self._channel.send({"tell": what, "fraction": round(float(fraction), 4)})

    def _describe(self, error: BaseException) -> RaisedDescription:
        frames = [
            UserFrame(own, frame.lineno or 0, frame.name)
            for frame in traceback.extract_tb(error.__traceback__)
            if (own := own_file(self._message["root"], frame.filename)) is not None
        ]
        return RaisedDescription(
            type=type(error).__name__,
            message=str(error)[:_MOST_TEXT],
            frames=tuple(frames[-20:]),
            problem=error.problem if isinstance(error, TargetError) else "",
            remedy=error.remedy if isinstance(error, TargetError) else "",
            memory=ran_out(error),
            refused=_refused(error),
        )


def _refused(error: BaseException) -> str:
    """Return the absolute path of the file whose failed opening caused the error; empty if none."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if isinstance(at, OSError) and at.errno in _REFUSALS and isinstance(at.filename, (str, bytes)):
            return os.path.abspath(os.fsdecode(at.filename))[:_MOST_TEXT]  # noqa: PTH100 - links stay as they are
        seen.append(at)
        at = at.__cause__ or at.__context__
    return ""


def _summary(target: LoadedTarget) -> LoadedSummary:
    return LoadedSummary(target.name, target.kind, target.file, target.line, target.device)
