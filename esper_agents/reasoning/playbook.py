"""Playbooks: generator procedures, replayed from recorded results action by action."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.domain.agent_action import Conclude, Move
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.certificate import PLAYBOOK, UNATTENDED
from esper_agents.domain.codec import encode
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.status import Stance
from esper_agents.errors import DriftError, ReasonerError
from esper_agents.extensions import extensions
from esper_agents.reasoning.no_reasoner import play as unattended
from esper_agents.reasoning.reasoner import Decision, Reasoner, ReasonerSource
from esper_agents.renamed import import_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.frame import Brief, Turn
    from esper_agents.reasoning.reasoner import Say

# What is sent in is the result of the move that was yielded: see `domain.move`.
Play: TypeAlias = Callable[["Brief"], Generator[Move, Any, Conclude]]

_GROUP = "esper_agents.playbooks"


class PlaybookReasoner:
    """Runs one playbook for one frame."""

    def __init__(self, play: Play, brief: Brief) -> None:
        """Prepare to play; nothing runs before the first move is asked for."""
        self._generator = play(brief)
        self._name = brief.agent.name
        self._pending: Move | None = None
        self._conclusion: Conclude | None = None
        self._fed = 0

    async def next_move(self, turns: Sequence[Turn], say: Say) -> Decision:  # noqa: ARG002 - a playbook says nothing
        """Return the next move; recorded turns that were not fed yet are compared and fed first.

        Raises:
            DriftError: A recorded move is not the one that the playbook makes now.
        """
        move = self._pending or self._advance(None)
        for turn in turns[self._fed :]:
            if encode(move, Move) != encode(turn.move, Move):
                raise DriftError(
                    f"the playbook of {self._name!r} has changed since this session began",
                    remedy="submit the task again, or go back to the version of esper-agents that began it",
                )
            move = self._advance(turn.result, after=move)
            self._fed += 1
        self._pending = move
        return Decision(move)

    def _advance(self, result: object, after: Move | None = None) -> Move:
        try:
            return next(self._generator) if after is None else self._generator.send(result)
        except StopIteration as end:
            # One that has returned its conclusion has nothing more to say when that is refused, and says it again;
            # the loop ends such a frame undecided.
            self._conclusion = end.value or self._conclusion
            if self._conclusion is None:
                raise ReasonerError(
                    f"the playbook of {self._name!r} ends without a conclusion", remedy="make it return a Conclude"
                ) from None
            return self._conclusion
        except (AttributeError, LookupError, TypeError, ValueError):
            # It took the refusal for the result that it wanted.
            if not isinstance(result, Refusal):
                raise
            self._conclusion = _in_vain(self._name, result)
            return self._conclusion


def _in_vain(agent: str, refused: Refusal) -> Conclude:
    """Return the conclusion of a playbook that can do nothing without what was refused to it."""
    why = refused.reasons[0] if refused.reasons else "its move was refused"
    gap = InformationGap(f"the judgement of {agent}", why, f"esper agents show {quote(agent)}", blocks_approval=True)
    return Conclude(f"{agent} could not go on: {why}.", stance=Stance.UNDECIDED, below_ceiling=why, gaps=(gap,))


def load_playbooks(extra: Mapping[str, Play] | None = None) -> Mapping[str, ReasonerSource]:
    """Find every playbook: the files beside this one, other packages' entry points, those a program registers.

    Args:
        extra: Playbooks that a program registers, by the name of their agent.
    """
    found = {
        path.stem.replace("_", "-"): path
        for path in (Path(__file__).parent / "playbooks").glob("*.py")
        if not path.stem.startswith("_")
    }
    ours = f"esper-agents {version('esper-agents')}"
    sources = {agent: _ours(path, ours) for agent, path in sorted(found.items())}
    for extension in extensions(_GROUP):
        sources[extension.name] = source_of(extension.thing, extension.provider)
    for agent, play in (extra or {}).items():
        sources[agent] = source_of(play, "registered by the program")
    return sources


def _ours(path: Path, provider: str) -> ReasonerSource:
    source = path.read_bytes()

    def build(brief: Brief) -> Reasoner:
        module = importlib.import_module(f"esper_agents.reasoning.playbooks.{path.stem}")
        return PlaybookReasoner(module.play, brief)

    return ReasonerSource(PLAYBOOK, sha256(source).hexdigest(), provider, build, source, from_module)


def from_module(source: bytes) -> Callable[[Brief], Reasoner]:
    """Return what builds reasoners from the source of a playbook's file, such as one of another version.

    Raises:
        ReasonerError: It cannot be loaded into this version.
    """
    module = ModuleType(f"esper_agents.reasoning.playbooks.kept_{sha256(source).hexdigest()[:12]}")
    return _defined(source, vars(module), "play")


def _defined(source: bytes, names: dict[str, Any], wanted: str) -> Callable[[Brief], Reasoner]:
    """Run a definition that was kept under the digest the ledger names, and return what builds reasoners by it."""
    # A data class looks for its own module by name.
    holder = ModuleType(str(names["__name__"]))
    vars(holder).update(names, __builtins__={**vars(builtins), "__import__": import_recorded})
    sys.modules.setdefault(holder.__name__, holder)
    try:
        exec(compile(source, "<kept playbook>", "exec"), vars(holder))  # noqa: S102 - what ran before, by its digest
        play = vars(holder)[wanted]
    except Exception as error:
        problem = f"the kept playbook does not fit this version: {type(error).__name__}: {error}"
        raise ReasonerError(problem, remedy="go back to the version of esper-agents that began the session") from error
    return partial(PlaybookReasoner, play)


def source_of(play: Play, provider: str) -> ReasonerSource:
    """Return what builds reasoners that run a playbook."""
    source = _source(play)
    digest = sha256(source).hexdigest() if source else ""
    names = getattr(play, "__globals__", None)
    # What a function has taken from the one around it is not in its source.
    is_whole = names is not None and getattr(play, "__closure__", None) is None

    def rebuild(other: bytes) -> Callable[[Brief], Reasoner]:
        kept = {**(names or {}), "__name__": f"{play.__module__}.kept_{sha256(other).hexdigest()[:12]}"}
        return _defined(dedent(other.decode()).encode(), kept, play.__name__)

    build = partial(PlaybookReasoner, play)
    return ReasonerSource(PLAYBOOK, digest, provider, build, source, rebuild if is_whole else None)


def _source(play: Play) -> bytes:
    """Return the source of a playbook, or nothing where it has none, as in an interactive session."""
    try:
        return inspect.getsource(play).encode()
    except (OSError, TypeError):
        return b""


def without_playbook() -> ReasonerSource:
    """Return what stands in for an agent that can only work with a model: it says so, and judges nothing."""
    return replace(source_of(unattended, f"esper-agents {version('esper-agents')}"), kind=UNATTENDED)
