"""What one pass over a file knows."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from esper_agents.review.blocks import BlockKind
from esper_agents.review.builder import fill
from esper_agents.review.leniency import purpose_of
from esper_agents.review.names import absolute_module, dotted, root_of, tail_of
from esper_agents.review.tables import FileTables


def tables(source: str, path: str = "pkg/train.py") -> FileTables:
    text = dedent(source)
    file = FileTables(path, path.removesuffix(".py").replace("/", "."), text, ast.parse(text), purpose_of(path))
    fill(file)
    return file


@pytest.mark.parametrize(
    ("expression", "path"),
    [
        ("a.b.c", "a.b.c"),
        ("scaler.scale(loss).backward", "scaler.scale().backward"),
        ("self.layers[0].forward", "self.layers[].forward"),
        ("(a + b).sum", ".sum"),
        ("a + b", ""),
    ],
)
def test_expressions_become_paths(expression, path):
    assert dotted(ast.parse(expression, mode="eval").body) == path


def test_paths_have_a_root_and_a_tail():
    assert (root_of("self.net().x"), tail_of("self.net().x")) == ("self", "x")
    assert (root_of("net()"), tail_of("net()")) == ("net", "net")
    assert (root_of(".sum"), tail_of("a.b[]")) == ("", "b")


@pytest.mark.parametrize(
    ("module", "is_package", "level", "name", "meaning"),
    [
        ("pkg.train", False, 0, "torch.nn", "torch.nn"),
        ("pkg.train", False, 1, "model", "pkg.model"),
        ("pkg.train", False, 1, "", "pkg"),
        ("pkg.sub", True, 1, "model", "pkg.sub.model"),
        ("pkg.sub.train", False, 2, "model", "pkg.model"),
        ("train", False, 3, "model", "model"),
    ],
)
def test_relative_imports_become_absolute(module, is_package, level, name, meaning):
    assert absolute_module(module, is_package=is_package, level=level, name=name) == meaning


def test_calls_are_named_through_imports_wherever_those_stand():
    file = tables(
        """
        def f(x, nn):
            import torch.nn.functional as F
            torch.relu(x)
            F.softmax(x)
            nn.Linear(1, 2)
            late(x)

        import torch
        from torch import nn
        from .helpers import late
        """
    )
    assert [call.name for call in file.calls] == [
        "torch.relu",
        "torch.nn.functional.softmax",
        "nn.Linear",
        "pkg.helpers.late",
    ]
    assert file.imports_torch
    assert file.calls_to("torch.relu") == file.calls_ending("relu")


def test_a_call_knows_its_loops_branches_contexts_and_statement():
    file = tables(
        """
        import torch

        def f(model, loader):
            for epoch in range(3):
                with torch.no_grad():
                    for x in loader:
                        if x is not None:
                            y = model(x)
        """
    )
    call = file.calls_ending("model")[0]
    assert [block.kind.value for block in call.block.chain()] == ["if", "for", "with", "for", "function"]
    assert [ast.unparse(loop.node.target) for loop in call.block.loops()] == ["x", "epoch"]
    assert [block.contexts for block in call.block.chain() if block.kind is BlockKind.WITH] == [("torch.no_grad()",)]
    assert ast.unparse(call.statement) == "y = model(x)"
    assert call.function.parameters == ("model", "loader")


def test_comprehensions_are_loops_and_their_first_source_stands_outside():
    file = tables("outputs = [model(x) for x in batches(data)]\n")
    assert file.calls_ending("model")[0].block.loop is not None
    assert file.calls_ending("batches")[0].block.loop is None


def test_functions_know_their_class_their_surroundings_and_their_decorators():
    file = tables(
        """
        import torch

        class Trainer(Base):
            limit: int = 3

            @torch.no_grad()
            def fit(self, *items, key=None, **options):
                self.net = Net()
                def inner():
                    return self.net(key)
                return inner

        async def fetch():
            pass
        """
    )
    named = {function.qualname: function for function in file.functions}
    assert list(named) == ["<module>", "Trainer.fit", "Trainer.fit.inner", "fetch"]
    fit = named["Trainer.fit"]
    assert fit.decorators == ("torch.no_grad()",)
    assert fit.parameters == ("self", "key", "items", "options")
    assert fit.owner is file.classes[0]
    assert set(file.classes[0].attributes) == {"limit", "self.net"}
    assert file.classes[0].bases == ("Base",)
    assert named["Trainer.fit.inner"].outer is fit.block
    assert len(named["Trainer.fit.inner"].returns) == 1


def test_bindings_of_every_kind_are_kept():
    file = tables(
        """
        def f(loader):
            a = b = 1
            c, (d, *e) = pair()
            a += 2
            for i, x in loader:
                self.items[i] = x
            with open(path) as handle:
                pass
            if (n := len(a)) > 1:
                p.grad = None
        """
    )
    bound = file.functions[1].assignments
    assert set(bound) == {"a", "b", "c", "d", "e", "i", "x", "self.items[]", "handle", "n", "p.grad"}
    assert [each.is_augmented for each in bound["a"]] == [False, True]
    assert bound["d"][0].is_unpacked
    assert bound["x"][0].is_unpacked


def test_newer_syntax_is_walked():
    file = tables(
        """
        try:
            start()
        except* ValueError:
            stop()
        else:
            go_on()
        match command():
            case {"x": x} if guard(x):
                act(x)
        async def f():
            async for x in source():
                async with lock() as held:
                    await use(x)
            return {k: g(v) for k, v in items() if h(k)}
        y = (lambda z: inner(z))(f"{shown(y)!r:>{wide()}}")
        """
    )
    names = {call.tail for call in file.calls}
    assert {
        "start",
        "stop",
        "go_on",
        "command",
        "guard",
        "act",
        "source",
        "lock",
        "use",
        "g",
        "h",
        "items",
        "inner",
    } <= names
    assert {"shown", "wide"} <= names


def test_what_a_star_brings_is_named_by_its_module():
    file = tables(
        """
        from torch import *
        from torch.nn import *
        from helpers import *

        class Net(Module):
            pass

        def f(own):
            local = 1
            Linear(1, 2)
            zeros(3)
            evaluate(local)
            own(len(local))
            Net()
        """
    )
    names = [call.name for call in file.calls]
    assert names == ["torch.nn.Linear", "torch.zeros", "helpers.evaluate", "own", "len", "Net"]
    assert file.classes[0].bases == ("torch.nn.Module",)
