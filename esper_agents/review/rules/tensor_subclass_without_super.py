"""ESP509: a subclass of Tensor that does not go through Tensor's own way."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Class, FileTables, Function

_TENSORS = frozenset({"torch.Tensor", "torch.FloatTensor", "torch.LongTensor"})
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer"})
_HOOKS = ("__torch_function__", "__torch_dispatch__")
_MAKING = frozenset({"_make_subclass", "_make_wrapper_subclass", "as_subclass", "__new__"})


class TensorSubclassWithoutSuper(Rule):
    """A subclass of `torch.Tensor` whose hook calls the function again on itself, or whose making leaves Tensor out.

    ## Why it costs
    `__torch_function__` and `__torch_dispatch__` are asked for every operation on the subclass. Calling `func` there on
    the same arguments asks them again, until Python raises a RecursionError. A `__new__` that does not make the
    subclass returns a plain tensor, and a parameter that `Tensor.__new__` does not know raises a TypeError.

    ## When it is right
    The arguments are unwrapped first, or the hook is turned off around the call
    (`torch._C.DisableTorchFunctionSubclass()`): not reported. Modes (`TorchFunctionMode`, `TorchDispatchMode`) are
    turned off while their hook runs, and may call `func`.

    ## Sources
    PyTorch notes, "Extending PyTorch": extending torch with a Tensor-like type, and subclassing `torch.Tensor`; tried
    with torch 2.13.
    """

    code, name = "ESP509", "tensor-subclass-without-super"
    severity, category = Severity.CRITICAL, Category.COMPILE
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "class Tagged(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        return func(*args, **(kwargs or {}))\n"
    )
    good = bad.replace(
        "return func(*args, **(kwargs or {}))", "return super().__torch_function__(func, types, args, kwargs)"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the subclasses whose hooks or making go round Tensor's own."""
        for owner in file.classes:
            if not owner.bases:
                continue
            foreign = index.lineage(owner).foreign
            if foreign & (_TENSORS | _PARAMETERS):
                yield from self._hooks(owner)
                yield from self._making(owner, index)
                if len(foreign) == 1:
                    yield from self._arguments(owner, index)

    def _hooks(self, owner: Class) -> Iterator[RuleMatch]:
        for name in _HOOKS:
            hook = owner.methods.get(name)
            for call in hook.calls if hook is not None and not _is_turned_off(hook) else ():
                if hook is not None and call.path == _function_of(hook) and _hands_on(call.node, hook):
                    instead = f"`super().{name}(func, types, args, kwargs)`"
                    if name == "__torch_dispatch__":
                        instead = "`func(*unwrapped, **kwargs)` on the tensors that it holds"
                    yield self.hit(
                        call.node,
                        f"`{name}` calls `{call.path}` on the arguments it was given, which asks it again without end",
                        remedy=f"call {instead}",
                    )
            if (
                hook is not None
                and name == "__torch_function__"
                and not {"classmethod", "staticmethod"} & set(hook.decorators)
            ):
                yield self.hit(
                    hook.node,
                    f"`{name}` is no classmethod, which torch warns of and will refuse",
                    remedy="write `@classmethod` above it, and `cls` for `self`",
                    severity=Severity.SUGGESTION,
                )

    def _making(self, owner: Class, index: ProjectIndex) -> Iterator[RuleMatch]:
        new = owner.methods.get("__new__")
        if new is None or not new.returns:
            return
        made = [statement.value for statement, _ in new.returns]
        reached = index.reached(new)
        if (
            not reached & _MAKING
            and "__class__" not in ast.unparse(new.node)
            and all(_is_plain(each, new) for each in made)
        ):
            yield self.hit(
                new.returns[0][0],
                f"`__new__` of {owner.name!r} returns a plain tensor, and what the class adds is lost",
                remedy="return `torch.Tensor._make_subclass(cls, data)`, or `data.as_subclass(cls)`",
                severity=Severity.WARNING,
            )

    def _arguments(self, owner: Class, index: ProjectIndex) -> Iterator[RuleMatch]:
        init = owner.methods.get("__init__")
        keywords = owner.node.keywords
        if init is None or index.method(owner, "__new__") is not None or keywords or owner.decorators:
            return
        extra = _required(init)
        is_parameter = bool(index.lineage(owner).foreign & _PARAMETERS)
        known = {"data", "requires_grad"}
        if len(extra) > 1 and not (is_parameter and set(extra) <= known):
            yield self.hit(
                init.node,
                f"{owner.name!r} takes `{extra[1]}`, and without a `__new__` that takes it, too, making one raises a "
                "TypeError",
                remedy="take it in `__new__(cls, ...)`, and return `torch.Tensor._make_subclass(cls, data)`",
                severity=None if is_parameter else Severity.WARNING,
                confidence=Confidence.HIGH if is_parameter else Confidence.MODERATE,
                basis=SEEN if is_parameter else f"{INFERRED}: whole numbers alone would be taken as sizes",
            )


def _function_of(hook: Function) -> str:
    """Return the name under which a hook gets the function: its second parameter, or the first of a staticmethod."""
    place = 0 if "staticmethod" in hook.decorators else 1
    return hook.parameters[place] if len(hook.parameters) > place else ""


def _is_turned_off(hook: Function) -> bool:
    """Return whether a hook goes through `super()`, or turns itself off around some call."""
    if any(call.path == "super" or "_C." in call.name or "no_dispatch" in call.name for call in hook.calls):
        return True
    return any(block.contexts for block in hook.blocks)


def _hands_on(call: ast.Call, hook: Function) -> bool:
    """Return whether a call hands on the hook's own arguments as they are."""
    starred = call.args[0].value if len(call.args) == 1 and isinstance(call.args[0], ast.Starred) else None
    if not isinstance(starred, ast.Name):
        return False
    return starred.id in hook.parameters and starred.id not in hook.assignments


def _is_plain(value: ast.expr | None, new: Function) -> bool:
    """Return whether an expression is surely a plain tensor: `torch.tensor(...)` and its kind."""
    if isinstance(value, ast.Name):
        made = new.last_assignment(value.id, value.lineno)
        value = made.value if made is not None and not made.is_unpacked else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    return isinstance(value.func.value, ast.Name) and new.file.imports.get(value.func.value.id) == "torch"


def _required(init: Function) -> list[str]:
    """Return the parameters of an `__init__` that must be given, `self` aside, where it takes no `*` or `**`."""
    if isinstance(init.node, ast.Module):
        return []
    arguments = init.node.args
    if arguments.vararg is not None or arguments.kwarg is not None:
        return []
    given = [*arguments.posonlyargs, *arguments.args][1:]
    # Whole numbers alone are sizes to `Tensor.__new__`, and it takes them.
    if any(each.annotation is not None and ast.unparse(each.annotation) == "int" for each in given[1:]):
        return []
    listed = [each.arg for each in given]
    return listed[: len(listed) - len(arguments.defaults)] if arguments.defaults else listed
