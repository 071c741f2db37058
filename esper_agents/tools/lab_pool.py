"""Shared torch lab of the tools: opened at the first measurement, kept warm, closed when idle."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from esper_agents.certificates.signing.signing_key import secret_places
from esper_agents.errors import EsperError
from esper_agents.paths import home
from esper_agents.tools.device_turn import device_turn
from esper_agents.tools.withheld_files import withheld_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from esper_agents.storage.store import Store
    from esper_agents.torchlab.lab import Lab, LabSettings

T = TypeVar("T")

# A lab is kept for the next call of an agent, which may think about the last one for a while.
_IDLE_S = 30.0


def _worked(lab: Lab, work: Callable[[Lab], T]) -> T:
    """Return the result of a measurement, if its devices were its own to the end."""
    try:
        result = work(lab)
    except BaseException:
        with suppress(EsperError):
            lab.end_measurement()
        raise
    lab.end_measurement()
    return result


class LabPool:
    """Lab of one project, for one call at a time. User code runs confined or not at all."""

    def __init__(
        self,
        root: Path,
        settings: LabSettings | None = None,
        *,
        idle_s: float = _IDLE_S,
        store: Store | None = None,
        project_key: str = "",
    ) -> None:
        """Prepare; no process starts before the first measurement.

        Args:
            root: The project's folder.
            settings: Settings for the project's code; never unconfined.
            idle_s: Seconds for which the lab is kept after a call.
            store: The project's database; a shared one has the leases of devices.
            project_key: Key of the project.
        """
        self._store = store if store is not None and store.is_shared else None
        self._project_key = project_key
        self._root = root
        self._idle_s = idle_s
        self._wanted = settings
        self._turn = asyncio.Lock()
        self._lab: Lab | None = None
        self._asked: tuple[Path, ...] = ()
        # One thread for as long as a lab is open: bubblewrap ends with the thread that started it.
        self._thread: ThreadPoolExecutor | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def measure(self, work: Callable[[Lab], T], *, roots: Sequence[Path] = (), asked: Sequence[Path] = ()) -> T:
        """Return the result of `work` on an open lab; it runs in a thread. On cancellation, no process is left.

        Args:
            work: Measurement; it receives the lab.
            roots: Further folders that the measured code may read, for this call only.
            asked: Ignored files and folders that it may read because the user named them.

        Raises:
            EvidenceError: No sandbox works here, the interpreter has no torch, or the measurement failed.
            UsageError: The target or its inputs cannot be used.
            BusyError: Another timing of this user did not end in time.
        """
        async with self._turn:
            self._asked = tuple(asked)
            if roots or (self._lab is not None and not self._lab.is_alive):
                await self._put_away()
            elif self._idle is not None:
                self._idle.cancel()
            lab = self._lab = self._lab or await self._opened(roots)
            lab.begin_measurement()
            try:
                return await self._on_thread(lab, lambda: _worked(lab, work))
            except EsperError:
                raise
            except BaseException:
                await self._put_away()
                raise
            finally:
                if roots:
                    await self._put_away()
                elif self._lab is not None:
                    self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._close_soon)

    async def close(self) -> None:
        """Leave no process behind; a later measurement starts a new lab."""
        async with self._turn:
            await self._put_away()

    async def _put_away(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        lab, self._lab = self._lab, None
        thread, self._thread = self._thread, None
        if lab is not None:
            await asyncio.shield(asyncio.to_thread(lab.close))
        if thread is not None:
            thread.shutdown(wait=False)

    async def _on_thread(self, lab: Lab, work: Callable[[], T]) -> T:
        """Return the result of `work` on the lab's thread; on cancellation, the lab is closed, which ends the work."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="esper-lab")
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if self._lab is lab:
                with suppress(Exception):
                    await asyncio.shield(asyncio.to_thread(lab.close))
            # A starting lab finishes its start first: closing it earlier would leave resources open.
            with suppress(Exception):
                await asyncio.shield(running)
            await asyncio.shield(asyncio.to_thread(lab.close))
            raise

    async def _opened(self, roots: Sequence[Path]) -> Lab:
        from esper_agents.torchlab.lab import Lab, LabSettings

        settings = replace(self._wanted or LabSettings(), is_unconfined=False)
        lab = Lab(self._root, settings, roots=roots, hidden=secret_places(home()), withhold=self._withhold)
        lab.device_turn = self._device_turn
        return await self._on_thread(lab, lab.__enter__)

    def _withhold(self, root: Path, environments: Sequence[Path]) -> Sequence[Path]:
        return withheld_files(root, asked=self._asked, environments=environments)

    def _device_turn(
        self, device: str, timeout_s: float, is_cancelled: Callable[[], bool]
    ) -> AbstractContextManager[str | None]:
        return device_turn(
            device,
            store=self._store,
            project_key=self._project_key,
            timeout_s=timeout_s,
            is_cancelled=is_cancelled,
        )

    def _close_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._close_if_idle())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_if_idle(self) -> None:
        if not self._turn.locked():
            await self.close()
