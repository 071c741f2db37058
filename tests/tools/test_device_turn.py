from __future__ import annotations

import multiprocessing
import os
import threading
import time

import pytest

from esper_agents.errors import BusyError, EvidenceError
from esper_agents.storage import device_lease
from esper_agents.storage.database_url import database_url
from esper_agents.storage.store import Store
from esper_agents.tools import device_turn as module
from esper_agents.tools.device_turn import device_name, device_turn

DEVICE = "fpga:0"


def turn(store=None, timeout_s=0.0, **options):
    return device_turn(DEVICE, store=store, project_key="a", timeout_s=timeout_s, **options)


@pytest.fixture
def store(postgresql_url):
    with_schema = Store(postgresql_url)
    yield with_schema
    with_schema.close()


def test_a_second_measurement_of_this_machine_waits_for_the_first():
    order = []

    def second():
        with turn(timeout_s=30):
            order.append("second")

    with turn():
        waiting = threading.Thread(target=second)
        waiting.start()
        with pytest.raises(BusyError, match="has the device"):
            turn().__enter__()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_cancelled_wait_ends():
    with turn(), pytest.raises(EvidenceError, match="cancelled"):
        turn(timeout_s=30, is_cancelled=lambda: True).__enter__()


def test_another_data_directory_meets_the_lease_in_the_database(store, monkeypatch, tmp_path):
    with turn(store):
        (claimed,) = device_lease.claimed_devices(store)
        assert (claimed.device, claimed.project_key, claimed.is_expired) == (device_name(DEVICE), "a", False)
        monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other"))
        with pytest.raises(BusyError):
            turn(store).__enter__()
    assert device_lease.claimed_devices(store) == ()
    with turn(store):
        pass


def _claim_and_die(url):
    device_lease.claim_device(Store(url), device_name(DEVICE), machine="m", project_key="b")
    os._exit(0)


def test_the_lease_of_a_dead_process_is_taken_over(store, postgresql_url):
    child = multiprocessing.get_context("spawn").Process(target=_claim_and_die, args=(postgresql_url,))
    child.start()
    child.join()
    assert [each.project_key for each in device_lease.claimed_devices(store)] == ["b"]
    with turn(store):
        assert [each.project_key for each in device_lease.claimed_devices(store)] == ["a"]


def test_a_measurement_whose_lease_was_lost_counts_for_nothing(store, monkeypatch):
    monkeypatch.setattr(module, "_RENEW_S", 0.05)

    def lose():
        with store.writing() as transaction:
            transaction.connection.exec_driver_sql("UPDATE device_lease SET fence = fence + 1")
        deadline = time.monotonic() + 30
        while any(each.name == "esper-device-lease" for each in threading.enumerate()) and time.monotonic() < deadline:
            time.sleep(0.01)

    with pytest.raises(EvidenceError, match="was lost"), turn(store):
        lose()


def test_a_lease_that_was_lost_before_the_next_renewal_counts_for_nothing(tmp_path):
    local = Store(database_url(tmp_path / "esper.db"))
    with pytest.raises(EvidenceError, match="was lost"), turn(local), local.writing() as transaction:
        transaction.connection.exec_driver_sql("UPDATE device_lease SET owner = 'other:1', fence = fence + 1")
    local.close()


@pytest.mark.parametrize(
    ("visible", "device", "name"),
    [("", "cuda:1", "GPU-b"), ("1,0", "cuda", "GPU-b"), ("GPU-c", "cuda", "GPU-c"), ("0", "cuda:0", "GPU-a")],
)
def test_a_gpu_has_one_name_whatever_is_visible(visible, device, name, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(module, "_uuids", lambda: {"0": "GPU-a", "1": "GPU-b"})
    assert device_name(device) == name
