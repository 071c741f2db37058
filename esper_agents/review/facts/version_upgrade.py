"""Upgrade of torch: what is gone, deprecated or different between two versions, line by line."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.behaviour_changes import changed_uses
from esper_agents.review.fact_query import Assessment, FactQuery, InspectionSubject
from esper_agents.review.models import is_model
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.symbols import uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.behaviour_changes import BehaviourChange
    from esper_agents.review.fact_query import Fact
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.symbols import SymbolUse
    from esper_agents.review.tables import Call, FileTables

_VERSION = re.compile(r"(?<![\w.])v?(\d{1,2}(?:\.\d{1,2}){1,3})")
_OTHERS = re.compile(r"python|cuda|triton|numpy|cudnn", re.IGNORECASE)
_NEWEST = "99"
_OF_MODULES = frozenset({"parameters", "named_parameters", "state_dict", "modules", "train", "eval", "requires_grad_"})


@dataclass(frozen=True, slots=True)
class _Range:
    """Versions of torch before and after an upgrade."""

    before: str
    after: str

    def __contains__(self, version: str) -> bool:
        return _key(self.before) < _key(version) <= _key(self.after)

    def is_over(self, version: str) -> bool:
        """Return whether the upgrade ends before a version."""
        return _key(version) > _key(self.after)


class VersionUpgrade(FactQuery):
    """Names that an upgrade of torch removes or deprecates and calls that behave otherwise after it, by version."""

    name = "version-upgrade"
    topics = ("upgrade",)
    claim = "the code uses what the versions in question removed or changed"
    category = Category.COMPILE
    unseen = "versions of Python, CUDA and the packages that the upgraded environment will have"
    bad = (
        "import torch\n\n\ndef load(path):\n    state = torch.load(path)\n    values, _ = torch.symeig(state)\n"
        "    return values\n"
    )
    good = "import torch\n\n\ndef load(path):\n    return torch.load(path, weights_only=True)\n"
    asked = InspectionSubject(("upgrade",), None, (), ("torch 1.12", "torch 2.6"))

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the uses of what changed, by what the change means for them."""
        versions = _range(subject)
        for file in files:
            taken = set[int]()
            for node, name, change in changed_uses(file, index):
                taken.add(getattr(node, "lineno", 0))
                yield from self._changed(file, node, name, change, versions)
            for use in uses(file, index):
                if getattr(use.node, "lineno", 0) not in taken:
                    yield self._symbol(file, use, versions)
            yield from self._saved_modules(file, index, versions)
            for call in file.calls_to("torch.load"):
                said = next((keyword.value for keyword in call.node.keywords if keyword.arg == "weights_only"), None)
                if said is not None:
                    text = "`torch.load` says `weights_only`: the default that torch 2.6 changed is not used"
                    yield self.fact(file, call.node, Assessment.FINE, text)

    def _changed(
        self, file: FileTables, node: ast.AST, name: str, change: BehaviourChange, versions: _Range
    ) -> Iterator[Fact]:
        text = f"`{name}`: since {change.package} {change.version} it {change.change}"
        is_torch = change.package == "torch"
        if is_torch and versions.is_over(change.version):
            late = f"`{name}` changes with torch {change.version} only, after this upgrade"
            yield self.fact(file, node, Assessment.FINE, late)
        elif is_torch and change.version not in versions:
            return
        else:
            text = text.replace("it has no such", "there is no such")
            if change.breaks:
                yield self.problem(file, node, text, change.remedy)
            else:
                yield self.fact(file, node, Assessment.SHOULD_CHECK, text, change.remedy)

    def _saved_modules(self, file: FileTables, index: ProjectIndex, versions: _Range) -> Iterator[Fact]:
        """Yield where a whole module is saved, which `torch.load` refuses by default since torch 2.6."""
        for call in file.calls_to("torch.save") if "2.6" in versions else ():
            value = call.argument(0, "obj")
            for origin in index.origins(value, call.function, call.line) if value is not None else ():
                parts = origin.value.values if isinstance(origin.value, ast.Dict) else [origin.value]
                whole = [part for part in parts if _is_module(part, call, index)]
                if whole:
                    text = f"`torch.save` stores the whole module `{ast.unparse(whole[0])[:60]}`"
                    text += ", which `torch.load` of torch 2.6 refuses without `weights_only=False`"
                    yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "save its `state_dict()`")
                    break

    def _symbol(self, file: FileTables, use: SymbolUse, versions: _Range) -> Fact:
        symbol = use.symbol
        about = f"`{symbol.keyword}=` of `{use.name}`" if symbol.keyword else f"`{use.name}`"
        if symbol.absent:
            about = f"`{use.name}` without `{symbol.absent}=`"
        remedy = symbol.replacement(use.name)
        if symbol.removed and not versions.is_over(symbol.removed):
            when = "" if symbol.removed in versions else ", before the versions in question already"
            text = f"{about} is gone or refused since torch {symbol.removed}{when}"
            return self.problem(file, use.node, text, remedy)
        if symbol.deprecated and symbol.deprecated in versions:
            until = f", and gone with torch {symbol.removed}" if symbol.removed else ""
            text = f"{about} is deprecated since torch {symbol.deprecated} and still works{until}"
            return self.fact(file, use.node, Assessment.SHOULD_CHECK, text, remedy)
        if symbol.removed:
            text = f"{about} still works in the versions in question; torch {symbol.removed} removes it"
            return self.fact(file, use.node, Assessment.SHOULD_CHECK, text, remedy)
        text = f"{about} is deprecated, and works in the versions in question as before"
        return self.fact(file, use.node, Assessment.FINE, text)


def _is_module(value: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a value is a module, also as a copy or moved: by its class, or by what only modules have."""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in {"cpu", "half", "float", "to", "eval"}:
            value = value.func.value
        elif tail_of(dotted(value.func)) in {"deepcopy", "de_parallel", "unwrap_model"} and value.args:
            value = value.args[0]
        else:
            return False
    path, function = dotted(value), call.function
    if not path or not isinstance(value, ast.Name | ast.Attribute):
        return False
    if (made := index.class_of(value, function, call.line)) is not None:
        return index.is_module(made)
    owner = function.owner
    around = list(owner.methods.values()) if path.startswith("self.") and owner is not None else [function]
    is_bound = any(each.assignments.get(path) for each in around)
    is_used = any(each.receiver == path and each.tail in _OF_MODULES for one in around for each in one.calls)
    return is_used or (not is_bound and is_model(path, call, index))


def _range(subject: InspectionSubject) -> _Range:
    """Return the named versions of torch; of one, all that leads to it."""
    named = [
        found[0] for version in subject.versions if not _OTHERS.search(version) and (found := _VERSION.findall(version))
    ]
    if len(named) > 1:
        ordered = sorted(named[:2], key=_key)
        return _Range(ordered[0], ordered[1])
    return _Range("0", named[0] if named else _NEWEST)


def _key(version: str) -> tuple[int, ...]:
    numbers = [int(each) for each in version.split(".")[:2]]
    return (*numbers, *[0] * (2 - len(numbers)))
