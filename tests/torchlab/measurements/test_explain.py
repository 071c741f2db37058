"""Compile diagnosis in real workers."""

import json
from typing import get_args

import pytest
from printed_reports import printed

from esper_agents.torchlab import graph_break_remedies, recompile_remedies
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.explain import MEASUREMENT, ExplainOptions, run
from esper_agents.torchlab.report import MeasurementReport
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.explain.result import CompileStatus
from esper_agents.torchlab.worker.target.source_place import TracedFailure
from esper_agents.torchlab.worker_failure import WorkerError

MODEL = """\
import random
import torch
from torch import nn
from helper import decide

def straight(x, *, scale=2.0):
    return x.relu() * scale

def cut(x):
    y = x.sin()
    print("[bold]cut[/bold]")
    return y.cos()

def item(x):
    return x * x.sum().item()

def tail(x):
    y = x.sin()
    print("tail")
    return y

def loop(x):
    for step in range(3):
        x = x + step
        print(step)
    return x

def in_another_file(x):
    return decide(x + 1) * 2

def in_the_library(x):
    return (x + 1) * random.SystemRandom().random()

def late(x):
    y = x + 1
    if x.shape[0] > 4:
        print("large")
    return y * 2

def fixed(x):
    return x.view(4, 8) * 2

def raises(x):
    raise ValueError("no [such] thing")

@torch.compile(fullgraph=True)
def owned(x):
    y = x * 2
    print("owned")
    return y + 1

class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.count = 0

    def forward(self, x):
        self.count += 1
        return self.inner(x) * self.count

@torch.library.custom_op("test_explain::wrong", mutates_args=())
def wrong(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@wrong.register_fake
def _(x):
    return x.new_empty(3, 3)

def fails(x):
    return wrong(x) @ torch.ones(8, 8)
"""
HELPER = """\
def decide(y):
    if y.sum() > 0:
        return y
    return -y
"""


def line(text, *, of=MODEL):
    return next(number for number, each in enumerate(of.splitlines(), 1) if text in each)


def explained(result):
    """Return a result with its conclusions."""
    return MEASUREMENT.conclusions({"result": result})


@pytest.fixture(scope="module")
def diagnose(tmp_path_factory):
    project = tmp_path_factory.mktemp("project")
    (project / "model.py").write_text(MODEL)
    (project / "helper.py").write_text(HELPER)
    told = {}
    with Lab(project) as lab:

        def diagnosed(name, **options):
            key = (name, *options.items())
            if key not in told:
                told[key] = run(
                    lab, TargetSpec(f"model.py:{name}", inputs=("randn(4,8)",)), ExplainOptions(**options), None
                )
            return told[key]

        yield diagnosed


def lines(report):
    return [(each["place"]["file"], each["place"]["line"]) for each in report.result["breaks"]]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "status", "breaks"),
    [
        ("straight", "clean", []),
        ("cut", "breaks", [("model.py", line("[bold]"))]),
        ("item", "breaks-by-default", [("model.py", line(".item()"))]),
        ("tail", "fails-fullgraph", [("model.py", line('"tail"'))]),
        ("loop", "skipped", [("model.py", line("print(step)"))]),
        ("in_another_file", "breaks", [("helper.py", 2)]),
        ("fails", "fails", []),
    ],
)
def test_each_status_is_told_with_the_lines_that_break(diagnose, name, status, breaks):
    report = diagnose(name)
    assert (report.result["status"], lines(report)) == (status, breaks)


def test_a_break_inside_the_library_is_told_by_the_line_of_the_user(diagnose):
    report = diagnose("in_the_library")
    assert set(lines(report)) == {("model.py", line("SystemRandom"))}
    assert any("polyfills" in each.get("outside", "") for each in report.result["breaks"])


def test_a_break_reached_by_two_frames_is_told_once_with_its_path(diagnose):
    (found,) = diagnose("in_another_file").result["breaks"]
    assert found["count"] == 2
    assert [(at["file"], at["line"]) for at in found["path"]] == [("model.py", line("decide(x")), ("helper.py", 2)]
    assert found["page"] == "GB0170"
    assert "torch.where" in found["change"]


def test_a_break_that_only_a_larger_batch_meets_is_found(diagnose):
    result = diagnose("late").result
    assert result["status"] == "breaks"
    assert result["explain"]["graph_break_count"] == 0
    assert result["breaks"][0]["first_call"] == 3
    assert result["fullgraph"]["call"] == 3


def test_a_module_that_compiles_anew_in_each_call_reaches_the_limit(diagnose):
    result = diagnose("Counter").result
    (again,) = result["recompiles"]
    assert (again["place"]["line"], again["count"], again["cause"]) == (line("count += 1"), 8, "attribute")
    assert [each["limit"] for each in result["limits"]] == [8]
    assert result["status"] == "clean"
    assert "gave up" in result["headline"]
    assert result["settles"]["values"] is False


def test_the_first_other_size_is_routine_and_settles(diagnose):
    result = diagnose("straight").result
    assert [each["is_routine"] for each in result["recompiles"]] == [True]
    assert result["settles"] == {"values": True, "sizes": True}
    assert [call["graphs"] for call in result["calls"]] == [1, 0, 1, 0]


def test_code_that_takes_one_size_only_is_not_blamed_for_it(diagnose):
    result = diagnose("fixed").result
    assert result["status"] == "clean"
    assert "leading dimension 5" in result["missing"][0]["what"]


def test_what_user_code_compiles_itself_is_diagnosed_without_its_options_and_without_inductor(diagnose):
    result = diagnose("owned").result
    assert (result["status"], result["compiled_by_user"]["fullgraph"]) == ("breaks", True)


def test_backward_is_traced_and_run_when_training(diagnose):
    assert "backward_graphs" not in diagnose("straight").result["autograd"]
    assert diagnose("straight", train=True).result["autograd"]["backward_graphs"] == 1


def test_an_exception_of_the_user_s_code_is_his_own(diagnose):
    with pytest.raises(WorkerError, match="raised ValueError: no \\[such\\] thing") as caught:
        diagnose("raises")
    assert caught.value.where == f"model.py:{line('raise ')}"


def test_a_report_holds_no_path_of_the_machine_and_no_address(diagnose, tmp_path_factory):
    text = json.dumps(dict(diagnose("in_another_file").result))
    assert str(tmp_path_factory.getbasetemp()) not in text
    assert " at 0x" not in text


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["straight", "cut", "loop", "fails", "Counter", "in_another_file"])
def test_the_screen_shows_the_status_first_and_each_line_with_what_to_change(diagnose, name):
    report = diagnose(name)
    out = printed(report)
    said = out
    assert said.startswith(report.result["status"])
    for each in report.result["breaks"]:
        assert f"{each['place']['file']}:{each['place']['line']}" in said
        assert each["place"]["source"] in said
        assert each["change"].split()[0] in said


def test_the_screen_takes_nothing_of_the_user_s_as_markup(diagnose):
    out = printed(diagnose("cut"))
    assert 'print("[bold]cut[/bold]")' in out


def test_a_result_without_a_status_says_that_nothing_was_found_out():
    result = explained({"missing": [{"what": "torch.compile", "why": "not here"}]})
    out = printed(MeasurementReport("explain", {"result": result}))
    assert "not measured" in out
    assert "torch.compile: not here" in out


def test_what_cannot_be_recognized_still_gets_something_to_change():
    change = graph_break_remedies.change_for(TracedFailure(kind="something new", page="GB9999"))
    assert "Move it out" in change
    assert graph_break_remedies.cause_of(TracedFailure(kind="x")) == "unknown"
    assert recompile_remedies.change_for("something new").startswith("Keep what this guard checks")


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        ({"kind": "k", "page": "GB0059", "explanation": "builtin operator `print` with"}, "print"),
        ({"kind": "k", "page": "GB0007", "context": "module: time, qualname: time"}, "clock"),
        ({"kind": "k", "page": "GB0025", "outside": "optim/optimizer.py:79 in _use_grad"}, "optimizer"),
        ({"kind": "generic_jump TensorVariable()"}, "branch"),
        ({"kind": "Tensor.item"}, "item"),
    ],
)
def test_a_break_s_cause_is_read_from_its_page_or_its_words(told, cause):
    assert graph_break_remedies.cause_of(TracedFailure(**told)) == cause


@pytest.mark.parametrize(
    ("guard", "cause"),
    [
        ("tensor 'x' size mismatch at index 0. expected 4, actual 5", "size"),
        ("(x.size()[0] % 2) == 0", "condition on a size"),
        ("tensor 'x' dtype mismatch. expected Float, actual Double", "dtype"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0", "gradients"),
        ("self._modules['i'].n == 3", "attribute"),
        ("G['K']['n'] == 0", "global"),
        ("flag == True", "constant"),
        ("len(xs) == 2", "structure"),
        ("___check_obj_id(f, )", "object"),
    ],
)
def test_a_guard_s_cause_is_read_from_its_words(guard, cause):
    assert recompile_remedies.cause_of(guard) == cause


def test_every_status_has_a_headline():
    calls = [{"what": "first", "graphs": 1, "graphs_run": 1, "breaks": 0, "recompiles": 0}]
    statuses = get_args(CompileStatus)
    said = {explained({"status": status, "calls": calls})["headline"] for status in statuses}
    assert len(said) == len(statuses)
