"""Which devices can be used, how their memory is bounded, and what is waited for; a stand-in is CUDA's driver."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING of devices was tested")

from esper_agents.torchlab.worker.process.devices import bound, usable, wait  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.input_spec import TargetError  # noqa: E402 - wants torch


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_the_processor_has_one_name_and_nothing_to_wait_for(device):
    assert usable(device) == "cpu"
    bound(device, 1 << 20)
    wait("cpu")


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        ("nowhere", "there is no device 'nowhere'"),
        ("meta", "device 'meta' does not support measurements"),
        ("mps", "device 'mps' does not support measurements"),
    ],
)
def test_a_device_on_which_nothing_can_be_measured_is_refused(device, problem):
    with pytest.raises(TargetError) as caught:
        usable(device)
    assert (caught.value.problem, caught.value.remedy) == (problem, "name one like cpu, cuda or cuda:1")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_is_refused_where_there_is_none():
    with pytest.raises(TargetError, match="device 'cuda' is not available: torch"):
        bound("cuda", 1 << 30)


def test_a_device_beyond_the_last_is_refused(driven):
    assert driven["cuda:4"] == ["there is no device 'cuda:4'", "there are 4: cuda:0 is the first"]
    assert driven["cuda:0"] == "cuda:0"


def test_every_device_in_use_is_waited_for_and_no_candidate_is_asked(driven):
    assert driven["waits"] == ["waited for 1", "waited for 3"]
    assert driven["here"] == 3


def test_a_target_on_the_processor_is_waited_for_only_where_its_code_uses_cuda(driven):
    assert driven["waits_of_the_cpu"] == []
    assert driven["waits_of_the_cpu_that_uses_cuda"] == ["waited for 1", "waited for 3"]


def test_torch_may_take_a_share_of_the_device_and_never_more_than_all(driven):
    assert driven["bounds"] == ["0.25 of 0", "0.25 of 1", "1.0 of 2"]


def test_the_version_of_the_driver_is_that_of_the_newest_cuda_that_it_runs(driven):
    if "driver" not in driven:
        pytest.skip("no C compiler: the version of the driver was NOT tested")
    assert driven["driver"] == "12.8"
