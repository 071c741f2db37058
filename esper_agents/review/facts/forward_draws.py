"""Random numbers that a module draws in its forward pass, in evaluation mode as well."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.conditions import tests_around
from esper_agents.review.fact_query import FactQuery
from esper_agents.review.names import walk
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables

_DRAWS = pattern(
    r"torch\.(?:rand|randn|randint|randperm|rand_like|randn_like|randint_like|bernoulli|multinomial|normal)"
    r"|torch\.nn\.functional\.gumbel_softmax|(?:numpy\.random|random)\.\w+"
)
# Drawing in place into a tensor of its own: `x.new_empty(n).uniform_()`.
_IN_PLACE = frozenset({"uniform_", "normal_", "bernoulli_", "random_", "exponential_"})
_SEEDING = pattern(r".*(?:seed|get_state|set_state|RandomState|default_rng|Random)")


class ForwardDraws(FactQuery):
    """Random numbers that the forward pass of a module draws whatever its mode is: two calls give two results."""

    name = "forward-draws"
    topics = ("reproducibility",)
    follows_names = True
    refutes = False
    category = Category.SILENT_CORRECTNESS
    claim = "a forward pass draws random numbers in evaluation mode as well"
    bad = (
        "import torch\n\n\nclass Pairs(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x, x[torch.randperm(len(x))]\n"
    )
    good = (
        "import torch\n\n\nclass Noisy(torch.nn.Module):\n    def forward(self, x):\n        if self.training:\n"
        "            x = x + torch.randn_like(x)\n        return x\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield each draw of a forward pass, or of a method of the object that it calls, which no mode decides."""
        for file in files:
            for owner in file.classes if file.purpose is not Purpose.TEST else ():
                yield from self._in_class(file, owner, index)

    def _in_class(self, file: FileTables, owner: Class, index: ProjectIndex) -> Iterator[Fact]:
        forward = owner.methods.get("forward")
        if forward is None or not index.is_module(owner):
            return
        own = [each for each in index.closure(forward) if each.owner is owner]
        for function in own:
            for call in function.calls:
                if _is_draw(call) and not _is_decided(call):
                    text = (
                        f"`{function.qualname}` draws random numbers at every call: `{ast.unparse(call.node)[:60]}`. "
                        "`eval()` does not change that, so two calls on the same input differ"
                    )
                    assumption = "equal results are expected"
                    remedy = "call `torch.manual_seed(seed)` before each call, or average over several calls"
                    yield self.problem(file, call.node, text, remedy, assumption=assumption)


def _is_draw(call: Call) -> bool:
    if call.name.startswith("torch.nn.init.") or _SEEDING.fullmatch(call.name):
        return False
    is_own = call.argument(-1, "generator") is None
    return is_own and (_DRAWS.fullmatch(call.name) is not None or (call.tail in _IN_PLACE and bool(call.receiver)))


def _is_decided(call: Call) -> bool:
    """Return whether a draw depends on the mode, or on an argument by which a caller gives the numbers instead."""
    for test in tests_around(call.block, call.function.block):
        names = {each.attr if isinstance(each, ast.Attribute) else each.id for each in walk(test) if _is_name(each)}
        if "training" in names or names & set(call.function.parameters):
            return True
    return False


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)
