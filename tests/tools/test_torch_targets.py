"""Which targets a task means: found by reading, never by running, and nothing is guessed."""

from __future__ import annotations

import pytest
from torch_toys import FILES, write

from esper_agents.errors import EvidenceError
from esper_agents.tools.registry import load_tools
from esper_agents.tools.runnable_targets import RunKind, find_runnables, module_classes, relevance
from esper_agents.tools.tool import ToolContext

HEAD = "import functools\nimport torch\nimport torch.nn as nn\nfrom torch.nn import Module as Base\n\n\n"
NET = """class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()

    def forward(self, x):
        return x


"""
INPUTS = "def get_inputs():\n    return (torch.randn(3),)\n"


def found(text, **options):
    """Return what can be run, and what else is missing, by name."""
    return {runnable.name: runnable for runnable in find_runnables(HEAD + text, "m.py", **options)}


def needs(text, name, **options):
    return found(text, **options)[name].needs


@pytest.mark.parametrize("base", ["nn.Module", "torch.nn.Module", "Base"])
def test_a_module_that_takes_nothing_to_make_can_be_run_where_inputs_stand_beside_it(base):
    text = NET.replace("nn.Module", base)
    assert needs(text + INPUTS, "Net") == ()
    assert needs(text, "Net") == ("inputs: x",)
    assert needs(text, "Net", inputs=1) == ()
    assert found(text)["Net"].kind is RunKind.MODULE


def test_a_module_that_takes_something_to_make_is_not_made_up():
    text = NET.replace("width=8", "width") + INPUTS
    assert needs(text, "Net") == ("arguments to be made: width",)


def test_a_class_of_another_kind_is_no_module():
    assert found(NET.replace("nn.Module", "object")) == {}


def test_a_class_below_a_module_of_the_file_is_one_and_takes_what_its_base_takes():
    below = "class Below(Net):\n    pass\n\n\n"
    assert needs(NET + below + INPUTS, "Below") == ()
    assert needs(NET + below, "Below") == ("inputs: x",)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("    return Net()\n", RunKind.MODULE),
        ("    model = Net().eval()\n    return model\n", RunKind.MODULE),
        ("    return nn.Linear(3, 3)\n", RunKind.MODULE),
        ("    return torch.compile(Net())\n", RunKind.MODULE),
        ("    def inner():\n        return 1\n    return inner\n", RunKind.STEP),
        ("    return lambda: 1\n", RunKind.STEP),
        ("    return functools.partial(print, 1)\n", RunKind.STEP),
    ],
)
def test_a_factory_is_known_by_what_it_returns(body, kind):
    assert found(f"{NET}def make():\n{body}")["make"].kind is kind


@pytest.mark.parametrize(
    "text",
    [
        "def helper():\n    return 3\n",
        "def download():\n    open('x')\n",
        "def main():\n    return Net()\n",
        "def test_it():\n    return Net()\n",
        "def _private():\n    return Net()\n",
        "@app.command()\ndef serve():\n    return Net()\n",
        "def stream():\n    yield Net()\n",
        "async def fetch():\n    return Net()\n",
        "def either(): \n    if torch: return Net()\n    return 3\n",
    ],
)
def test_what_may_do_anything_when_it_is_called_is_no_target(text):
    assert set(found(NET + text + INPUTS)) == {"Net"}


def test_a_function_wants_as_many_inputs_as_there_are():
    text = "def one(x):\n    return x\n\n\ndef two(x, y):\n    return x\n\n\ndef some(x, y=1):\n    return x\n"
    assert {name: each.needs for name, each in found(text + INPUTS).items()} == {
        "one": (),
        "two": ("inputs: x, y, but 1 given",),
        "some": (),
    }
    assert needs(text, "two", inputs=2) == ()


@pytest.mark.parametrize("parameter", ["model", "loader", "optimizer", "args", "path"])
def test_a_function_that_wants_something_that_is_no_tensor_is_not_fed_one(parameter):
    assert needs(f"def evaluate({parameter}):\n    return 1\n{INPUTS}", "evaluate") == (
        f"arguments that are not inputs: {parameter}",
    )


def test_a_step_by_name_makes_its_own_inputs():
    assert found("def train_step():\n    return 1\n")["train_step"].kind is RunKind.STEP
    assert needs("def make_step():\n    def step(batch):\n        return 1\n    return step\n", "make_step") == (
        "inputs: batch",
    )


@pytest.fixture
def look(tmp_path):
    """Look for targets in a small project."""
    tool = load_tools().get("torch-targets")

    async def run(paths=(".",), files=FILES, **arguments):
        return (await tool.run(ToolContext(write(tmp_path, files)), {"paths": list(paths), **arguments})).output

    return run


def targets(entries):
    return [entry["target"] for entry in entries]


@pytest.mark.anyio
class TestLooking:
    async def test_what_can_be_run_is_found_in_order_of_files_and_lines(self, look):
        output = await look()
        assert targets(output["runnable"]) == [
            "compiled.py:make_step",
            "growing.py:make_step",
            "losses.py:Loss",
            "model.py:Net",
        ]
        assert targets(output["missing"])[:2] == ["batches.py:step", "compiled.py:work"]

    async def test_inputs_that_are_at_hand_make_functions_runnable(self, look):
        assert "ops.py:slow" in targets((await look(["ops.py"], inputs=["randn(3)"]))["runnable"])

    async def test_what_uses_what_is_told(self, look):
        files = {"m.py": HEAD + NET + "def make():\n    return Net()\n\n\n" + INPUTS}
        entries = {each["target"]: each["uses"] for each in (await look(files=files))["runnable"]}
        assert entries == {"m.py:Net": [], "m.py:make": ["m.py:Net"]}

    @pytest.mark.parametrize("said", ["ops.py:fast", "fast"])
    async def test_what_a_person_names_is_found_by_file_or_by_bare_name(self, look, said):
        (named,) = (await look(named=[said]))["named"]
        assert (named["targets"], named["line"], named["kind"]) == (["ops.py:fast"], 11, "function")

    async def test_a_bare_name_that_nothing_defines_names_nothing(self, look):
        (named,) = (await look(named=["PyTorch"]))["named"]
        assert named["targets"] == []

    async def test_a_bare_name_that_two_files_define_names_both(self, look):
        (named,) = (await look(named=["make_step"]))["named"]
        assert named["targets"] == ["compiled.py:make_step", "growing.py:make_step"]

    async def test_a_named_file_outside_the_paths_is_looked_at_as_well(self, look):
        (named,) = (await look(["ops.py"], named=["model.py:Net"]))["named"]
        assert (named["targets"], named["needs"]) == (["model.py:Net"], [])

    @pytest.mark.parametrize("said", ["nowhere.py:f", "../x.py:f", "package.module:f"])
    async def test_a_named_file_that_is_not_there_is_bad_input(self, look, said):
        with pytest.raises(EvidenceError, match="there is no file"):
            await look(named=[said])

    async def test_a_file_that_does_not_parse_is_left_out(self, look):
        output = await look(files={"broken.py": "def (", "ops.py": FILES["ops.py"]}, inputs=["randn(3)"])
        assert len(output["runnable"]) == 4


def test_a_class_below_a_module_of_another_file_is_one():
    texts = [HEAD + NET, "from m import Net\n\n\nclass Far(Net):\n    pass\n", "class Other(Unknown):\n    pass\n"]
    modules = module_classes(texts)
    assert modules == {"Net", "Far"}
    (far,) = find_runnables(texts[1], "n.py", modules=modules)
    assert (far.name, far.kind, far.needs) == ("Far", RunKind.MODULE, ("inputs: x",))


def test_targets_are_ranked_by_rare_words_names_and_files_of_the_request_and_tests_come_last():
    below = "class CrossBatchMemoryLoss(Net):\n    pass\n\n\nclass ContrastiveLoss(Net):\n    pass\n\n\n"
    runnables = find_runnables(HEAD + NET + below, "losses.py")
    tests = find_runnables(HEAD + NET + below, "tests/losses.py")
    ranks = relevance([*tests, *runnables], ["memory", "grows", "in", "losses"])
    assert max(ranks, key=ranks.__getitem__) == "losses.py:CrossBatchMemoryLoss"
    assert ranks["tests/losses.py:CrossBatchMemoryLoss"] < ranks["losses.py:ContrastiveLoss"]
    assert relevance(runnables, ["memory", "losses.py:Net"])["losses.py:Net"] >= 100


@pytest.mark.parametrize(
    ("body", "is_listed"),
    [
        ("return x is not None", False),
        ("return x if exists(x) else y", False),
        ("return x if isinstance(x, tuple) else (x,)", False),
        ("return x * 2", True),
        ("return x.relu()", True),
        ("return twice(x)", True),
    ],
)
def test_helpers_that_only_test_or_select_do_not_compute(body, is_listed):
    helpers = "def exists(x):\n    return x is not None\n\n\ndef twice(x):\n    return x + x\n"
    assert found(f"{helpers}\n\ndef wanted(x, y):\n    {body}\n")["wanted"].computes is is_listed
