"""Generators of torch that the code makes itself: the origin of their seeds, and draws beside them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_DRAWS = pattern(
    r"torch\.(?:rand|randn|randint|randperm|rand_like|randn_like|randint_like|bernoulli|multinomial|normal)"
)
_SHARED = frozenset(("Value", "RawValue"))
_MOST_BESIDE = 3


class OwnGenerators(FactQuery):
    """Generators of torch that the code seeds itself, and draws in the same class or function that do not use them."""

    name = "own-generators"
    topics = ("reproducibility",)
    follows_names = True
    category = Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n\n\ndef crop(image, seed):\n    generator = torch.Generator().manual_seed(seed)\n"
        "    size = torch.randint(1, 9, (1,), generator=generator)\n    top = torch.randint(0, 9, (1,))\n"
        "    return image[top : top + size]\n"
    )
    good = "import torch\n\n\ndef noise(x):\n    return torch.randn_like(x)\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield each seed of a generator, and the draws beside it."""
        for file in files:
            for call in file.calls_ending("manual_seed"):
                if not _is_of_generator(call, index):
                    continue
                yield self._seed(file, call, index)
                yield from self._beside(file, call)

    def _seed(self, file: FileTables, call: Call, index: ProjectIndex) -> Fact:
        seed = call.argument(0, "seed")
        shown = ast.unparse(seed)[:60] if seed is not None else "nothing"
        if seed is not None and (counter := _shared_counter(seed, call, index)):
            text = (
                f"a generator is seeded by `{shown}`, a counter that processes share ({counter}): with several workers "
                "their timing decides which batch gets which number"
            )
            remedy = "derive the seed from the indices or the epoch of the batch"
            assumption = "several workers of a loader run it"
            return self.problem(file, call.node, text, remedy, assumption=assumption)
        text = (
            f"a generator of its own is seeded by `{shown}`: `torch.manual_seed` does not reach what is drawn from it"
        )
        return self.fact(file, call.node, Assessment.DESCRIPTION, text)

    def _beside(self, file: FileTables, seed: Call) -> Iterator[Fact]:
        """Yield draws of the same class or function from the global generator."""
        owner = seed.function.owner
        functions = list(owner.methods.values()) if owner is not None else [seed.function]
        beside = [
            call
            for function in functions
            for call in function.calls
            if _DRAWS.fullmatch(call.name)
            and call.argument(-1, "generator") is None
            and not (call.has_splat() or (seed.line > call.line and function is seed.function))
        ]
        if beside:
            first, *others = beside
            lines = list(dict.fromkeys(str(call.line) for call in others if call.line != first.line))[:_MOST_BESIDE]
            more = f" (line{'s' if len(lines) > 1 else ''} {', '.join(lines)} too)" if lines else ""
            text = f"`{first.path}` takes no generator{more}: it draws from that of torch, unlike line {seed.line}"
            assumption = "all of it should follow that seed"
            yield self.problem(file, first.node, text, "pass `generator=` here as well", assumption=assumption)


def _is_of_generator(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call seeds an object that `torch.Generator` made."""
    value = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    if value is None or call.name.startswith("torch.manual_seed"):
        return False
    origins = [value, *(origin.value for origin in index.origins(value, call.function, call.line))]
    return any(isinstance(each, ast.Call) and tail_of(dotted(each.func)) == "Generator" for each in origins)


def _shared_counter(seed: ast.expr, call: Call, index: ProjectIndex) -> str:
    """Return the place of the counter in shared memory from which a seed comes; empty without one."""
    values = [seed, *(origin.value for origin in index.origins(seed, call.function, call.line))]
    functions: list[Function] = [call.function]
    for value in values:
        functions += [callee for each in call.function.calls if each.node is value for callee in index.callees(each)]
    owner = call.function.owner
    if owner is None or len(functions) == 1:
        return ""
    for path, assigned in owner.attributes.items():
        made = assigned[-1].value
        is_shared = isinstance(made, ast.Call) and tail_of(dotted(made.func)) in _SHARED
        if is_shared and any(_reads(function, path) for function in functions[1:]):
            return f"`{path}`, line {made.lineno}"
    return ""


def _reads(function: Function, path: str) -> bool:
    return any(isinstance(node, ast.Attribute) and dotted(node) == path for node in ast.walk(function.node))
