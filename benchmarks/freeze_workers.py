"""The workers of `freeze.py`: one that stops in the middle of its work, and one that takes the session over."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import traceback
from typing import Any
from unittest.mock import patch

from crash_session import Place, Points, place_points, work

from esper_agents.errors import BusyError, EsperError, LeaseLostError, UsageError
from esper_agents.storage import lease, locks, store

_MOST_TRIES = 20


def longest_s(lease_ms: int) -> int:
    """Return after how many seconds a worker is given up.

    Its clock also runs while it is stopped, and for that long the other may wait half a lease in each of its tries.
    """
    return 60 + _MOST_TRIES * lease_ms // 1000


class FreezingPoints(Points):
    """Named points of a session; the process is stopped at one of them, once the session was accepted."""

    def __init__(self, place: Place, target: int) -> None:
        """Stop at the first point from the target on at which the session was accepted."""
        super().__init__(place, 0)
        self._wanted = target

    def reach(self, name: str) -> None:
        """Pass a point, or stop at it until somebody sends SIGCONT."""
        super().reach(name)
        if self._wanted and self._passed >= self._wanted and self._place.lines("accepted"):
            self._wanted = 0
            self._place.note("died", name)
            os.kill(os.getpid(), signal.SIGSTOP)


def shorten(lease_ms: int) -> None:
    """Let leases of this process be short, and its patience with whoever is stopped."""
    lease.LEASE_MS = lease_ms
    locks.PATIENCE_S = lease_ms / 2000


def be_frozen(place: Place, point: int, lease_ms: int) -> None:
    """Work until the point, stop there, and after the thaw go on as if nothing had happened."""
    signal.alarm(longest_s(lease_ms))
    os.environ.update(place.environment)
    shorten(lease_ms)
    store.STOPPED_MS = lease_ms // 2
    points = FreezingPoints(place, point)
    place_points(points)
    try:
        asyncio.run(work(place, points))
    except EsperError as error:
        # What a thawed worker is to meet: the lease is somebody else's, or its transaction was ended.
        place.note("thawed", f"{type(error).__name__}: {error.problem}")
    except BaseException:  # noqa: BLE001 - a forked process must not run on into its parent's code
        place.note("trouble", traceback.format_exc())
    else:
        place.note("thawed", "it went on to the end")


def be_rescuer(place: Place, lease_ms: int) -> None:
    """Ask for the session until it can be had, note when, and take it to its end."""
    signal.alarm(longest_s(lease_ms))
    shorten(lease_ms)
    plain = lease.claim

    def patient(*given: Any) -> Any:
        while True:
            try:
                claimed = plain(*given)
            except BusyError:
                time.sleep(0.02)
            else:
                place.note("claimed_at", str(time.monotonic()))
                return claimed

    os.environ.update(place.environment)
    points = Points(place, 0)
    place_points(points)
    with patch.object(lease, "claim", patient):
        for _ in range(_MOST_TRIES):
            try:
                asyncio.run(work(place, points))
            except UsageError:
                # The thawed one has answered the same question while nobody had the session, as it may.
                continue
            except (BusyError, LeaseLostError):
                # Who is stopped has the lock of the keys or of a pin, or this machine had no time to extend a lease
                # within its two seconds. What is on record must be right even then.
                continue
            except BaseException:  # noqa: BLE001 - a forked process must not run on into its parent's code
                place.note("trouble", traceback.format_exc())
            break
