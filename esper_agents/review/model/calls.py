"""Calls: functions of the project, constructors, modules, library functions and unknown callees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.review.model import builtin_calls, effects, saved_tensors
from esper_agents.review.model.builtin_calls import FACTORY
from esper_agents.review.model.call_site import CallSite
from esper_agents.review.model.events import EventKind, Frame, GradMode
from esper_agents.review.model.heap import ELEMENTS, ITEMS, MODE, RECORD, UNKNOWN_MODE, NameScope
from esper_agents.review.model.knowledge import Effect, GradEffect, ResultKind
from esper_agents.review.model.library_calls import grad_inside, library_result
from esper_agents.review.model.modules import acts_by_mode, forward_target, has_trainable, modes_of
from esper_agents.review.model.seeds import EVALUATION
from esper_agents.review.model.values import (
    NONE,
    UNKNOWN,
    BoundMethod,
    ClassValue,
    Constant,
    Context,
    Data,
    FunctionValue,
    Library,
    Partial,
    Ref,
    Union,
    Value,
    alternatives,
    join,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.ir import Call, SourcePosition, With

_KINDS = {
    "contextlib.contextmanager": "manager",
    "contextlib.asynccontextmanager": "manager",
    "builtins.staticmethod": "staticmethod",
    "builtins.classmethod": "classmethod",
    "builtins.property": "property",
    "functools.cached_property": "property",
}


class Calls:
    """Calls of abstract values."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.run = interpreter
        self._handlers: dict[type, Any] = {
            FunctionValue: self.invoke,
            BoundMethod: self._method,
            Library: self._library,
            Ref: self._object,
            ClassValue: self.construct,
            Partial: self._partial,
            Union: self._any_of,
        }

    def call(self, frame: Frame, ins: Call) -> Value:
        """Return the result of a call instruction."""
        callee = frame.temps[ins.func]
        args: list[Value] = []
        rest: Value | None = None
        for place, temp in enumerate(ins.args):
            value = frame.temps[temp]
            if place not in ins.stars:
                args.append(value)
                continue
            known = self.run.heap[value].fields.get(ITEMS) if isinstance(value, Ref) else None
            if known is not None:
                args += known
                continue
            rest = self.run.attributes.any_element(frame, value, ins.at)
            args.append(rest)
        keywords: dict[str, Value] = {}
        for name, temp in ins.keywords:
            if name:
                keywords[name] = frame.temps[temp]
            elif isinstance(frame.temps[temp], Ref):
                held = self.run.heap[frame.temps[temp]]  # type: ignore[index]
                keywords |= {key[2:-2]: each for key, each in held.fields.items() if key.startswith("['")}
        return self.apply(callee, CallSite(frame, ins.at, args, keywords, ins.text, rest))

    def apply(self, callee: Value, site: CallSite) -> Value:
        """Return the result of calling a value."""
        handler = self._handlers.get(type(callee), self.unknown)
        result: Value = handler(callee, site)
        return result

    def _method(self, callee: BoundMethod, site: CallSite) -> Value:
        return effects.call_method(self.run, callee, site)

    def _partial(self, callee: Partial, site: CallSite) -> Value:
        merged = {**dict(callee.keywords), **site.keywords}
        return self.apply(callee.callee, site.given([*callee.args, *site.args], merged))

    def _any_of(self, callee: Union, site: CallSite) -> Value:
        results: list[Value] = []

        def arm(each: Value) -> bool:
            results.append(self.apply(each, site))
            return False

        callees = [each for each in callee.values if each != NONE]
        self.run.alternatives(site.frame, [lambda each=each: arm(each) for each in callees])
        result = results[0] if results else UNKNOWN
        for each in results[1:]:
            result = join(result, each)
        return result

    # Functions of the project

    def invoke(self, function: FunctionValue, site: CallSite, *, is_open: bool = False) -> Value:
        """Return the result of a function of the project, run on these arguments."""
        run, code = self.run, function.code.ready()
        depth = 0
        above: Frame | None = site.frame
        repeats = 0
        while above is not None:
            depth, repeats = depth + 1, repeats + (above.code is code)
            above = above.parent
        if depth > run.budget.depth or repeats > 1:
            return self.unknown(UNKNOWN, site)
        if function.kind == "manager" and not is_open:
            return Partial(function, tuple(site.args), tuple(site.keywords.items()))
        called = self.activation(function, site, is_open=is_open)
        return self.finish(called, function)

    def finish(self, called: Frame, function: FunctionValue) -> Value:
        """Run an activation to its end; return the result."""
        run = self.run
        run.visited.add(called.code)
        before = run.grad
        run.grad = grad_inside(function.grad, function.grad_argument, before)
        try:
            has_ended = run.run(called, called.code.body)
        finally:
            # Without a decorator, a plain `set_grad_enabled` in the function stays in force.
            run.grad = before if function.grad is not None else run.grad
        if called.exits:
            ends = list(called.exits)
            if not has_ended or called.is_direct:
                ends.append(run.heap.changes(called.mark))
            run.heap.undo(called.mark)
            run.heap.merge(ends)
        if called.code.is_generator:
            made = run.attributes.container(called, "list", called.call_at or called.code.start)
            if called.yielded:
                result = called.yielded[0]
                for each in called.yielded[1:]:
                    result = join(result, each)
                run.heap[made].fields[ELEMENTS] = result
            return made
        returned = called.returned + ([] if has_ended or not called.returned else [NONE])
        result = returned[0] if returned else NONE
        for each in returned[1:]:
            result = join(result, each)
        return result

    def activation(self, function: FunctionValue, site: CallSite, *, is_open: bool = False) -> Frame:
        """Return an activation of a function with its parameters bound."""
        run, code = self.run, function.code.ready()
        scope = NameScope(code, function.scope)
        names = scope.names
        given = [function.receiver, *site.args] if function.receiver is not None else [*site.args]
        rest = dict(site.keywords)
        defaults = dict(function.defaults)
        temps: list[Value] = [UNKNOWN] * code.temporaries
        made = Frame(code, scope, temps, site.frame, site.at, run.heap.mark(), loop_base=len(run.loops))
        made.receiver, made.is_open = function.receiver, is_open
        for place, name in enumerate(code.parameters):
            if place < len(given):
                names[name] = given[place]
            elif name in rest:
                names[name] = rest.pop(name)
            elif site.rest is not None:
                names[name] = site.rest
            else:
                names[name] = self._missing(made, name, defaults, is_open=is_open)
        for name in code.keyword_only:
            names[name] = rest.pop(name) if name in rest else self._missing(made, name, defaults, is_open=is_open)
        if code.rest:
            extra = tuple(given[len(code.parameters) :])
            names[code.rest] = run.attributes.container(made, "tuple", site.at, None if is_open else extra)
        if code.extra:
            holder = run.attributes.container(made, "dict", site.at)
            run.heap[holder].fields.update({f"[{name!r}]": each for name, each in rest.items()})
            names[code.extra] = holder
        return made

    def _missing(self, made: Frame, name: str, defaults: Mapping[str, Value], *, is_open: bool) -> Value:
        """Return the value of a parameter without an argument."""
        default = defaults.get(name)
        # A default that is a number or a flag says nothing about what unknown callers pass.
        if default is not None and (not is_open or not isinstance(default, Constant)):
            return default
        run = self.run
        event = run.event(EventKind.INPUT, made.code.start, made, name=name)
        value = run.opaque(made, event.at, name, sources=event.bit, graph=event.bit, is_open=True)
        return value if default is None else join(value, default) if default == NONE else value

    def construct(self, cls: ClassValue, site: CallSite) -> Value:
        """Return a new instance of a class of the project."""
        run = self.run
        made = run.attributes.new_instance(site.frame, cls, site.at, is_open=False)
        init = run.attributes.method_of(made, "__init__")
        if isinstance(init, FunctionValue):
            self.invoke(init, site)
        elif names := _field_names(run, cls):
            self._fill_record(made, cls, names, site)
        else:
            run.heap[made].fields.update(site.keywords)
            effects.hold_children(run, made, site.args)
        return made

    def _fill_record(self, made: Ref, cls: ClassValue, names: Sequence[str], site: CallSite) -> None:
        """Write the fields of an instance whose class only declares them, as data classes and named tuples do."""
        run = self.run
        held = run.heap[made]
        given = dict(zip(names, site.args, strict=False)) | dict(site.keywords)
        for name in names:
            value = given.pop(name, None)
            if value is None:
                value = run.attributes.in_class(cls, name)
                if isinstance(value, Partial) and any(key == FACTORY for key, _ in value.keywords):
                    value = self.apply(value.callee, site.given(()))
            if value is not None:
                held.fields[name] = value
        held.fields.update(given)
        if "typing.NamedTuple" in run.attributes.library_bases(cls):
            held.container = "tuple"
            held.fields[ITEMS] = tuple(held.fields.get(name, UNKNOWN) for name in names)
        elif held.kind is ResultKind.UNKNOWN:
            held.fields[RECORD] = True
        after = run.attributes.method_of(made, "__post_init__")
        if isinstance(after, FunctionValue):
            self.invoke(after, site.given(()))

    # Objects

    def _object(self, callee: Ref, site: CallSite) -> Value:
        """Return the result of calling an object."""
        run = self.run
        held = run.heap[callee]
        if held.cls is not None and held.kind is not ResultKind.MODULE:
            method = run.attributes.method_of(callee, "__call__") or run.attributes.method_of(callee, "forward")
            if method is not None:
                return self.apply(method, site)
        if held.container or held.kind not in {ResultKind.MODULE, ResultKind.LAYERS, ResultKind.UNKNOWN}:
            return self.unknown(callee, site)
        return self.forward(callee, site)

    def forward(self, callee: Ref, site: CallSite) -> Value:
        """Return the result of running a module, or an object of unknown kind, on data."""
        run = self.run
        target = forward_target(run.heap, callee)
        held = run.heap[target]
        if held.loop_depth and held.loop_depth <= len(run.loops) and run.loops[held.loop_depth - 1].source >= 0:
            effects.mark_as_layers(run, held)
        inputs = effects.inputs_of(run, site)
        is_outer, is_trained = not run.depth, has_trainable(run.heap, target)
        method = run.attributes.method_of(target, "forward") or run.attributes.method_of(target, "__call__")
        is_known = isinstance(method, FunctionValue) or held.kind is ResultKind.MODULE
        event = run.event(
            EventKind.FORWARD,
            site.at,
            site.frame,
            target=target.ident,
            modes=modes_of(run.heap, target) if is_outer else UNKNOWN_MODE,
            acts=acts_by_mode(run.heap, target) if is_outer else None,
            inputs=inputs.sources,
            graph=inputs.graph,
            name="" if is_trained else "frozen",
            text=site.text,
            hands_over=not is_known and hands_over_optimizer(run, site),
        )
        is_recorded = run.grad is not GradMode.OFF
        own = event.bit if is_recorded and is_trained else 0
        if not isinstance(method, FunctionValue):
            run_closures(run, site)
            for each in site.values if held.kind is ResultKind.UNKNOWN else ():
                forget(run, each)
            graph = (inputs.graph | own) if is_recorded else 0
            if held.kind is ResultKind.MODULE and held.cls is None:
                made = Data(ResultKind.TENSOR, inputs.sources | event.bit, graph, maybe=graph & inputs.maybe)
                return saved_tensors.applied(run, held, site, made)
            # A frozen model adds nothing to the graph of its inputs, and passes it on.
            graph = graph if held.cls is not None or not is_trained else own
            return run.opaque(site.frame, site.at, f"{site.text}()", sources=inputs.sources | event.bit, graph=graph)
        run.depth += 1
        try:
            result = self.invoke(method, site)
        finally:
            run.depth -= 1
        return effects.result_of_forward(run, result, event, own, site)

    # Libraries and unknown callees

    def _library(self, callee: Library, site: CallSite) -> Value:
        path = callee.path
        handler = builtin_calls.HANDLERS.get(path)
        if handler is not None:
            return handler(self.run, site.frame, site.args, site.keywords, site.at)
        facts = self.run.knowledge.call(path)
        if facts is None:
            return self.unknown(callee, site)
        return library_result(self.run, path, facts, site)

    def unknown(self, callee: Value, site: CallSite) -> Value:
        """Return the result of a callee of which nothing is known: it may change what it is given."""
        run = self.run
        if isinstance(callee, Library) and callee.path.startswith("builtins."):
            inputs = effects.inputs_of(run, site)
            return Data(ResultKind.UNKNOWN, inputs.sources, 0)
        inputs = effects.inputs_of(run, site)
        event = run.event(
            EventKind.CALL,
            site.at,
            site.frame,
            inputs=inputs.sources,
            graph=inputs.graph,
            text=site.text,
            hands_over=hands_over_optimizer(run, site),
        )
        run_closures(run, site)
        for each in site.values:
            forget(run, each)
        is_recorded = run.grad is not GradMode.OFF
        # Whether the callee kept the graphs of its arguments is unknown; a backward on the result shows it.
        graph = event.bit if is_recorded and inputs.sources else 0
        return run.opaque(site.frame, site.at, f"{site.text}()", sources=inputs.sources | event.bit, graph=graph)

    # Decorators and context managers

    def decorate(self, frame: Frame, decorator: Value, function: Value, at: SourcePosition) -> Value:
        """Return a decorated function."""
        if not isinstance(function, FunctionValue):
            return function
        if isinstance(decorator, Library):
            facts = self.run.knowledge.call(decorator.path)
            grad = facts.grad_mode if facts is not None else None
            return _with(function, kind=_KINDS.get(decorator.path, ""), grad=grad)
        if isinstance(decorator, Context):
            self.run.grad = decorator.before if decorator.before is not None else self.run.grad
            return _with(function, grad=decorator.facts.grad_mode, argument=decorator.argument)
        if isinstance(decorator, FunctionValue):
            result = self.invoke(decorator, CallSite(frame, at, [function]))
            return result if isinstance(result, FunctionValue) else function
        return function

    def enter(self, frame: Frame, ins: With) -> bool:
        """Run the body of a `with`; return whether all paths through it ended."""
        run, context = self.run, frame.temps[ins.context]
        frame.temps[ins.entered] = context
        if isinstance(context, Context):
            before = context.before if context.before is not None else run.grad
            run.grad = grad_inside(context.facts.grad_mode, context.argument, run.grad)
            try:
                return run.run(frame, ins.body)
            finally:
                run.grad = before
        if isinstance(context, Partial) and isinstance(context.callee, FunctionValue):
            return self._enter_generator(frame, ins, context)
        if isinstance(context, Ref) and run.heap[context].path.rpartition(".")[2].rstrip("()") in EVALUATION:
            # Something of that name whose origin is not known: gradients may be off.
            before, run.grad = run.grad, GradMode.UNKNOWN
            try:
                return run.run(frame, ins.body)
            finally:
                run.grad = before
        if isinstance(context, Ref) and run.heap[context].cls is not None:
            entering = run.attributes.method_of(context, "__enter__")
            if entering is not None:
                frame.temps[ins.entered] = self.apply(entering, CallSite(frame, ins.at))
            has_ended = run.run(frame, ins.body)
            leaving = run.attributes.method_of(context, "__exit__")
            if leaving is not None:
                self.apply(leaving, CallSite(frame, ins.at, [NONE, NONE, NONE]))
            return has_ended
        return run.run(frame, ins.body)

    def _enter_generator(self, frame: Frame, ins: With, context: Partial) -> bool:
        """Run the body of a `with` at the `yield` of a context manager of the project."""
        function = context.callee
        if not isinstance(function, FunctionValue):
            return self.run.run(frame, ins.body)
        called = self.activation(function, CallSite(frame, ins.at, context.args, dict(context.keywords)))
        ended: list[bool] = []

        def body(value: Value) -> None:
            frame.temps[ins.entered] = value
            ended.append(self.run.run(frame, ins.body))

        called.on_yield = body
        self.finish(called, function)
        if not ended:
            return self.run.run(frame, ins.body)
        return ended[0]


def _field_names(run: Interpreter, cls: ClassValue) -> tuple[str, ...]:
    """Return the fields that a class and its bases declare by annotations, bases first."""
    names: dict[str, None] = {}
    for each in reversed(run.attributes.lineage(cls)):
        names |= dict.fromkeys(each.cls.code.declared)
    return tuple(names)


def _with(
    function: FunctionValue, *, kind: str = "", grad: GradEffect | None = None, argument: Value | None = None
) -> FunctionValue:
    return FunctionValue(
        function.code,
        function.scope,
        function.defaults,
        function.receiver,
        grad or function.grad,
        argument or function.grad_argument,
        kind or function.kind,
    )


def forget(run: Interpreter, value: Value, seen: frozenset[int] = frozenset()) -> None:
    """Forget the mode of a module that an unknown callee received."""
    if not isinstance(value, Ref) or value.ident in seen:
        return
    held = run.heap[value]
    if MODE in held.fields:
        run.heap.write(held.fields, MODE, UNKNOWN_MODE)
    for each in list(held.fields.values()):
        if isinstance(each, Ref):
            forget(run, each, seen | {value.ident})


def hands_over_optimizer(run: Interpreter, site: CallSite) -> bool:
    """Return whether the arguments of a call are or hold an optimizer."""
    seen: set[int] = set()
    edge = [each for value in site.values for each in alternatives(value) if isinstance(each, Ref)]
    while edge:
        ref = edge.pop()
        held = run.heap[ref]
        if held.kind is ResultKind.OPTIMIZER:
            return True
        if ref.ident in seen or held.kind is ResultKind.MODULE:
            continue
        seen.add(ref.ident)
        edge += [each for each in held.fields.values() if isinstance(each, Ref)]
        edge += [each for each in held.fields.get(ITEMS) or () if isinstance(each, Ref)]
    return False


def run_closures(run: Interpreter, site: CallSite) -> None:
    """Run functions that an unknown callee receives: it may call them with anything."""
    for each in site.values:
        if isinstance(each, FunctionValue) and each.code not in run.visited:
            run.alternatives(site.frame, [lambda each=each: _run_closure(run, each, site), lambda: False])


def _run_closure(run: Interpreter, function: FunctionValue, site: CallSite) -> bool:
    run.calls.invoke(function, site.given(()), is_open=True)
    return False


__all__ = ["Calls", "Effect", "forget", "run_closures"]
