"""What calls of a target do, in real workers: shapes, state, gradients, batches, masks, positions and devices."""

import pytest
from printed_reports import printed

from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.behaviour import MEASUREMENT, BehaviourOptions, run
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.target import TargetSpec

torch = pytest.importorskip("torch", reason="no torch: NOTHING was called")

MODEL = """\
import torch
from torch import nn

class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("step", torch.zeros(1), persistent=False)
        self.calls = 0

    def forward(self, x):
        if self.training:
            self.mean.lerp_(x.mean(0), 0.1)
            self.calls += 1
        return x - self.mean

class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.unused, self.norm = nn.Linear(8, 4), nn.Linear(8, 4), nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return torch.softmax(self.drop(self.norm(self.first(x))), dim=-1)

class OnCpu(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * self.scale + torch.arange(8.0)

def running_sum(x):
    return x.cumsum(1)

def backwards(x):
    return x.flip(1).cumsum(1).flip(1)

def causal_convolution(x):
    kernel = torch.arange(1.0, 28.0).reshape(3, 3, 3)
    return torch.nn.functional.conv1d(torch.nn.functional.pad(x, (2, 0)), kernel)

def each_alone(x):
    return torch.relu(x)

def masked_mean(x, mask):
    kept = mask.unsqueeze(-1)
    return (x * kept).sum(1) / kept.sum(1).clamp(min=1)

def ignores_mask(x, mask):
    return x.mean(1)

def in_place(x):
    return x.mul_(2)

def squeezed(x):
    return x.squeeze() @ torch.ones(8)

def centred(x):
    return (x - x.mean(0)) / x.std(0)

def detached(x, y):
    return x.detach() * y
"""


def line(text):
    return next(number for number, each in enumerate(MODEL.splitlines(), 1) if text in each)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    project = tmp_path_factory.mktemp("project")
    (project / "model.py").write_text(MODEL)
    with Lab(project) as opened:
        yield opened


@pytest.fixture(scope="module")
def said(lab):
    known = {}

    def statements(name, *inputs, topic):
        inputs = inputs or ("randn(4,8)",)
        if (name, inputs) not in known:
            report = run(lab, TargetSpec(f"model.py:{name}", inputs=inputs), BehaviourOptions(), None)
            known[name, inputs] = MEASUREMENT.parsed(report)
        return [each.said for each in known[name, inputs].statements if each.topic == topic]

    return statements


def test_state_that_only_training_changes_is_told_apart(said):
    (changes,) = said("Codes", topic="state")
    assert changes == (
        "a forward pass changes `mean`, `calls (attribute)` in training mode only; "
        "in evaluation mode it changes no parameter, buffer or attribute"
    )
    assert said("Codes", topic="saved state") == [
        "calls change `calls`, which `state_dict` lacks; a new object that loads it returns the same as the saved one",
        "`state_dict` has the buffers `mean`; it lacks `step`",
    ]


def test_a_parameter_that_no_output_uses_gets_no_gradient(said):
    assert said("Mixed", topic="gradients")[0] == (
        "backward reaches 4 of 6 parameters; `unused.weight`, `unused.bias` got no gradient"
    )
    assert "the call does not run `unused`" in said("Mixed", topic="parts")


def test_batch_norm_in_training_raises_for_a_batch_of_one_and_mixes_rows(said):
    batch = said("Mixed", topic="batch")
    raised = next(each for each in batch if each.startswith("batch of one in training mode"))
    assert "raises ValueError: Expected more than 1 value per channel when training" in raised
    assert raised.endswith(f"at model.py:{line('return torch.softmax')}")
    assert "batch of one in evaluation mode: it returns the same as before" in batch
    assert "a row of the output in training mode depends on the other rows of the batch" not in batch
    assert "a row of the output in evaluation mode does not depend on the other rows of the batch" in batch


def test_dropout_makes_calls_differ_in_training_only(said):
    assert said("Mixed", topic="random numbers") == [
        "two calls that differ in random numbers alone return different values in training mode only"
    ]


def test_outputs_that_sum_to_one_are_probabilities(said):
    (values,) = said("Mixed", topic="values")
    assert values.endswith("sums to 1 along dimension -1: probabilities")


@pytest.mark.parametrize(
    ("name", "said_so"),
    [
        ("running_sum", "along dimension 1 of `x`, a later position does not change `output` at earlier ones: causal"),
        ("backwards", "along dimension 1 of `x`, the last position changes `output` at earlier ones"),
        ("each_alone", "along dimension 1 of `x`, positions do not affect one another in `output`"),
    ],
)
def test_the_direction_in_which_positions_act_is_observed(said, name, said_so):
    (positions,) = said(name, topic="positions")
    assert positions == said_so


def test_channels_and_positions_are_told_apart_by_their_dimension(said):
    assert said("causal_convolution", "randn(2,3,8)", topic="positions") == [
        "along dimension 2 of `x`, a later position does not change `output` at earlier ones: causal",
        "along dimension 1 of `x`, the last position changes `output` at earlier ones",
    ]


def test_a_mask_that_hides_and_one_that_nothing_reads_are_told_apart(said):
    inputs = "randn(4,6,8)", "ones(4,6,dtype=bool)"
    assert said("masked_mean", *inputs, topic="mask") == [
        "`mask` hides where it is False: values of `x` there change no output where it is True"
    ]
    assert said("ignores_mask", *inputs, topic="mask") == [
        "`mask` hides nothing: values of `x` change other outputs, where it is True and where not"
    ]


def test_an_input_that_is_changed_in_place_is_named(said):
    assert said("in_place", topic="inputs") == ["a call changes `x` in place"]
    assert said("each_alone", topic="inputs") == ["a call leaves its inputs unchanged"]


def test_a_batch_of_one_that_raises_returns_nan_or_another_value_is_told(said):
    assert "batch of one: it returns other values" in said("squeezed", topic="batch")
    batch = said("centred", topic="batch")
    assert "batch of one: it returns NaN or infinity" in batch
    assert "a row of the output depends on the other rows of the batch" in batch


def test_a_tensor_that_stays_on_the_cpu_is_found_without_a_gpu(said):
    (device,) = said("OnCpu", topic="device")
    assert "raises" in device
    assert device.endswith(f"at model.py:{line('torch.arange(8.0)')}")
    assert said("Codes", topic="device") == [
        "moved to another device, weights and inputs together, it runs: no tensor stays behind"
    ]


def test_an_input_without_a_gradient_is_named(said):
    gradients = said("detached", "randn(4,8)", "randn(4,8)", topic="gradients")
    assert gradients == ["backward reaches the input `y`", "backward does not reach the input `x`"]


def test_a_size_that_does_not_fit_is_told_with_the_line_that_raises(said):
    (size,) = said("Codes", topic="sizes")
    assert size.startswith("x: dimension 1 of size 9: it raises RuntimeError: The size of tensor a (9) must match")
    assert size.endswith(f"at model.py:{line('return x - self.mean')}")


def test_the_report_is_printed_by_topic_and_follows_from_its_measurements(lab, tmp_path):
    report = run(lab, TargetSpec("model.py:Codes", inputs=("randn(4,8)",)), BehaviourOptions(), None)
    lines = printed(report).splitlines()
    assert lines[0].strip().split(maxsplit=1) == ["shapes", "for `x` float32[4, 8] it returns float32[4, 8]"]
    assert recheck(report, tmp_path)
