"""The search for NaN: targets whose first bad operation, line and cause are known by how they were made."""

from __future__ import annotations

import json
import re
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from printed_reports import printed

from esper_agents.errors import UsageError
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.nan import MEASUREMENT, NanOptions, run
from esper_agents.torchlab.nan_remedies import CHANGES
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

PROJECT = Path(__file__).parents[1] / "nan_project"
ROWS = ("randn(4,8)",)
SQUARE = ("randn(6,8)",)
TRAIN = {"train": True}
LINES = {
    found[1]: number
    for number, line in enumerate((PROJECT / "faulty.py").read_text(encoding="utf-8").splitlines(), 1)
    if (found := re.search(r"# fault: (\w+)", line))
}
# Target, its inputs, the request, then the first operation, the phase it ran in and the cause.
FAULTY = [
    ("divides", ROWS, {}, "div", "forward", "division-by-zero"),
    ("log_of_zero", ROWS, {}, "log", "forward", "log-of-zero"),
    ("log_of_negative", ROWS, {}, "log", "forward", "log-of-negative"),
    ("sqrt_of_negative", ROWS, {}, "sqrt", "forward", "sqrt-of-negative"),
    ("sqrt_at_zero", ROWS, TRAIN, "div", "backward", "sqrt-at-zero"),
    ("hand_made_softmax", ROWS, {}, "exp", "forward", "exp-overflow"),
    ("half_overflow", ROWS, {}, "mul", "forward", "half-overflow"),
    ("cast_overflow", ROWS, {}, "_to_copy", "forward", "half-overflow"),
    ("zero_times_inf", ROWS, {}, "mul", "forward", "zero-times-inf"),
    ("inf_minus_inf", ROWS, {}, "sub", "forward", "inf-minus-inf"),
    ("overflows", ROWS, {}, "mm", "forward", "overflow"),
    ("masked_row", SQUARE, {}, "_softmax", "forward", "softmax-of-masked-row"),
    ("bad_batch", (), {}, "addmm", "forward", "nan-in-inputs"),
    ("uninitialised", ROWS, {}, "empty", "forward", "uninitialised-memory"),
    ("one_element", ROWS, {}, "std", "forward", "std-of-one-element"),
    ("power_of_negative", ROWS, {}, "pow", "forward", "power-of-negative"),
    ("out_of_domain", ROWS, {}, "acos", "forward", "out-of-domain"),
    ("where_gradient", ROWS, TRAIN, "div", "backward", "where-gradient"),
    ("where_log", ROWS, TRAIN, "sqrt", "forward", "where-gradient"),
    ("where_division", ROWS, TRAIN, "div", "backward", "where-gradient"),
    ("all_ignored", ROWS, {}, "nll_loss_forward", "forward", "empty-reduction"),
    ("mean_of_nothing", ROWS, {}, "mean", "forward", "empty-reduction"),
    ("own_backward", ROWS, TRAIN, "div", "backward", "division-by-zero"),
    ("checkpointed", ROWS, TRAIN, "div", "backward", "sqrt-at-zero"),
    ("target_masked_out", ROWS, {}, "masked_fill", "forward", "deliberate-inf"),
    ("in_place", ROWS, {}, "div_", "forward", "division-by-zero"),
    ("raises", ROWS, {}, "div", "forward", "division-by-zero"),
    ("asserts", ROWS, {}, "div", "forward", "division-by-zero"),
    ("adam_without_epsilon", (), {}, "addcdiv_", "optimizer", "division-by-zero"),
    ("own_optimizer", (), {}, "div", "optimizer", "division-by-zero"),
    ("scale_never_fits", (), {"steps": 30}, "div", "backward", "loss-scale-never-fits"),
    ("compiled_model", ROWS, {}, "log", "forward", "log-of-zero"),
    ("vmapped", ROWS, {}, "div", "forward", "division-by-zero"),
    ("functional_gradient", ROWS, TRAIN, "div", "backward", "sqrt-at-zero"),
    ("autocast", ROWS, {}, "_to_copy", "forward", "half-overflow"),
    ("gradient_penalty", (), {}, "div", "backward", "sqrt-at-zero"),
    ("sparse_gradient", (), {}, "div", "backward", "sqrt-at-zero"),
    ("closure", (), {}, "div", "backward", "sqrt-at-zero"),
    ("dataset", (), {}, "stack", "forward", "nan-in-inputs"),
    ("number_only", (), {}, "div", "forward", "division-by-zero"),
    ("all_padding", ROWS, {}, "_softmax", "forward", "softmax-of-masked-row"),
    ("too_long", ROWS, {}, "_ctc_loss", "forward", "impossible-alignment"),
    ("equal_singular", ROWS, TRAIN, "div", "backward", "degenerate-decomposition"),
    ("vanished_epsilon", ROWS, {}, "div", "forward", "division-by-zero"),
    ("written_elsewhere", ROWS, {}, "div", "forward", "division-by-zero"),
    ("partly_filled", ROWS, {}, "div", "forward", "division-by-zero"),
]
CLEAN = [
    ("causal_attention", SQUARE, TRAIN),
    ("filled_attention", SQUARE, TRAIN),
    ("fused_attention", SQUARE, TRAIN),
    ("classifier", (), {}),
    ("scaled_training", (), {}),
    ("guarded_by_hand", (), {}),
    ("masked_division", ROWS, {}),
    ("cleaned", ROWS, TRAIN),
    ("filled_later", ROWS, TRAIN),
    ("masked_logits", ROWS, TRAIN),
    ("best_so_far", ROWS, {}),
    ("missing_measurements", ROWS, TRAIN),
    ("log_clamped", ROWS, TRAIN),
    ("safe_root", ROWS, TRAIN),
    ("written_whole", ROWS, TRAIN),
    ("second_derivative", ROWS, TRAIN),
]


@pytest.fixture(scope="module")
def lab():
    with Lab(PROJECT) as lab:
        yield lab


@pytest.fixture(scope="module")
def find(lab):
    """Search in one worker for all: what a search leaves behind would show in the next."""
    with closing(_Finder(lab)) as finder:
        yield finder


class _Finder:
    def __init__(self, lab):
        self._worker = lab.worker()

    def __call__(self, name, inputs=(), inputs_from=None, **request):
        self._worker.load(TargetSpec(name, tuple(inputs), inputs_from))
        raw = self._worker.ask("nan", {"steps": 4, **request}).result
        made = json.loads(json.dumps(MEASUREMENT.conclusions({"result": raw})))
        # Every member that a job returns has its field.
        own = ("headline", "change")
        assert {name: each for name, each in made.items() if name not in own} == json.loads(json.dumps(raw))
        return made

    def close(self):
        self._worker.kill()


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case[0])
def test_the_first_bad_operation_its_line_and_its_cause_are_found(find, case):
    name, inputs, options, operation, phase, cause = case
    result = find(f"faulty.py:{name}", inputs, **options)

    first = result["first"]
    assert result["status"] in {"nan", "inf"}
    assert (first["file"], first["line"]) == ("faulty.py", LINES[name])
    assert first["operation"].split(".")[1] == operation
    assert first["phase"] == phase
    assert result["cause"]["class"] == cause
    assert result["change"] == CHANGES[cause]
    assert f"faulty.py:{LINES[name]}" in result["headline"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case[0])
def test_numbers_that_are_not_finite_and_do_no_harm_are_no_fault(find, case):
    name, inputs, options = case
    result = find(f"clean.py:{name}", inputs, **options)

    assert result["status"] == "clean", result["headline"]
    assert "first" not in result
    assert result["steps_run"] == 4


def test_weights_that_grow_from_step_to_step_point_to_the_learning_rate(find):
    result = find("faulty.py:runaway", steps=100)

    assert result["cause"]["class"] == "learning-rate-too-high"
    assert "learning rate of 5" in result["cause"]["because"]
    assert result["first"]["module"] == {"root": "Sequential", "path": "1", "class": "Linear"}
    weights = [each["largest_weight"] for each in result["history"]]
    assert weights == sorted(weights)


def test_updates_between_calls_of_a_module_show_a_learning_rate_that_is_too_high(find):
    result = find("faulty.py:wide", ("randn(16,8)",), train=True, lr=1e6, steps=100)

    assert result["cause"]["class"] == "learning-rate-too-high"
    assert result["batch"]["step"] > 0


def test_layers_that_were_initialised_out_of_scale_are_named(find):
    result = find("faulty.py:wild_weights", ("randn(4,256)",))

    assert result["cause"]["class"] == "bad-initialisation"
    layers = result["cause"]["layers"]
    assert all(re.fullmatch(r"\d+\.weight", layer["parameter"]) for layer in layers)
    assert layers[0]["gain"] == pytest.approx(160, rel=0.05)
    assert {"what": "line", "why": "no line of the project was running when it was called"} in result["missing"]


def test_a_bad_parameter_is_named_with_the_module_that_uses_it(find):
    result = find("faulty.py:bad_parameter", ROWS)

    assert result["cause"]["class"] == "nan-in-parameters"
    assert "2.weight holds NaN at [1, 3]" in result["cause"]["because"].replace("[3, 1]", "[1, 3]")
    assert result["first"]["module"]["path"] == "2"


def test_a_bad_input_is_named_with_its_place(find):
    result = find("faulty.py:bad_input", inputs_from="faulty.py:bad_weights")

    assert result["cause"]["class"] == "nan-in-inputs"
    assert result["cause"]["because"] == "the input weights holds NaN at [2] before it is used"
    assert result["first"]["line"] == LINES["bad_input"]


def test_a_running_variance_below_zero_is_recognised(find):
    result = find("faulty.py:negative_variance", ROWS)

    assert result["cause"]["class"] == "sqrt-of-negative"
    assert result["first"]["module"]["class"] == "BatchNorm1d"


def test_the_first_bad_batch_and_the_sample_in_it_are_named(find):
    assert find("faulty.py:bad_batch", steps=6)["batch"] == {"step": 3, "seed": 3, "sample": 5}
    assert find("faulty.py:dataset", steps=6)["batch"] == {"step": 3, "seed": 3, "sample": 3}


def test_a_step_without_more_batches_ends_the_search_and_says_so(find):
    result = find("clean.py:two_batches", steps=10)

    assert (result["status"], result["steps_run"], result["steps_asked"]) == ("clean", 2, 10)
    assert result["missing"] == [{"what": "steps from 3 on", "why": "the step has no more batches"}]


def test_inputs_of_the_operation_are_described_as_they_were_before_it_ran(find):
    first = find("faulty.py:in_place", ROWS)["first"]

    divided, divisor = first["inputs"]
    assert (divided["name"], divided["nan"], divided["inf"], divided["zeros"]) == ("self", 0, 0, 0)
    assert (divisor["zeros"], divisor["min"], divisor["max"], divisor["mean"]) == (32, 0.0, 0.0, 0.0)
    assert first["output"]["inf"] == 32
    assert first["at"]["operands"]["other"] == 0.0
    assert first["expression"] == "scaled.div_(scaled - scaled)"


def test_the_first_bad_element_is_found_in_a_tensor_of_millions(find):
    first = find("faulty.py:far_away", ROWS)["first"]

    assert first["at"] == {"index": [2, 1_234_567], "operands": {"self": 0.0}}
    assert (first["output"]["inf"], first["output"]["mean"]) == (1, 1.0)


def test_an_inf_is_followed_to_where_it_became_nan(find):
    result = find("faulty.py:hand_made_softmax", ROWS)

    assert result["first"]["holds"] == "inf"
    assert result["became_nan"]["operation"] == "aten.div.Tensor"
    assert result["became_nan"]["line"] == LINES["hand_made_softmax"] + 1


def test_a_backward_operation_is_put_down_to_its_forward_line_and_module(find):
    first = find("faulty.py:gradient_penalty")["first"]

    assert first["node"] == "SqrtBackward0"
    assert first["forward_operation"] == "aten.sqrt.default"
    assert first["backward_started"]["source"] == "loss.backward()"


def test_a_mask_on_purpose_that_reaches_an_output_is_told_but_no_fault(find):
    assert find("clean.py:masked_logits", ROWS)["noticed"] == []
    noticed = find("clean.py:masked_division", ROWS)["noticed"]
    assert [(each["operation"], each["times"]) for each in noticed] == [("aten.div.Tensor", 4)]


def test_a_skipped_update_is_counted(find):
    assert find("clean.py:guarded_by_hand")["skipped_steps"] == [0]


def test_an_exception_that_has_nothing_to_do_with_nan_stays_an_exception(lab):
    with lab.worker() as worker:
        worker.load(TargetSpec("faulty.py:raises_otherwise", ROWS))
        with pytest.raises(WorkerError) as caught:
            worker.ask("nan", {"steps": 1})

    assert caught.value.outcome is WorkerFailureKind.RAISED
    assert caught.value.where.startswith("faulty.py:")


def test_no_step_at_all_is_refused(lab):
    with pytest.raises(UsageError) as caught:
        run(lab, TargetSpec("faulty.py:divides", ROWS), NanOptions(steps=0), None)

    assert caught.value.remedy == "use --steps 1 or more"


def test_a_report_is_json_and_its_words_follow_from_it(lab):
    report = run(lab, TargetSpec("faulty.py:divides", ROWS), NanOptions(steps=2), None)

    assert report.kind == "nan"
    assert report.result["status"] in {"inf", "nan"}
    assert MEASUREMENT.conclusions(json.loads(report.text())) == report.result
    assert f"faulty.py:{LINES['divides']}" in printed(report)
    assert "division-by-zero" in printed(report)


def test_source_text_does_not_become_markup_on_the_screen(lab):
    report = run(lab, TargetSpec("faulty.py:marked_up", ROWS), NanOptions(steps=1), None)

    assert "[red]0[/red]" in printed(report)


def test_every_cause_that_a_worker_may_name_has_a_change():
    folder = Path(__file__).parents[3] / "esper_agents/torchlab/worker/nan"
    named = set()
    for file in folder.glob("*.py"):
        named |= set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', file.read_text(encoding="utf-8")))

    carriers = {"inputs", "parameters", "buffers", "optimizer-state"}
    named |= {f"{what}-in-{carrier}" for what in ("nan", "inf") for carrier in carriers}
    assert named - carriers <= set(CHANGES)
