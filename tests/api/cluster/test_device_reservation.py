"""Measurements of two projects that ask a real Ray node for a device, and the shared database for its lease."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from places import environment

pytest.importorskip("ray", reason="the extra `ray` is not installed: reservations of devices were NOT tested")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from ray_nodes import ray_nodes

from esper_agents.storage.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.postgresql, pytest.mark.timeout(600)]
PROGRAM = Path(__file__).with_name("devices_on_ray.py")


@pytest.fixture
def url(postgresql_url):
    Store(postgresql_url).close()
    return postgresql_url.render_as_string(hide_password=False)


def measured(home, url, folder, resources, times, *devices):
    with ray_nodes(environment(home, ESPER_DATABASE_URL=url)) as nodes:
        nodes.start("--resources", resources, cpus=4)
        command = [sys.executable, str(PROGRAM), nodes.address, str(folder), *map(str, times), *devices]
        done = subprocess.run(command, env=nodes.env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def assert_one_at_a_time(found):
    assert not [row for row in found["measured"] if row[3] < 0], found
    times = sorted((began, ended) for _, began, ended, _ in found["measured"])
    assert len(times) == 4
    assert all(ended <= began for (_, ended), (began, _) in pairwise(times))
    assert {project for project, *_ in found["measured"]} == {"project-0", "project-1"}


def test_ray_gives_a_device_to_one_measurement_at_a_time_and_takes_it_back(home, url, tmp_path):
    devices = [f"fpga:{number}" for number in range(4)]
    found = measured(home, url, tmp_path, '{"fpga": 1}', (60, 1.5), *devices)
    assert_one_at_a_time(found)
    assert {free for *_, free in found["measured"]} == {0.0}
    assert found["left"] == 1.0


def test_where_ray_would_give_one_device_twice_the_lease_in_the_database_decides(home, url, tmp_path):
    found = measured(home, url, tmp_path, '{"fpga": 4}', (60, 1.5), *["fpga:0"] * 4)
    assert_one_at_a_time(found)


def test_a_measurement_that_waits_too_long_is_an_error_and_leaves_the_device(home, url, tmp_path):
    found = measured(home, url, tmp_path, '{"fpga": 1}', (15, 25), "fpga:0", "fpga:1")
    problems = [row for row in found["measured"] if row[3] < 0]
    assert len(problems) == 1
    assert "has the device" in problems[0][1]
    assert found["left"] == 1.0
