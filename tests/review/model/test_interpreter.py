"""Tests of the abstract interpreter: programs with the events and values they lead to."""

import pytest

from esper_agents.review.index import ProjectIndex
from esper_agents.review.model.budget import Budget
from esper_agents.review.model.events import EventKind
from esper_agents.review.model.program import close_program, interpret, program_of
from esper_agents.review.model.query import Run
from esper_agents.review.parsing import tables_of
from esper_agents.review.source import from_bytes

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
NET = (
    "class Net(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.body = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1))\n"
    "    def forward(self, x):\n"
    "        return self.body(x)\n"
)
# Makes every program worth running.
SEED = "    torch.zeros(1, requires_grad=True).sum().backward()\n"


def index_of(files):
    return ProjectIndex([tables_of(from_bytes(text.encode(), path)) for path, text in sorted(files.items())])


def runs_of(text, **others):
    files = {"main.py": text} | {f"{name}.py": each for name, each in others.items()}
    return [Run(entry) for entry in interpret(index_of(files)).runs]


def forwards_of(text, **others):
    return [event for run in runs_of(text, **others) for event in run.forwards]


def modes_at_forwards(text, **others):
    return [sorted(setting.mode.value for setting in event.modes) for event in forwards_of(text, **others)]


def grads_at_forwards(text, **others):
    return [event.grad.value for event in forwards_of(text, **others)]


MODES = {
    "a new module trains": ("net = Net()\nnet(x)\n", ["training"]),
    "eval switches the parts as well": ("net = Net()\nnet.eval()\nnet(x)\n", ["evaluation"]),
    "train takes a flag": ("net = Net()\nnet.train(False)\nnet(x)\n", ["evaluation"]),
    "an alias is the same module": ("net = Net()\nother = net\nother.eval()\nnet(x)\n", ["evaluation"]),
    "a copy is another module": ("net = Net()\nother = copy.deepcopy(net)\nnet.eval()\nother(x)\n", ["training"]),
    "a branch leaves both modes": ("net = Net()\nif flag:\n    net.eval()\nnet(x)\n", ["evaluation", "training"]),
    "a decided branch leaves one": ("net = Net()\nif None is None:\n    net.eval()\nnet(x)\n", ["evaluation"]),
    "a factory": ("def make():\n    return Net()\nnet = make()\nnet.eval()\nnet(x)\n", ["evaluation"]),
    "a partial": ("make = functools.partial(Net)\nnet = make().eval()\nnet(x)\n", ["evaluation"]),
    "a registry": ("KNOWN = {'a': Net}\nnet = KNOWN['a']()\nnet.eval()\nnet(x)\n", ["evaluation"]),
    "a method by name": ("net = Net()\ngetattr(net, 'eval')()\nnet(x)\n", ["evaluation"]),
    "a loop over models": ("a, b = Net(), Net()\nfor m in (a, b):\n    m.eval()\na(x)\n", ["evaluation"]),
    "a helper": ("def off(m):\n    m.eval()\nnet = Net()\noff(net)\nnet(x)\n", ["evaluation"]),
    "an unknown callee": ("net = Net()\nframework.prepare(net)\nnet(x)\n", ["unknown"]),
    "a wrapper runs its module": ("net = Net()\nnet.eval()\nnn.DataParallel(net)(x)\n", ["evaluation"]),
    "a context manager of the project": (
        (
            "@contextlib.contextmanager\ndef still(m):\n    m.eval()\n    yield\n    m.train()\n"
            "net = Net()\nwith still(net):\n    net(x)\n"
        ),
        ["evaluation"],
    ),
    "a phase of two": (
        (
            "net = Net()\nfor phase in ('a', 'b'):\n    if phase == 'a':\n        net.train()\n"
            "    else:\n        net.eval()\nnet(x)\n"
        ),
        ["evaluation"],
    ),
    "an object of a class": (
        (
            "class T:\n    def __init__(self, m):\n        self.m = m\n    def off(self):\n        self.m.eval()\n"
            "net = Net()\nT(net).off()\nnet(x)\n"
        ),
        ["evaluation"],
    ),
}


@pytest.mark.parametrize(("text", "modes"), MODES.values(), ids=MODES)
def test_the_mode_of_a_model_is_known_where_it_runs(text, modes):
    imports = "import contextlib\nimport copy\nimport functools\n"
    assert modes_at_forwards(HEAD + imports + NET + text + "loss.backward()\n") == [modes]


GRADS = {
    "no context": ("net(x)\n", "on"),
    "no_grad": ("with torch.no_grad():\n    net(x)\n", "off"),
    "inference_mode": ("with torch.inference_mode():\n    net(x)\n", "off"),
    "enable_grad inside": ("with torch.no_grad(), torch.enable_grad():\n    net(x)\n", "on"),
    "a decorator": ("@torch.no_grad()\ndef run():\n    net(x)\nrun()\n", "off"),
    "a call for the whole script": ("torch.set_grad_enabled(False)\nnet(x)\n", "off"),
    "a known flag": ("with torch.set_grad_enabled(1 > 2):\n    net(x)\n", "off"),
    "an unknown flag": ("with torch.set_grad_enabled(flag):\n    net(x)\n", "unknown"),
    "after the block": ("with torch.no_grad():\n    pass\nnet(x)\n", "on"),
}


@pytest.mark.parametrize(("text", "grad"), GRADS.values(), ids=GRADS)
def test_the_grad_mode_is_known_where_a_model_runs(text, grad):
    assert grads_at_forwards(HEAD + NET + "net = Net()\n" + text + "loss.backward()\n") == [grad]


STORES = {
    "append": ("kept.append(loss)", "append", True),
    "extend": ("kept.extend([loss])", "extend", True),
    "plus": ("kept += [loss]", "extend", True),
    "a sum": ("total = total + loss", "accumulate", True),
    "a detached value": ("kept.append(loss.detach())", "", False),
    "a number": ("kept.append(loss.item())", "", False),
    "without gradients": ("with torch.no_grad():\n        kept.append(loss * 2)", "", False),
    "what has no graph": ("kept.append(out.argmax(1))", "", False),
}


@pytest.mark.parametrize(("statement", "name", "is_kept"), STORES.values(), ids=STORES)
def test_a_store_of_a_value_knows_its_graph(statement, name, is_kept):
    text = (
        f"{HEAD}{NET}net = Net()\nkept, total = [], 0\nfor x, y in loader:\n    out = net(x)\n"
        f"    loss = F.cross_entropy(out, y)\n    loss.backward()\n    {statement}\n"
    )
    (run,) = (run for run in runs_of(text) if run.backwards)
    stores = [event for event in run.of_kind(EventKind.STORE) if run.trained & event.graph]
    assert {event.name for event in stores} == ({name} if is_kept else set())


def test_a_sum_is_carried_by_the_loop_from_its_second_round():
    text = f"{HEAD}{NET}net = Net()\ntotal = 0\nfor x in loader:\n    total += net(x).sum()\n    total.backward()\n"
    (run,) = (run for run in runs_of(text) if run.backwards)
    stores = list(run.of_kind(EventKind.STORE))
    loop = stores[0].loops[0][0]
    assert [run.is_carried(event, loop) for event in stores] == [False, True]
    assert all(run.flows_backward(event) for event in stores)


def test_a_loop_over_layers_is_no_loop_over_data():
    text = (
        f"{HEAD}{NET}blocks = nn.ModuleList([Net(), Net()])\nfor x in loader:\n    for block in blocks:\n"
        "        x = block(x)\n    x.sum().backward()\n"
    )
    (run,) = (run for run in runs_of(text) if run.backwards)
    assert {loop.code.at.line for event in run.forwards for loop, _ in run.turns(event)} == {11}


def test_a_model_is_followed_through_the_files_of_a_project():
    head = "import torch\n@torch.no_grad()\ndef check(model, data):\n"
    tools = f"{head}    model.eval()\n    for x in data:\n        model(x)\n"
    main = f"{HEAD}from tools import check\n{NET}net = Net()\ncheck(net, loader)\nloss.backward()\n"
    found = forwards_of(main, tools=tools)
    assert {(event.path, event.grad.value) for event in found} == {("tools.py", "off")}
    assert {setting.mode.value for event in found for setting in event.modes} == {"evaluation"}


def test_scripts_of_one_folder_do_not_share_their_models():
    one = f"{HEAD}from nets import Net\ndef main():\n    net = Net()\n    net.eval()\n    net(x)\n{SEED}"
    two = f"{HEAD}from nets import Net\ndef main():\n    net = Net()\n    net(x)\n{SEED}"
    guard = "if __name__ == '__main__':\n    main()\n"
    assert modes_at_forwards(one + guard, nets=HEAD + NET, other=two + guard) == [["evaluation"], ["training"]]


def test_a_name_alone_makes_no_model():
    assert forwards_of("for x in loader:\n    y = model(x)\n    y.backward()\n") == []
    used = "model.train()\nfor x in loader:\n    y = model(x)\n    y.backward()\n"
    assert len(forwards_of(used)) == 2


def test_recursion_through_factories_ends():
    text = f"{HEAD}def a(n):\n    return b(n)\ndef b(n):\n    return a(n - 1)\nnet = a(3)\nnet(x).backward()\n"
    assert runs_of(text)


def test_a_run_that_uses_up_its_budget_is_cut_and_named():
    text = "def f(model):\n" + "    model(1)\n" * 200 + "    model(1).backward()\n"
    program = interpret(index_of({"main.py": text}), budget=Budget(instructions=100))
    assert program.cut == ["f"]


def test_two_interpretations_of_one_project_give_the_same_events():
    text = f"{HEAD}{NET}net = Net()\nfor x in loader:\n    net(x).sum().backward()\n"
    logs = [[(event.kind, event.at.line, event.graph) for run in runs_of(text) for event in run.events] for _ in "ab"]
    assert logs[0] == logs[1]


def test_an_error_in_the_interpreter_costs_one_entry_point(monkeypatch):
    from esper_agents.review.model import calls

    def fail(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr(calls.Calls, "forward", fail)
    index = index_of({"main.py": "loss.backward()\nmodel(1)\n", "other.py": "loss.backward()\n"})
    program_of(index)
    assert [entry.name for entry in program_of(index).runs] == ["main.py", "other.py"]
    assert close_program(index) == [("main.py", "ValueError: no such thing")]


def test_a_table_of_numbers_costs_no_instructions():
    text = HEAD + NET + "TABLE = [" + "1.5, " * 50_000 + "]\nnet = Net()\nnet.eval()\nnet(x)\n"
    text += "torch.zeros(1, requires_grad=True).sum().backward()\n"
    assert modes_at_forwards(text) == [["evaluation"]]


def test_a_key_that_a_known_dictionary_lacks_gives_the_default():
    text = HEAD + NET + "net = Net()\nknown = {'a': net.eval}\nknown.get('b', net.train)()\nnet(x)\n"
    text += "torch.zeros(1, requires_grad=True).sum().backward()\n"
    assert modes_at_forwards(text) == [["training"]]
