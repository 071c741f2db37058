"""ESP257: a checkpoint holds the state of an optimizer or a scheduler that resuming does not load."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import reached_from, starts
from esper_agents.review.rule import FOLLOWED, Rule
from esper_agents.review.rules.resume_without_optimizer import ResumeWithoutOptimizer
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_STEPPING = pattern(r"(?:\w+_)?(?:opt|optim|optimi[sz]er|sched|scheduler|lr_scheduler|scaler)(?:_?\w)?")
_COUNTING = pattern(r"(?:\w+_)?(?:epoch|epochs|step|steps|iter|iteration|global_step)(?:_\w+)?")


@dataclass(frozen=True, slots=True)
class _Saved:
    """A state that a checkpoint holds.

    Attributes:
        key: Its key.
        owner: The object whose state it is, as written.
        call: The call that saves it.
    """

    key: str
    owner: str
    call: Call


class CheckpointPartlyRestored(Rule):
    """A resumed training that loads weights and an epoch of a checkpoint, but not the optimizer state saved with them.

    ## Why it costs
    The moments of Adam start at zero and a schedule starts at its beginning, while the epoch says that most of the
    training is over. The loss jumps after each resume, and the state in the file is written for nothing.

    ## When it is right
    Only the weights are wanted, for evaluation or as the start of another training: then the epoch is not read.
    Reported only if no code of the program reads the key.

    ## Sources
    PyTorch tutorial "Saving and Loading Models", section "Saving & Loading a General Checkpoint for Inference and/or
    Resuming Training".
    """

    code, name = "ESP257", "checkpoint-partly-restored"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def save(path, model, optimizer, epoch):\n"
        '    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}\n'
        "    torch.save(state, path)\n"
        "\n"
        "\n"
        "def resume(path, model, optimizer):\n"
        "    state = torch.load(path, weights_only=True)\n"
        '    model.load_state_dict(state["model"])\n'
        '    return state["epoch"] + 1\n'
    )
    good = bad.replace(
        '    return state["epoch"] + 1\n',
        '    optimizer.load_state_dict(state["optimizer"])\n    return state["epoch"] + 1\n',
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loads that leave out what the checkpoint holds."""
        if file.purpose is Purpose.TEST:
            return
        for call in file.calls_to("torch.load"):
            path = _bound(call)
            count = _count_read(path, call) if path else None
            if count is None or not _loads_weights(path, call):
                continue
            files = {file}.union(*(reached_from(start, index) for start in starts(file, index)))
            missing = [saved for saved in _saved(files) if not _is_read(saved.key, files)]
            if any(True for each in files for _ in ResumeWithoutOptimizer().check(each, index)):
                continue
            if missing and _is_same_checkpoint(missing[0], path, call):
                names = " and ".join(dict.fromkeys(f"`{saved.owner}`" for saved in missing))
                place = f"line {missing[0].call.line}"
                if missing[0].call.function.file is not file:
                    place = f"{missing[0].call.function.file.path}:{missing[0].call.line}"
                yield self.hit(
                    count,
                    f"training goes on at the saved {ast.unparse(count)}, but nothing loads the state of {names}, "
                    f"which the checkpoint holds ({place})",
                    remedy=f"call `{missing[0].owner}.load_state_dict({path}[{missing[0].key!r}])`",
                    confidence=Confidence.MODERATE,
                    basis=FOLLOWED,
                )


def _bound(call: Call) -> str:
    statement = call.statement
    is_whole = isinstance(statement, ast.Assign) and statement.value is call.node and len(statement.targets) == 1
    return dotted(statement.targets[0]) if is_whole and isinstance(statement, ast.Assign) else ""


def _key(node: ast.AST, path: str) -> str:
    """Return the key of an entry of a checkpoint that a node reads."""
    if isinstance(node, ast.Subscript) and dotted(node.value) == path and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    is_get = isinstance(node, ast.Call) and dotted(node.func) == f"{path}.get" and node.args
    if is_get and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return ""


def _count_read(path: str, call: Call) -> ast.expr | None:
    """Return where a function reads the epoch or the step of a checkpoint, to go on at it."""
    printed = {
        id(part)
        for each in call.function.calls
        if each.tail in {"print", "info", "debug", "log", "format", "write"}
        for part in walk(each.node)
    }
    for node in walk(call.function.node):
        is_below = getattr(node, "lineno", 0) >= call.line and id(node) not in printed
        if is_below and _COUNTING.fullmatch(_key(node, path)) and isinstance(node, ast.expr):
            return node
    return None


def _loads_weights(path: str, call: Call) -> bool:
    return any(
        each.tail == "load_state_dict" and any(_key(part, path) for arg in each.node.args for part in walk(arg))
        for each in call.function.calls
        if each.line >= call.line
    )


def _saved(files: set[FileTables]) -> list[_Saved]:
    """Return the states of optimizers and schedulers that the code of files puts into checkpoints."""
    found: list[_Saved] = []
    for file in sorted(files, key=lambda each: each.path):
        for call in file.calls_to("torch.save"):
            given = call.argument(0, "obj")
            if isinstance(given, ast.Name):
                made = call.function.last_assignment(given.id, call.line)
                given = made.value if made is not None and not made.is_unpacked else given
            pairs = zip(given.keys, given.values, strict=True) if isinstance(given, ast.Dict) else ()
            for key, value in pairs:
                owner = dotted(value.func).removesuffix(".state_dict") if isinstance(value, ast.Call) else ""
                is_state = isinstance(value, ast.Call) and dotted(value.func).endswith(".state_dict")
                if is_state and isinstance(key, ast.Constant) and _STEPPING.fullmatch(tail_of(owner).lower()):
                    found.append(_Saved(str(key.value), owner, call))
    return found


def _is_read(key: str, files: set[FileTables]) -> bool:
    """Return whether some code mentions a key other than where it writes it."""
    goes_over_all = False
    for node in (each for file in files for each in walk(file.tree)):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == key:
            return True
        if isinstance(node, ast.Call) and any(isinstance(arg, ast.Constant) and arg.value == key for arg in node.args):
            return True
        is_loop = isinstance(node, ast.For | ast.comprehension)
        goes_over_all = goes_over_all or (is_loop and ".items" in ast.unparse(node.iter))
    # Code that goes over all entries of some dictionary may load this one as well.
    return goes_over_all and any("load_state_dict" in each.text and "getattr" in each.text for each in files)


def _is_same_checkpoint(saved: _Saved, path: str, call: Call) -> bool:
    """Return whether a save writes the entries that a load reads."""
    written = ast.unparse(saved.call.function.node)
    read = {_key(node, path) for node in walk(call.function.node)} - {""}
    return all(f"'{each}'" in written for each in read)
