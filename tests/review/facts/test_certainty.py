"""Tests of when a fact says that something must change: only if it rests on no assumption."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from esper_agents.review import fact_query
from esper_agents.review.fact_query import Assessment, InspectionSubject, assess
from esper_agents.review.inspection import inspect_sources

MUST, SHOULD, FINE, OPEN = (
    Assessment.MUST_CHANGE,
    Assessment.SHOULD_CHECK,
    Assessment.FINE,
    Assessment.OPEN,
)
MAIN = '\n\nif __name__ == "__main__":\n    main()\n'


def facts(query, topic, source, *wanted, **others):
    sources = {"net.py": source, **{f"{name}.py": text for name, text in others.items()}}
    done = inspect_sources(sources, InspectionSubject((topic,)), names=[query])
    assert not done.results[0].problem
    return [fact for fact in done.results[0].facts if fact.assessment in (wanted or (MUST, SHOULD))]


def test_only_one_function_decides_that_something_must_change():
    review = Path(fact_query.__file__).parent
    naming = {
        path.name
        for path in (*review.glob("facts/*.py"), review / "inspection.py", review / "fact_query.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Return) and "MUST_CHANGE" in ast.unparse(node)
    }
    calls = {path.name for path in review.glob("facts/*.py") if "MUST_CHANGE" in path.read_text(encoding="utf-8")}
    assert naming == {"fact_query.py"}
    assert calls == set()
    assert assess("x breaks", "") == (MUST, "x breaks")
    assert assess("x breaks", "if y") == (SHOULD, "x breaks (if y)")


def test_a_fault_in_a_branch_for_a_version_is_checked_and_the_branch_is_named():
    source = (
        "import random\nimport torch\n\nIS_OLD = torch.__version__ < '2'\n\n\ndef main():\n    if IS_OLD:\n"
        "        random.seed()\n"
    )
    (fact,) = facts("random-sources", "reproducibility", source + MAIN)
    assert fact.assessment is SHOULD
    assert fact.text.endswith("(if the version that this branch is for is installed)")


def test_what_a_rule_infers_or_only_costs_time_is_checked():
    loop = "for x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n    loss.backward()\n"
    source = f"import torch\n\nmodel.cuda()\n{loop}    optimizer.step()\n    total += loss.item()\n"
    slow = facts("step-costs", "speed", source)
    fetch = next(each for each in slow if each.rule == "ESP305")
    assert fetch.assessment is SHOULD
    assert fetch.text.endswith("(if a profile shows that it costs time)")
    head = "import torch\nimport torch.nn.functional as F\n\n\n"
    root = f"{head}def rmse_loss(a, b):\n    return torch.sqrt(F.mse_loss(a, b))\n"
    (inferred,) = facts("nonfinite-values", "NaN or Inf", root)
    assert inferred.assessment is SHOULD
    assert inferred.text.endswith("(inferred: that a gradient flows through it)")


FIT = "def fit(model, loader, optimizer):\n    model.to('cuda:0')\n    for x in loader:\n        model(x).backward()\n"


def test_a_fault_between_ranks_is_certain_only_if_the_project_starts_several():
    (alone,) = facts("rank-devices", "distributed training", FIT)
    assert (alone.assessment, alone.text.rpartition(" (")[2]) == (SHOULD, "if several processes run this)")
    started = f"import torch.distributed as dist\n\n\ndef main():\n    dist.init_process_group('nccl')\n\n\n{FIT}"
    (several,) = facts("rank-devices", "distributed training", started)
    assert several.assessment is MUST


@pytest.mark.parametrize(
    ("source", "assessment"),
    [
        ("def read(file):\n    return pickle.load(file)\n", SHOULD),
        ("import sys\n\ndata = pickle.load(open(sys.argv[1], 'rb'))\n", MUST),
    ],
)
def test_unpickling_must_change_only_if_the_data_come_from_outside(source, assessment):
    (fact,) = facts("checkpoint-loads", "security", f"import pickle\n\n\n{source}")
    assert fact.assessment is assessment


@pytest.mark.parametrize(("topic", "assessment"), [("security", SHOULD), ("untrusted files", MUST)])
def test_unpickling_a_file_must_change_where_the_request_says_that_others_write_it(topic, assessment):
    load = "import pickle\n\n\ndef load(file):\n    return pickle.load(file)\n"
    (fact,) = facts("checkpoint-loads", topic, load)
    assert fact.assessment is assessment


def test_unpickling_what_the_class_pickled_itself_is_fine():
    own = (
        "import pickle\n\n\nclass Net:\n    def __init__(self, size):\n        self.kept = pickle.dumps(size)\n\n"
        "    def size(self):\n        return pickle.loads(self.kept)\n"
    )
    assert not facts("checkpoint-loads", "untrusted files", own)
    assert facts("checkpoint-loads", "untrusted files", own.replace("pickle.dumps(size)", "size"))


def test_a_library_that_draws_is_told_on_an_assumption_and_its_self_test_not_at_all():
    draw = "import random\n\n\ndef jitter(x):\n    return x + random.random()\n"
    (fact,) = facts("random-sources", "reproducibility", draw)
    assert fact.text.endswith("(if the program that imports this does not either)")
    double = "import random\n\n\ndef double(x):\n    return 2 * x\n\n\n"
    test = f"{double}if __name__ == '__main__':\n    double(random.random())\n"
    program = f"import net\n\n\ndef main():\n    net.double(1){MAIN}"
    assert not facts("random-sources", "reproducibility", test, main=program)


def test_a_whole_file_that_can_be_run_must_seed():
    (fact,) = facts("random-sources", "reproducibility", f"import random\n\n\ndef main():\n    random.random(){MAIN}")
    assert fact.assessment is MUST
