"""Leases of devices: one measurement at a time on a GPU, over all projects of a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, update

from esper_agents.errors import LeaseLostError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lease import LEASE_MS
from esper_agents.storage.owner import is_dead, this_process
from esper_agents.storage.store import database_clock
from esper_agents.storage.tables import device_lease

if TYPE_CHECKING:
    from esper_agents.storage.store import Store

# The row must exist before it can be locked; two first claims meet in its primary key.
_CREATE = Prepared(
    "INSERT INTO device_lease (device, owner, fence, expires_ms, machine, project_key, claimed_at)"
    " VALUES (:device, '', 0, 0, '', '', '') ON CONFLICT (device) DO NOTHING"
)
_IS_IT = device_lease.c.device == bindparam("wanted")
_HELD = Prepared(
    lambda: (
        select(device_lease.c.owner, device_lease.c.fence, device_lease.c.expires_ms).where(_IS_IT).with_for_update()
    )
)


@dataclass(frozen=True, slots=True)
class DeviceLease:
    """The right to measure on one device.

    Attributes:
        device: Name of the device, unique over all machines.
        fence: Fencing token: increases with every claim.
        owner: The process that claimed it.
    """

    device: str
    fence: int
    owner: str


@dataclass(frozen=True, slots=True)
class ClaimedDevice:
    """A device on which a measurement runs.

    Attributes:
        device: Name of the device.
        machine: Name of the machine.
        project_key: Key of the project that is measured.
        claimed_at: Time of the claim, UTC.
        is_expired: Whether its owner has not renewed the lease in time.
    """

    device: str
    machine: str
    project_key: str
    claimed_at: str
    is_expired: bool


def claim_device(store: Store, device: str, *, machine: str, project_key: str) -> DeviceLease | None:
    """Claim a device; None if a live process has it.

    Args:
        store: The database.
        device: Name of the device, unique over all machines.
        machine: Name of this machine, to show.
        project_key: Key of the project that is measured.
    """
    with store.writing() as transaction:
        connection, now_ms = transaction.connection, transaction.now_ms
        _CREATE.rows(connection, {"device": device})
        ((owner, fence, expires_ms),) = _HELD.rows(connection, {"wanted": device})
        if owner and now_ms < expires_ms and not is_dead(owner):
            latest = now_ms + LEASE_MS
            if expires_ms > latest:
                # The row was edited, the clock was set back, or another claim was made while this one waited for the
                # row: a live owner extends its lease again.
                end = update(device_lease).where(device_lease.c.device == device).values(expires_ms=latest)
                connection.execute(end)
            return None
        claimed = DeviceLease(device, fence + 1, this_process())
        values = {"owner": claimed.owner, "fence": claimed.fence, "expires_ms": now_ms + LEASE_MS}
        values |= {"machine": machine, "project_key": project_key, "claimed_at": transaction.at}
        connection.execute(update(device_lease).where(device_lease.c.device == device).values(values))
        return claimed


def renew_device(store: Store, lease: DeviceLease) -> None:
    """Extend a lease; an expired lease is never revived.

    Raises:
        LeaseLostError: The lease has expired or another process has the device.
    """
    with store.writing() as transaction:
        held = _HELD.rows(transaction.connection, {"wanted": lease.device})
        if not any(
            (owner, fence) == (lease.owner, lease.fence) and expires_ms > transaction.now_ms
            for owner, fence, expires_ms in held
        ):
            raise LeaseLostError(
                f"the lease of device {lease.device} was lost during a measurement", remedy="measure again"
            )
        transaction.connection.execute(
            update(device_lease)
            .where(device_lease.c.device == lease.device)
            .values(expires_ms=transaction.now_ms + LEASE_MS)
        )


def release_device(store: Store, lease: DeviceLease) -> None:
    """Release a device; does nothing if the lease was lost."""
    with store.writing() as transaction:
        transaction.connection.execute(
            update(device_lease)
            .where(
                device_lease.c.device == lease.device,
                device_lease.c.fence == lease.fence,
                device_lease.c.owner == lease.owner,
            )
            .values(owner="", expires_ms=0)
        )


def claimed_devices(store: Store) -> tuple[ClaimedDevice, ...]:
    """Return the devices with an owner, by name."""
    with store.reading() as connection:
        now_ms = database_clock(connection)
        wanted = select(device_lease).where(device_lease.c.owner != "").order_by(device_lease.c.device)
        return tuple(
            ClaimedDevice(row.device, row.machine, row.project_key, row.claimed_at, row.expires_ms <= now_ms)
            for row in connection.execute(wanted)
        )
