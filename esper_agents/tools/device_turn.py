"""Turn of a measurement on a device: a lock of the machine, and a lease in a shared database."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import os
import platform
import subprocess
import time
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.errors import BusyError, EsperError, EvidenceError
from esper_agents.paths import home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from esper_agents.storage.device_lease import DeviceLease
    from esper_agents.storage.store import Store

_PAUSE_S = 0.25
_RENEW_S = 10.0
_QUERY_S = 20


# Reserves devices at a scheduler; the argument waits for a moment, or raises. Yields the value of
# CUDA_VISIBLE_DEVICES for the processes of the measurement; None if they keep that of this process.
DeviceReservation: TypeAlias = "Callable[[Callable[[], None]], AbstractContextManager[str | None]]"
_reservations: list[DeviceReservation] = []


def use_reservation(reservation: DeviceReservation) -> None:
    """Let every measurement of this process reserve its device first.

    Args:
        reservation: How.
    """
    _reservations[:] = [reservation]


def device_name(device: str, visible: str | None = None) -> str:
    """Return a name of a device of torch that is unique over machines and containers.

    Args:
        device: As torch names it, such as `cuda` or `cuda:1`.
        visible: Value of CUDA_VISIBLE_DEVICES for the process that uses it; that of this process if None.

    Returns:
        The UUID of an NVIDIA GPU if its driver tells it, else the machine and the index.
    """
    kind, _, number = device.partition(":")
    index = int(number) if number.isdecimal() else 0
    given = (os.environ.get("CUDA_VISIBLE_DEVICES", "") if visible is None else visible).split(",")
    physical = given[index].strip() if kind == "cuda" and given != [""] and index < len(given) else str(index)
    if kind == "cuda" and not physical.isdecimal():
        return physical
    if kind == "cuda" and (uuid := _uuids().get(physical)):
        return uuid
    return f"{platform.node()}/{kind}:{physical}"[:255]


@cache
def _uuids() -> dict[str, str]:
    """Return the UUIDs of the GPUs of this machine by index; empty without NVIDIA's tool."""
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_QUERY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [row for row in csv.reader(done.stdout.splitlines(), skipinitialspace=True) if len(row) == 2]  # noqa: PLR2004
    return {index: uuid for index, uuid in rows if uuid.startswith(("GPU-", "MIG-"))}


@contextmanager
def device_turn(
    device: str,
    *,
    store: Store | None,
    project_key: str,
    timeout_s: float,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[str | None]:
    """Yield when no other measurement runs on a device.

    The lock of the machine excludes other processes of this user, whatever their database; the lease all processes that
    share the database. A measurement whose lease is lost counts for nothing. The value is CUDA_VISIBLE_DEVICES for the
    processes of the measurement; None if they keep that of this process.

    Args:
        device: As torch names it.
        store: A shared database; None if the project has one of its own.
        project_key: Key of the project.
        timeout_s: Time to wait, in seconds.
        is_cancelled: Whether to stop waiting.

    Raises:
        BusyError: Another measurement did not end in time.
        EvidenceError: The wait was cancelled, or the lease was lost during the measurement.
    """
    name = device_name(device)
    deadline = time.monotonic() + timeout_s

    def wait() -> None:
        if is_cancelled():
            raise EvidenceError("the measurement was cancelled while it waited", remedy="start it again")
        if time.monotonic() >= deadline:
            raise BusyError(
                f"another measurement has the device {name} for over {timeout_s:.0f} s",
                remedy="run `esper cluster status` to see it, or wait until it ends",
            )
        time.sleep(_PAUSE_S)

    with ExitStack() as opened:
        visible = None
        for reservation in _reservations:
            visible = opened.enter_context(reservation(wait))
        name = device_name(device, visible)
        _take_lock(name, wait, opened)
        if store is not None:
            opened.enter_context(_leased(store, name, project_key, wait))
        yield visible


def _take_lock(name: str, wait: Callable[[], None], opened: ExitStack) -> None:
    folder = home() / "devices"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / hashlib.sha256(name.encode()).hexdigest()[:32]
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    opened.callback(os.close, descriptor)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
        else:
            return


@contextmanager
def _leased(store: Store, name: str, project_key: str, wait: Callable[[], None]) -> Iterator[None]:
    from esper_agents.storage.device_lease import claim_device, release_device

    while (lease := claim_device(store, name, machine=platform.node(), project_key=project_key)) is None:
        wait()
    ended, lost = Event(), Event()
    heart = Thread(target=_renew, args=(store, lease, ended, lost), name="esper-device-lease", daemon=True)
    heart.start()
    try:
        yield
    finally:
        ended.set()
        heart.join()
        _check_held(store, lease, lost)
        release_device(store, lease)
    if lost.is_set():
        raise EvidenceError(
            f"the lease of device {name} was lost, so that another measurement may have run on it",
            remedy="measure again when the database answers",
        )


def _renew(store: Store, lease: DeviceLease, ended: Event, lost: Event) -> None:
    from esper_agents.storage.device_lease import renew_device

    failures = 0
    while not ended.wait(_RENEW_S):
        try:
            renew_device(store, lease)
        except EsperError as error:
            failures += 1
            # The database may be away for a moment: a lease lives for three renewals.
            if failures == 3 or not _is_passing(error):  # noqa: PLR2004
                lost.set()
                return
        else:
            failures = 0


def _check_held(store: Store, lease: DeviceLease, lost: Event) -> None:
    """Renew a lease a last time: it may have been lost since the last renewal. Any error counts as lost."""
    from esper_agents.storage.device_lease import renew_device

    try:
        renew_device(store, lease)
    except EsperError:
        lost.set()


def _is_passing(error: EsperError) -> bool:
    from esper_agents.errors import StorageError

    return isinstance(error, StorageError)
