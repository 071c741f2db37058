"""Loads of pickled data: what each may execute, and where its argument comes from."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.argument_origins import UNTRUSTED, assumed_writer, origin_of
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.symbols import is_for_some_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_TORCH = ("torch.load", "torch.serialization.load")
_UNPICKLE = (
    "pickle.load",
    "pickle.loads",
    "cPickle.load",
    "dill.load",
    "dill.loads",
    "joblib.load",
    "cloudpickle.load",
)
_MOST_CALLERS = 3
_HUB = ("torch.hub.load", "torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")
_SAFE = ("safetensors.torch.load_file", "safetensors.torch.load", "safetensors.safe_open")


class CheckpointLoads(FactQuery):
    """Every `torch.load`, unpickling and hub call, with the origin of its argument; the safe ones too."""

    name = "checkpoint-loads"
    topics = ("security", UNTRUSTED, "checkpoints")
    claim = "loading a file may execute code of whoever wrote it"
    follows_names = True
    category = Category.SECURITY
    rules = ("ESP901", "ESP902", "ESP903")
    unseen = "who can write the files that are loaded"
    bad = "import pickle\n\n\ndef load(path):\n    with open(path, 'rb') as file:\n        return pickle.load(file)\n"
    good = "import torch\n\n\ndef load(path):\n    return torch.load(path, weights_only=True)\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield one fact for each load."""
        for file in files:
            for call in file.calls_to(*_TORCH):
                yield self._torch(file, call, index)
                yield from self._reached(file, call, index)
            for call in file.calls_to(*_UNPICKLE):
                origin = origin_of(call, index)
                if _is_own(call):
                    text = f"`{call.path}` reads what this class pickled itself; {origin}"
                    yield self.fact(file, call.node, Assessment.FINE, text)
                    continue
                text = f"`{call.path}` executes what the data says; {origin}"
                remedy = "load tensors with safetensors, data as JSON"
                yield self.problem(file, call.node, text, remedy, assumption=assumed_writer(origin, subject))
            for call in file.calls_to(*_HUB):
                text = f"`{call.path}` downloads code or weights; {origin_of(call, index)}"
                yield self.fact(file, call.node, Assessment.OPEN, text)
                yield from self._reached(file, call, index)
                yield from self._unencrypted(file, call)
            for call in file.calls_to(*_SAFE):
                yield self.fact(file, call.node, Assessment.FINE, f"`{call.path}` reads tensors only")

    def _reached(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        """Yield the origin of what is loaded, and the calls by which it gets there."""
        given = call.argument(0, "f") or call.argument(0, "url")
        if given is None or isinstance(given, ast.Constant):
            return
        name, origin = ast.unparse(given)[:50], origin_of(call, index, given)
        if origin.endswith((f" {name}", f"`{name}`")):
            # The origin is open; the values that reach it are not.
            values = [ast.unparse(each.value)[:50] for each in index.origins(given, call.function, call.line)]
            texts = dict.fromkeys(f"`{value}`" for value in values if value != name)
            origin = f"it is {' or '.join(list(texts)[:_MOST_CALLERS])}" if texts else origin
        callers = [each for each in index.callers(call.function) if each.function is not call.function]
        places = ", ".join(dict.fromkeys(f"{each.function.file.path}:{each.line}" for each in callers[:_MOST_CALLERS]))
        by = f"; `{call.function.name}` is called at {places}" if places and "called at" not in origin else ""
        text = f"`{call.path}` loads `{name}`: {origin}{by}"
        yield self.fact(file, call.node, Assessment.DESCRIPTION, text)

    def _unencrypted(self, file: FileTables, call: Call) -> Iterator[Fact]:
        """Yield where an address loses its encryption before it is downloaded."""
        given = call.argument(0, "url")
        address = dotted(given) if given is not None else ""
        before = [each for each in call.function.assignments.get(address, ()) if each.statement.lineno < call.line]
        for assigned in before if address else ():
            match assigned.value:
                case ast.Call(
                    func=ast.Attribute(attr="replace"),
                    args=[ast.Constant(value=str(old)), ast.Constant(value=str(new))],
                ) if old.startswith("https") and new.startswith("http") and not new.startswith("https"):
                    text = (
                        f"`{address}` loses its encryption before line {call.line} downloads it, so anyone on the way "
                    )
                    yield self.problem(file, assigned.statement, f"{text}can change it", "omit the second attempt")
                case _:
                    continue

    def _torch(self, file: FileTables, call: Call, index: ProjectIndex) -> Fact:
        said = call.argument(-1, "weights_only")
        origin = origin_of(call, index)
        if isinstance(said, ast.Constant) and said.value is True:
            text = f"`{call.path}` with `weights_only=True` refuses code; {origin}"
            return self.fact(file, call.node, Assessment.FINE, text)
        if isinstance(said, ast.Constant) and said.value is False:
            text = f"`{call.path}` with `weights_only=False` executes what the file says; {origin}"
            return self.problem(file, call.node, text, "write `weights_only=True`")
        if said is not None or call.has_splat():
            text = f"`{call.path}` takes `weights_only` from elsewhere; {origin}"
            return self.fact(file, call.node, Assessment.OPEN, text)
        asked = index.torch_asked_by(file)
        if asked is not None and asked.starts_at("2.6"):
            return self.fact(file, call.node, Assessment.FINE, f"`{call.path}` is safe since torch 2.6; {origin}")
        if is_for_some_versions(call):
            text = f"`{call.path}` is for some versions of torch only; before 2.6 it executes what the file says"
            return self.fact(file, call.node, Assessment.OPEN, text)
        text = f"`{call.path}` is safe with torch 2.6 or later and executes code before; {origin}"
        return self.fact(
            file, call.node, Assessment.SHOULD_CHECK, text, "write `weights_only=True`, or require torch 2.6"
        )


def _is_own(call: Call) -> bool:
    """Return whether an attribute is unpickled to which its class assigns only what it pickles itself."""
    given, owner = call.argument(0), call.function.owner
    assigned = owner.attributes.get(dotted(given), ()) if owner is not None and given is not None else ()
    return bool(assigned) and all(
        tail_of(dotted(getattr(each.value, "func", each.value))) == "dumps" for each in assigned
    )
