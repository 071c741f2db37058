"""Tests of the queries about reproducibility: seeds, operations of the GPU and the order of data."""

from __future__ import annotations

from textwrap import dedent

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect, inspect_sources

SUBJECT = InspectionSubject(("reproducibility",))
IMPORTS = "import os\nimport random\nimport time\nimport numpy as np\nimport torch\nfrom torch import nn\n"
MAIN = '\n\nif __name__ == "__main__":\n    main()\n'


def found(query, body, *assessments):
    done = inspect_sources({"train.py": IMPORTS + dedent(body) + MAIN}, SUBJECT, names=[query])
    assert not done.results[0].problem
    return [fact for fact in done.results[0].facts if fact.assessment in assessments]


MUST, SHOULD, FINE = Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK, Assessment.FINE


@pytest.mark.parametrize("draw", ["random.random()", "np.random.rand(3)", "torch.randn(3)", "nn.Linear(2, 2)"])
def test_a_draw_that_nothing_seeds_must_change(draw):
    assert len(found("random-sources", f"def main():\n    return {draw}\n", MUST)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "def main():\n    random.seed(0)\n    return random.random()\n",
        "def seed(number):\n    np.random.seed(number)\n\n\ndef main():\n    seed(3)\n    return np.random.rand(3)\n",
        "from lightning import seed_everything\n\n\ndef main():\n    seed_everything(0)\n    return random.random()\n",
        "def main():\n    return torch.rand(3, generator=torch.Generator().manual_seed(0))\n",
        "def main():\n    return np.random.default_rng(0).random()\n",
        "def main():\n    return torch.zeros(3)\n",
    ],
)
def test_a_seeded_draw_is_not_reported(body):
    assert not found("random-sources", body, MUST, SHOULD)


@pytest.mark.parametrize(
    "line",
    [
        "torch.manual_seed(int(time.time()))",
        "random.seed()",
        "np.random.seed(os.getpid())",
        "torch.manual_seed(hash('run'))",
        "np.random.default_rng()",
        "torch.seed()",
    ],
)
def test_a_seed_that_differs_in_every_run_must_change(line):
    assert found("random-sources", f"def main():\n    {line}\n", MUST)


def test_a_model_made_before_the_seed_must_change():
    model = "class Net(nn.Module):\n    pass\n\n\ndef main():\n"
    assert found("random-sources", f"{model}    net = Net()\n    torch.manual_seed(0)\n", MUST)
    assert not found("random-sources", f"{model}    torch.manual_seed(0)\n    net = Net()\n", MUST)


NET = """
class Net(nn.Module):
    def forward(self, x, i, v):
        return {}


def main():
    torch.use_deterministic_algorithms({})
    Net().cuda()
"""


@pytest.mark.parametrize(
    ("expression", "mode", "assessment"),
    [
        ("x.scatter_add_(0, i, v)", False, SHOULD),
        ("x.scatter_add_(0, i, v)", True, FINE),
        ("nn.functional.interpolate(x, scale_factor=2, mode='bilinear')", False, SHOULD),
        ("nn.functional.interpolate(x, scale_factor=2, mode='bilinear')", True, MUST),
    ],
)
def test_an_operation_is_judged_by_the_mode_that_is_on(expression, mode, assessment):
    facts = found("nondeterministic-operations", NET.format(expression, mode), assessment)
    assert any(fact.line == 10 for fact in facts)


@pytest.mark.parametrize(
    "expression",
    ["nn.functional.interpolate(x, scale_factor=2)", "nn.functional.adaptive_avg_pool2d(x, 1)", "x.scatter(0, i, 1)"],
)
def test_an_operation_that_repeats_its_results_is_not_reported(expression):
    facts = found("nondeterministic-operations", NET.format(expression, True), MUST, SHOULD)
    assert not [fact for fact in facts if fact.line == 10]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("def main(words):\n    return {w: i for i, w in enumerate(set(words))}\n", 1),
        ("def main(words):\n    return {w: i for i, w in enumerate(sorted(set(words)))}\n", 0),
        ("def main(words):\n    return len(list(set(words)))\n", 0),
        ("class Data(torch.utils.data.Dataset):\n    def __init__(self, p):\n        self.files = os.listdir(p)\n", 1),
        (
            "class Data(torch.utils.data.Dataset):\n    def __init__(self, p):\n        s = sorted(os.listdir(p))\n",
            0,
        ),
        ("def main(path):\n    plots = os.listdir(path)\n", 0),
    ],
)
def test_only_an_order_that_reaches_the_data_is_reported(body, count):
    assert len(found("unordered-data", body, MUST, SHOULD)) == count


def test_an_operation_without_an_algorithm_is_no_error_if_the_mode_only_warns():
    source = NET.format("nn.functional.interpolate(x, scale_factor=2, mode='bilinear')", "True, warn_only=True")
    assert not found("nondeterministic-operations", source, MUST)
    assert [each for each in found("nondeterministic-operations", source, SHOULD) if each.line == 10]


def test_a_generator_behind_a_constant_of_another_module_is_the_generator():
    sources = {
        "tools.py": "import numpy as np\n\nRANDOM = np.random\n",
        "train.py": "import torch\nimport tools as t\n\ntorch.manual_seed(0)\nlabels = [1]\nt.RANDOM.shuffle(labels)\n",
    }
    done = inspect_sources(sources, InspectionSubject(("reproducibility",)), names=["random-sources"])
    (fact,) = [each for each in done.results[0].facts if "numpy.random" in each.text]
    assert (fact.path, fact.line) == ("train.py", 6)
    assert "which `torch.manual_seed` does not reach and nothing in the project seeds" in fact.text


OPTIONAL_SEED = (
    "import numpy as np\nimport torch\n\n\nclass Noise:\n    def __init__(self, size, entropy=None):\n"
    "        if entropy is None:\n            entropy = np.random.randint(0, 9)\n        self.entropy = entropy\n\n"
    "    def draw(self):\n        generator = torch.Generator().manual_seed(int(self.entropy))\n"
    "        return torch.randn(3, generator=generator)\n\n\n"
    "def other():\n    return np.random.rand()\n"
)


def inspected(sources, name, *symbols):
    subject = InspectionSubject(("reproducibility",), symbols=symbols)
    return inspect_sources(sources, subject, names=[name]).results[0].facts


def test_a_draw_for_a_seed_that_was_not_given_names_the_parameter_and_nothing_beside_the_named_class():
    (fact,) = inspected({"noise.py": OPTIONAL_SEED}, "random-sources", "noise.py:Noise")
    assert (fact.line, "if `entropy` is not given" in fact.text) == (8, True)
    assert "`torch.manual_seed` does not reach" in fact.text
    assert "other" not in fact.text
    assert fact.remedy.startswith("pass `entropy=` with a number, or")


def test_draws_of_helpers_that_a_named_function_calls_are_named():
    helper = "import numpy as np\n\nRANDOM = np.random\n\n\ndef pick(items):\n    return RANDOM.choice(items)\n"
    sampler = "import tools as t\n\n\ndef batch(items):\n    return t.pick(items)\n"
    sources = {"sampler.py": sampler, "tools.py": helper}
    (fact,) = inspected(sources, "random-sources", "sampler.py:batch")
    assert (fact.path, fact.line) == ("tools.py", 7)


def test_a_generator_of_its_own_is_told_with_its_seed():
    (fact,) = inspected({"noise.py": OPTIONAL_SEED}, "own-generators")
    assert (fact.line, fact.assessment) == (12, "description")
    assert "seeded by `int(self.entropy)`" in fact.text


SHARED = (
    "import torch\nfrom multiprocessing import Value\n\n\nclass Masks:\n    def __init__(self):\n"
    "        self.count = Value('i', -1)\n\n    def step(self):\n        with self.count.get_lock():\n"
    "            self.count.value += 1\n            return self.count.value\n\n    def __call__(self, batch):\n"
    "        seed = self.step()\n        g = torch.Generator()\n        g.manual_seed(seed)\n"
    "        return torch.rand(1, generator=g), self.place()\n\n    def place(self):\n"
    "        return torch.randint(0, 9, (1,))\n"
)


def test_a_seed_from_a_counter_that_workers_share_and_a_draw_beside_its_generator_are_found():
    facts = inspected({"masks.py": SHARED}, "own-generators")
    assert [(fact.line, fact.assessment) for fact in facts] == [(17, "should check"), (21, "should check")]
    assert "a counter that processes share (`self.count`, line 7)" in facts[0].text


def test_a_seed_from_a_counter_of_one_process_is_not_called_shared():
    facts = inspected({"masks.py": SHARED.replace("Value('i', -1)", "Counter(-1)")}, "own-generators")
    assert facts[0].line == 21
    assert all("share" not in fact.text for fact in facts)


def test_draws_of_one_file_are_told_with_a_program_that_seeds_them(tmp_path):
    program = (
        'import torch\nimport masks\n\nif __name__ == "__main__":\n    torch.manual_seed(0)\n    masks.Masks()([])\n'
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / "masks.py").write_text(SHARED)
    (tmp_path / "train.py").write_text(program)
    subject = InspectionSubject(("reproducibility",))
    done = inspect(tmp_path, [tmp_path / "masks.py"], subject, names=["random-sources"])
    (fact,) = done.results[0].facts
    assert (fact.path, fact.line, fact.assessment) == ("masks.py", 21, "description")
    assert "it is seeded only by a program that runs train.py:5" in fact.text
