"""Tests of the facts about an upgrade of torch."""

from __future__ import annotations

from esper_agents.domain.request import Quantity
from esper_agents.reasoning.code_inspection import subject_of
from esper_agents.requests.parsing import parse_request
from esper_agents.review.behaviour_changes import behaviour_changes
from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

LOAD = "import torch\n\nstate = torch.load('a.pt')\n"


def facts(text, *versions, **others):
    sources = {"a.py": text, **others}
    done = inspect_sources(sources, InspectionSubject(("upgrade",), None, (), versions), names=["version-upgrade"])
    assert done.results[0].problem == ""
    return [(fact.assessment, fact.line, fact.text) for fact in done.results[0].facts]


def test_a_change_counts_from_its_version_on():
    assert [fact[:2] for fact in facts(LOAD, "torch 2.1", "2.6")] == [(Assessment.SHOULD_CHECK, 3)]
    assert [fact[0] for fact in facts(LOAD, "torch 2.1", "2.5")] == [Assessment.FINE]
    assert facts(LOAD, "2.6", "2.8") == []
    assert [fact[0] for fact in facts(LOAD)] == [Assessment.SHOULD_CHECK]


def test_a_removed_name_must_change_and_one_that_goes_later_is_checked():
    text = "import torch\n\nx = torch.symeig(a)\nscheduler = torch.optim.lr_scheduler.StepLR(o, 3, verbose=True)\n"
    found = facts(text, "2.1", "2.6")
    assert [each[:2] for each in found] == [(Assessment.MUST_CHANGE, 3), (Assessment.SHOULD_CHECK, 4)]
    assert "gone or refused since torch 2.0, before" in found[0][2]
    assert "`verbose=`" in found[1][2]
    assert "torch 2.7" in found[1][2]


def test_versions_of_other_packages_are_not_those_of_torch():
    assert [fact[0] for fact in facts(LOAD, "python 3.9", "cuda 12.4")] == [Assessment.SHOULD_CHECK]


def test_a_said_default_is_fine():
    found = facts("import torch\n\nstate = torch.load('a.pt', weights_only=False)\n", "2.1", "2.6")
    assert [each[0] for each in found] == [Assessment.FINE]


def test_code_that_asks_for_the_version_is_left_alone():
    text = "import torch\n\nif torch.__version__ < '2.6':\n    state = torch.load('a.pt')\n"
    assert facts(text, "2.1", "2.6") == []


def test_a_saved_module_is_told_and_a_saved_state_is_not():
    text = "import torch\n\n\ndef save(model):\n    torch.save({'model': model.half()}, 'a.pt')\n"
    assert "stores the whole module" in facts(text, "2.1", "2.6")[0][2]
    assert facts(text.replace("model.half()", "model.state_dict()"), "2.1", "2.6") == []


def test_a_numpy_name_that_the_project_binds_is_left_alone():
    text = "import numpy as np\n\nx = np.zeros(3, dtype=np.float)\n"
    assert [fact[0] for fact in facts(text, "2.1", "2.6")] == [Assessment.MUST_CHANGE]
    assert facts(text, "2.1", "2.6", **{"b.py": "import numpy as np\n\nnp.float = np.float64\n"}) == []


def test_every_change_has_a_source_a_version_and_a_remedy():
    for behaviour_change in behaviour_changes():
        assert behaviour_change.source
        assert behaviour_change.remedy
        assert behaviour_change.version.replace(".", "").isdigit()


def test_both_versions_of_a_request_are_read():
    for text in ("we go from torch 2.1 to 2.6, what breaks?", "upgrade von pytorch 2.1 auf 2.6", "PyTorch 2.1 -> 2.6?"):
        request = parse_request(text)
        versions = [
            observation.text for observation in request.observations if observation.quantity is Quantity.VERSION
        ]
        assert [version.rpartition(" ")[2] for version in versions] == ["2.1", "2.6"], text
        assert subject_of(request).versions == tuple(versions)
    assert [observation.text for observation in parse_request("can we upgrade pytorch to 2.9").observations] == [
        "pytorch to 2.9"
    ]


def test_options_of_export_and_of_the_wrapper_are_told_with_their_version():
    source = (
        "import torch\n\n\ndef main(model, x):\n"
        "    torch.onnx.export(model, x, 'a.onnx', dynamo=True, fallback=True, do_constant_folding=True)\n"
        "    torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)\n    torch.istft(x, 8)\n"
    )
    subject = InspectionSubject(("upgrade",), None, (), ("1.13", "2.13"))
    told = [
        fact.text for fact in inspect_sources({"net.py": source}, subject, names=["version-upgrade"]).results[0].facts
    ]
    for part in (
        "`fallback=` of `torch.onnx.export` is gone or refused since torch 2.11",
        "`do_constant_folding=` of `torch.onnx.export` is deprecated since torch 2.6",
        "is deprecated since torch 2.13",
        "`torch.istft`: since torch 2.0 it takes complex input only",
    ):
        assert any(part in text for text in told), (part, told)
