"""ESP305: a value is fetched from the device in every training step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import is_periodic, steers, tests_around, tests_of
from esper_agents.review.fetches import (
    CONVERTING,
    DRAWING,
    FETCHING,
    SHOWING,
    device_values,
    draws,
    is_fetch,
    shows,
    shows_tensor,
)
from esper_agents.review.hot import hot_around, hot_in, is_rare
from esper_agents.review.models import forward_calls, is_evaluating
from esper_agents.review.names import dotted, root_of
from esper_agents.review.needed import is_needed, makes_a_size
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule, RuntimeExpectation
from esper_agents.review.told_once import one_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.hot import Hot
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_ACCELERATORS = pattern(r"(?:torch\.)?(?:cuda|mps|xpu|npu|accelerator)(?:\.memory)?")
_CLOCKS = frozenset(
    {"time", "perf_counter", "perf_counter_ns", "monotonic", "elapsed_time", "Event", "Timer", "timeit"}
)
_DEVICE = pattern(r"device|cuda")
_MADE_HERE = pattern(
    r"torch\.(?:empty|zeros|ones|rand|randn|randint|randperm|tensor|arange|linspace|full|from_numpy)\(\)"
)
_NAN = pattern(r"isnan|isinf|isfinite|nan|finite")
# Whose attributes are settings and no tensors.
_SETTINGS = pattern(r"_?(?:cfg|conf|config|args|hparams|hps|opts?|options|settings|params|flags|FLAGS|hp)")
_TESTING = ("isnan", "isinf", "isfinite")
_ADVICE = "see by `esper torch profile` what the wait costs; keep `loss.detach()` and fetch it once after the loop"
_STACKED = "join the norms on the device, `torch.stack(norms).norm()`, and fetch that one number every so many steps"


class ItemInTrainingLoop(Rule):
    """A value fetched from the device in every training step: `.item()`, `.cpu()`, `float(loss)`, `print(loss)`.

    ## Why it costs
    It copies a value to the host, and the host waits until every kernel queued before it is done. Until then no
    further kernel is queued, so the device runs dry once in every step. `torch.cuda.synchronize()` waits in the same
    way, and `torch.cuda.empty_cache()` hands back memory that the next step asks for again.

    ## When it is right
    The value steers the loop (an early stop, a size, an action in an environment), it is fetched every so many steps
    only, it never left the host, or the model runs on the CPU, where nothing waits. Fetches under an `if` with `%` in
    it and values that a later `if` or `while` asks are not reported, and a test for NaN is a suggestion. What a wait
    costs was not measured. A loop, and a function that one calls in every step, is told of once.

    ## Sources
    PyTorch performance tuning guide, on avoiding unnecessary CPU-GPU synchronization; documentation of
    `torch.cuda.empty_cache` and of `torch.Tensor.item`.
    """

    code, name = "ESP305", "item-in-training-loop"
    severity, category = Severity.WARNING, Category.MEMORY
    shown = RuntimeExpectation.REPEATS
    bad = "for x in loader:\n    loss = step(x)\n    loss.backward()\n    total += loss.item()\n"
    good = "for x in loader:\n    loss = step(x)\n    loss.backward()\n    total += loss.detach()\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield for each training loop, and each function that one calls for every step, the first of its fetches."""
        yield from one_each((*self._fetched(file, index), *self._decisions(file, index)), index)
        yield from one_each((*self._checks(file, index), *self._fetched_to_check(file, index)), index)
        yield from one_each(tuple(self._handed_back(file, index)), index)
        yield from self._in_evaluation(file, index)

    def _fetched(self, file: FileTables, index: ProjectIndex) -> Iterator[tuple[Hot, RuleMatch]]:
        seen: set[ast.stmt] = {call.statement for call in file.calls_ending(*DRAWING) if draws(call)}
        for call in file.calls_ending(*FETCHING, *CONVERTING, *SHOWING, "synchronize"):
            hot = hot_around(call.block, index)
            if hot is None or call.statement in seen or is_rare(call.block, hot.around, call.line):
                continue
            what = _waits(call, hot, index)
            if what:
                seen.add(call.statement)
                yield hot, self._found(call, what, hot, index)

    def _handed_back(self, file: FileTables, index: ProjectIndex) -> Iterator[tuple[Hot, RuleMatch]]:
        """Yield what hands memory back in every step."""
        for call in file.calls_ending("empty_cache", "collect"):
            hot = hot_around(call.block, index)
            if hot is None or is_rare(call.block, hot.around, call.line):
                continue
            if call.name == "gc.collect":
                yield hot, self._collected(call, hot)
            elif call.tail == "empty_cache" and _is_of_the_device(call, hot):
                yield hot, self._emptied(call, hot)

    def _emptied(self, call: Call, hot: Hot) -> RuleMatch:
        return self.hit(
            call.node,
            "`empty_cache()` in every training step waits for the device, and the next step asks for the memory again",
            remedy="remove it: the allocator reuses what it keeps; see by `esper torch memory` what fills the device",
            confidence=Confidence.HIGH if hot.basis == SEEN else Confidence.MODERATE,
            basis=hot.basis,
        )

    def _collected(self, call: Call, hot: Hot) -> RuleMatch:
        return self.hit(
            call.node,
            "a full garbage collection in every training step walks all objects of the process",
            remedy="remove it, or collect every so many steps; see by `esper torch profile` what it costs",
            confidence=Confidence.MODERATE,
            basis=hot.basis,
            severity=Severity.SUGGESTION,
        )

    def _found(self, call: Call, what: str, hot: Hot, index: ProjectIndex) -> RuleMatch:
        on_device = _names_a_device(index)
        because = "" if on_device else "; no device is named in the reviewed files, and on the CPU nothing waits"
        is_many = _is_for_each_parameter(call)
        times = " for each parameter" if is_many else ""
        return self.hit(
            call.node,
            f"{what}{times} in every training step makes the host wait for the device",
            remedy=_STACKED if is_many else f"{_ADVICE}, or every so many steps",
            confidence=Confidence.HIGH if on_device and hot.basis == SEEN else Confidence.MODERATE,
            basis=hot.basis + because,
            severity=Severity.SUGGESTION if hot.is_epoch else None,
        )

    def _decisions(self, file: FileTables, index: ProjectIndex) -> Iterator[tuple[Hot, RuleMatch]]:
        """Yield the tests in training loops that ask a tensor, those for NaN aside."""
        for hot in hot_in(file, index):
            if hot.basis != SEEN:
                continue
            known = device_values(hot.around.function, index)
            for block in hot.around.function.blocks:
                test = block.node.test if isinstance(block.node, ast.If) and block.kind is BlockKind.IF else None
                if test is None or not block.within(hot.around) or _NAN.search(ast.unparse(test)):
                    continue
                outside = block.parent or block
                if known.holds(test, test.lineno) and not is_rare(outside, hot.around, test.lineno):
                    what = "a test of a tensor in every training step makes the host wait for the device"
                    yield hot, self._asked(test, what, "`torch.where` decides on the device without a fetch", hot)

    def _checks(self, file: FileTables, index: ProjectIndex) -> Iterator[tuple[Hot, RuleMatch]]:
        """Yield the tests in training loops that look for NaN: they are wanted, but in every step each is a wait."""
        for call in file.calls_ending(*_TESTING):
            test = call.statement.test if isinstance(call.statement, ast.If | ast.Assert) else None
            hot = hot_around(call.block, index) if test is not None and not is_periodic(test) else None
            if hot is None or is_rare(call.block, hot.around, call.line):
                continue
            asked = call.argument(0) or _receiver(call)
            is_known = dotted(asked).endswith(".grad") or device_values(call.function, index).holds(asked, call.line)
            if is_known and not call.name.startswith(("math.", "numpy.")):
                what = "a test for NaN in every training step makes the host wait for the device"
                yield hot, self._asked(call.node, what, "fetch the result every so many steps", hot)

    def _fetched_to_check(self, file: FileTables, index: ProjectIndex) -> Iterator[tuple[Hot, RuleMatch]]:
        """Yield the numbers fetched in every step of which nothing is asked but whether they are NaN."""
        for call in file.calls_ending("item", "float"):
            tests = tests_of(call)
            if not tests or not all(_NAN.search(ast.unparse(test)) and not is_periodic(test) for test in tests):
                continue
            hot = hot_around(call.block, index)
            if hot is None or is_rare(call.block, hot.around, call.line) or makes_a_size(call, index):
                continue
            is_item = call.tail == "item" and is_fetch(call) and _is_fresh(call, hot.around)
            if is_item or _is_float_of_tensor(call, index):
                what = "a number fetched in every training step for a test for NaN makes the host wait for the device"
                yield hot, self._asked(call.node, what, "fetch it every so many steps", hot)

    def _asked(self, node: ast.AST, message: str, remedy: str, hot: Hot) -> RuleMatch:
        return self.hit(
            node,
            message,
            remedy=f"see by `esper torch profile` what the wait costs; {remedy}",
            confidence=Confidence.MODERATE,
            basis=hot.basis,
            severity=Severity.SUGGESTION,
        )

    def _in_evaluation(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the first number that a loop over held-out data fetches for each batch."""
        fetches = [call for call in file.calls_ending("item") if call.block.loop is not None and is_fetch(call)]
        done: set[Block] = set()
        for call in fetches:
            loop = call.block.loop
            if loop is None or loop in done or hot_around(loop, index) is not None or is_needed(call, None, index):
                continue
            forwards = [forward_call for forward_call in forward_calls(file, index) if forward_call.block.loop is loop]
            if forwards and is_evaluating(forwards[0], loop, index) and not is_rare(call.block, loop, call.line):
                done.add(loop)
                yield self.hit(
                    call.node,
                    "`.item()` for every batch of an evaluation makes the host wait for the device",
                    remedy="add up on the device and fetch the sum once after the loop",
                    confidence=Confidence.LOW,
                    basis=f"{INFERRED}: that the loop evaluates, from names and outputs",
                    severity=Severity.SUGGESTION,
                )


def _waits(call: Call, hot: Hot, index: ProjectIndex) -> str:
    """Return what of a call makes the host wait, in words; empty where nothing does."""
    what = ""
    if call.tail == "synchronize":
        is_timed = any(each.tail in _CLOCKS for each in call.function.calls)
        what = "`synchronize()`" if _is_of_the_device(call, hot) and not is_timed else ""
    elif call.tail in FETCHING:
        what = f"`.{call.tail}()`" if _fetches(call, hot, index) else ""
    elif call.tail in CONVERTING:
        what = f"`{call.tail}()` of a tensor" if _converts(call, index) else ""
    elif shows(call) and shows_tensor(call, index):
        what = f"`{call.path}` reads a tensor"
    return what


def _is_for_each_parameter(call: Call) -> bool:
    """Return whether a call runs in a loop over the parameters of a model."""
    nodes = [loop.node for loop in call.block.loops()]
    over = [node.iter for node in nodes if isinstance(node, ast.For)]
    over += [each.iter for node in nodes for each in getattr(node, "generators", ())]
    return any(each.tail in {"parameters", "named_parameters"} for each in call.function.calls if each.node in over)


def _is_of_the_device(call: Call, hot: Hot) -> bool:
    """Return whether a call such as `torch.cuda.empty_cache()` is the accelerator's, and runs in every step."""
    if _ACCELERATORS.fullmatch(call.receiver) is None and not call.name.startswith("torch."):
        return False
    tests = tests_around(call.block, hot.around) if hot.basis == FOLLOWED else ()
    return all("is_available" in ast.unparse(test) for test in tests)


def _fetches(call: Call, hot: Hot, index: ProjectIndex) -> bool:
    """Return whether a call fetches what the step made, for nothing that the step needs at once."""
    if not is_fetch(call) or not _is_fresh(call, hot.around) or is_needed(call, hot, index):
        return False
    # Away from the loop nothing says that a list is made of a tensor on the device.
    is_known = call.tail != "tolist" or hot.basis == SEEN
    return is_known or device_values(call.function, index).holds(_receiver(call), call.line)


def _receiver(call: Call) -> ast.expr:
    return call.node.func.value if isinstance(call.node.func, ast.Attribute) else call.node


def _converts(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call such as `float(loss)` turns a tensor into a number that steers nothing."""
    if call.receiver or len(call.node.args) != 1 or steers(call) or makes_a_size(call, index):
        return False
    return device_values(call.function, index).holds(call.node.args[0], call.line)


def _is_float_of_tensor(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call is `float(loss)` of a tensor that the step made."""
    is_plain = call.tail == "float" and not call.receiver and len(call.node.args) == 1
    return is_plain and device_values(call.function, index).holds(call.node.args[0], call.line)


def _is_fresh(call: Call, around: Block) -> bool:
    """Return whether what is fetched is made anew in every step, and on the device as far as can be seen."""
    root = root_of(call.receiver)
    if _SETTINGS.fullmatch(root) or _SETTINGS.fullmatch(call.receiver.removeprefix("self.").partition(".")[0]):
        return False
    if root == "torch" and "()" in call.receiver and not _DEVICE.search(ast.unparse(call.node)):
        return not _MADE_HERE.match(call.receiver)
    made = call.function.assignments.get(root, ())
    in_step = [each for each in made if each.block.within(around)]
    if in_step and all(is_rare(each.block, around, each.line) or _is_kept(each.value) for each in in_step):
        return False
    if in_step and all(_is_batch(each, around) for each in in_step):
        return False
    return call.tail == "item" or bool(in_step)


def _is_kept(value: ast.expr) -> bool:
    """Return whether a value was there before the step: an entry of what an object holds, as it is."""
    return dotted(value).startswith("self.") and "(" not in dotted(value)


def _is_batch(found: object, around: Block) -> bool:
    """Return whether a binding is what the loop itself hands out: a batch, which lies on the host."""
    return getattr(found, "statement", None) is around.node


def _names_a_device(index: ProjectIndex) -> bool:
    return index.once(
        "names a device", lambda: any("cuda" in file.text or "device" in file.text for file in index.files.values())
    )
