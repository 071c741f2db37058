"""Who calls whom, and where values come from, across files."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import TYPE_CHECKING

from esper_agents.review.builder import fill
from esper_agents.review.index import ProjectIndex
from esper_agents.review.tables import FileTables, Purpose

if TYPE_CHECKING:
    from esper_agents.review.tables import Call, Function


def index_of(sources: dict[str, str]) -> ProjectIndex:
    files = []
    for path, source in sources.items():
        text = dedent(source)
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        files.append(FileTables(path, module, text, ast.parse(text), Purpose.CODE))
        fill(files[-1])
    return ProjectIndex(files)


def call(index: ProjectIndex, text: str) -> Call:
    return next(each for file in index.files.values() for each in file.calls if ast.unparse(each.node) == text)


def named(index: ProjectIndex, qualname: str) -> Function:
    return next(
        function for file in index.files.values() for function in file.functions if function.qualname == qualname
    )


MODEL = """
    from torch import nn

    class Base(nn.Module):
        def reset(self):
            self.count = 0

    class Net(Base):
        def forward(self, x):
            return self.head(x)
    """


def reached(index: ProjectIndex, text: str) -> list[str]:
    return [callee.qualname for callee in index.callees(call(index, text))]


def test_functions_are_found_through_imports_and_packages_that_pass_them_on():
    index = index_of(
        {
            "src/pkg/__init__.py": "from .helpers import clear as wipe\n",
            "src/pkg/helpers.py": "def clear(x):\n    pass\n",
            "train.py": "from pkg import wipe\nimport pkg.helpers as h\nwipe(1)\nh.clear(2)\n",
        }
    )
    assert reached(index, "wipe(1)") == ["clear"]
    assert reached(index, "h.clear(2)") == ["clear"]


def test_a_local_function_hides_an_imported_one():
    index = index_of(
        {
            "helpers.py": "def clear(x):\n    pass\n",
            "train.py": "def outer():\n    def clear(x):\n        pass\n    clear(1)\n",
        }
    )
    assert reached(index, "clear(1)") == ["outer.clear"]


def test_objects_lead_to_methods_and_to_forward():
    index = index_of(
        {
            "model.py": MODEL,
            "train.py": """
                import torch
                from model import Net

                class Trainer:
                    def __init__(self, net):
                        self.net = net

                    def fit(self, x):
                        self.net(x)
                        self.step(x)

                    def step(self, y):
                        pass

                net = torch.compile(Net().to("cpu"))
                net.reset()
                net(0)
                trainer = Trainer(net)
                """,
        }
    )
    assert reached(index, "net.reset()") == ["Base.reset"]
    assert reached(index, "net(0)") == ["Net.forward"]
    assert reached(index, "self.step(x)") == ["Trainer.step"]
    assert reached(index, "self.net(x)") == ["Net.forward"]


def test_an_unknown_receiver_reaches_nothing_surely_and_namesakes_possibly():
    index = index_of({"model.py": MODEL, "train.py": "def f(thing):\n    thing.reset()\n"})
    unknown = call(index, "thing.reset()")
    assert index.callees(unknown) == ()
    assert [possible_callee.qualname for possible_callee in index.possible_callees(unknown)] == ["Base.reset"]


def test_callers_are_found_over_files():
    index = index_of(
        {
            "a.py": "from b import step\nfor x in y:\n    step(x)\n",
            "b.py": "def step(x):\n    pass\n\ndef other():\n    step(1)\n",
            "c.py": "def step(x):\n    pass\n\nstep(2)\n",
        }
    )
    step = next(function for function in index.files["b.py"].functions if function.name == "step")
    assert [ast.unparse(caller.node) for caller in index.callers(step)] == ["step(x)", "step(1)"]


def test_what_a_function_reaches_goes_through_calls_and_survives_recursion():
    index = index_of(
        {
            "a.py": """
                def first(model):
                    second(model)

                def second(model):
                    third(model)
                    first(model)

                def third(model):
                    model.eval()
                    eval("1")
                """
        }
    )
    names = index.reached(named(index, "first"))
    assert {"second", "third", "eval", ".eval"} <= names
    assert ".second" not in names


def test_a_value_is_followed_through_names_attributes_and_parameters():
    index = index_of(
        {
            "a.py": """
                from b import run

                class T:
                    def __init__(self):
                        self.loss = make()

                    def fit(self):
                        chosen = self.loss
                        run(chosen)
                """,
            "b.py": "def run(criterion):\n    again = criterion\n    use(again)\n",
        }
    )
    using = call(index, "use(again)")
    origins = index.origins(using.node.args[0], using.function, using.line)
    assert [(ast.unparse(origin.value), origin.function.qualname) for origin in origins] == [("make()", "T.__init__")]


def test_a_value_that_goes_in_circles_ends():
    index = index_of({"a.py": "def f(x):\n    f(x)\n    use(x)\n\nclass A(A):\n    pass\n\na = b\nb = a\nuse2(b)\n"})
    for text in ("use(x)", "use2(b)"):
        using = call(index, text)
        assert index.origins(using.node.args[0], using.function, using.line)
        assert index.class_of(using.node.args[0], using.function, using.line) is None
    assert index.lineage(index.files["a.py"].classes[0]).classes == (index.files["a.py"].classes[0],)


def test_a_module_is_known_by_bases_in_other_files():
    index = index_of({"model.py": MODEL, "plain.py": "class Plain:\n    pass\n"})
    net = index.class_named("model.Net", index.files["plain.py"])
    assert net is not None
    assert index.is_module(net)
    assert not index.is_module(index.files["plain.py"].classes[0])
