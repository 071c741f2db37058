"""Playbooks: generator procedures, replayed from recorded results action by action."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial, wraps
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from textwrap import dedent
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.domain.agent_action import Conclude, Move
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.certificate import FLOOR_QUESTION
from esper_agents.domain.codec import encode
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.reasoner_names import PLAYBOOK, UNATTENDED
from esper_agents.domain.status import Stance
from esper_agents.errors import DriftError, ReasonerError
from esper_agents.extensions import extensions
from esper_agents.reasoning.no_reasoner import play as unattended
from esper_agents.reasoning.question_answer import question_first
from esper_agents.reasoning.reasoner import Decision, Reasoner, ReasonerSource
from esper_agents.reasoning.trace_answer import answer_first
from esper_agents.reasoning.usage_answer import usage_first
from esper_agents.renamed import import_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.frame import Brief, Turn
    from esper_agents.reasoning.reasoner import Say

# The generator receives the result of each yielded action: see `domain.move`.
Play: TypeAlias = Callable[["Brief"], Generator[Move, Any, Conclude]]

_GROUP = "esper_agents.playbooks"


class PlaybookReasoner:
    """Reasoner that runs one playbook for one frame."""

    def __init__(self, play: Play, brief: Brief) -> None:
        """Prepare the playbook; nothing runs before the first action is requested."""
        self._generator = _prepared(play, brief) if brief.question == FLOOR_QUESTION else _answered(play, brief)
        self._name = brief.agent.name
        self._pending: Move | None = None
        self._conclusion: Conclude | None = None
        self._fed = 0

    async def next_move(self, turns: Sequence[Turn], say: Say) -> Decision:  # noqa: ARG002 - a playbook says nothing
        """Return the next action; recorded turns are compared with the playbook's actions first.

        Raises:
            DriftError: A recorded action differs from the one that the playbook decides now.
        """
        move = self._pending or self._advance(None)
        for turn in turns[self._fed :]:
            if encode(move, Move) != encode(turn.move, Move):
                raise DriftError(
                    f"the playbook of {self._name!r} has changed since this session started",
                    remedy="submit the task again, or install the version of esper-agents that started it",
                )
            move = self._advance(turn.result, after=move)
            self._fed += 1
        self._pending = move
        return Decision(move)

    def _advance(self, result: object, after: Move | None = None) -> Move:
        try:
            return next(self._generator) if after is None else self._generator.send(result)
        except StopIteration as end:
            # If a returned conclusion is refused, the playbook has nothing else to say and repeats it;
            # the loop then ends the frame undecided.
            self._conclusion = end.value or self._conclusion
            if self._conclusion is None:
                raise ReasonerError(
                    f"the playbook of {self._name!r} ends without a conclusion", remedy="make it return a Conclude"
                ) from None
            return self._conclusion
        except (AttributeError, LookupError, TypeError, ValueError):
            # The playbook used the refusal as if it were a result.
            if not isinstance(result, Refusal):
                raise
            self._conclusion = _in_vain(self._name, result)
            return self._conclusion


def _answered(play: Play, brief: Brief) -> Generator[Move, Any, Conclude]:
    """Answer the request directly if that is possible; otherwise, or after that, play the playbook."""
    return answer_first(partial(usage_first, partial(question_first, play)), brief)


def _prepared(play: Play, brief: Brief) -> Generator[Move, Any, Conclude]:
    """Play the playbook before a model decides, and put the direct answer to the request before its summary."""

    # The direct answers distinguish playbooks of other packages by the module.
    @wraps(play)
    def nothing(_brief: Brief) -> Generator[Move, Any, Conclude]:
        yield from ()
        return Conclude("")

    direct = yield from _answered(nothing, replace(brief, question=""))
    conclusion = yield from play(brief)
    if not direct.summary:
        return conclusion
    summary = f"{direct.summary} {conclusion.summary}".strip()
    return replace(conclusion, summary=summary, gaps=(*direct.gaps, *conclusion.gaps))


def _in_vain(agent: str, refused: Refusal) -> Conclude:
    """Return the conclusion of a playbook that cannot continue after a refusal."""
    why = refused.reasons[0] if refused.reasons else "its move was refused"
    gap = InformationGap(f"the judgement of {agent}", why, f"esper agents show {quote(agent)}", blocks_approval=True)
    return Conclude(f"{agent} could not go on: {why}.", stance=Stance.UNDECIDED, below_ceiling=why, gaps=(gap,))


def load_playbooks(extra: Mapping[str, Play] | None = None) -> Mapping[str, ReasonerSource]:
    """Return every playbook: files of this package, entry points of other packages, and registered ones.

    Args:
        extra: Playbooks registered by a program, by agent name.
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
    """Return a reasoner factory from the source of a playbook file, such as one of another version.

    Raises:
        ReasonerError: The source cannot be loaded into this version.
    """
    module = ModuleType(f"esper_agents.reasoning.playbooks.kept_{sha256(source).hexdigest()[:12]}")
    return _defined(source, vars(module), "play")


def _defined(source: bytes, names: dict[str, Any], wanted: str) -> Callable[[Brief], Reasoner]:
    """Execute a definition stored under the digest in the ledger, and return its reasoner factory."""
    # dataclass looks up its module by name.
    holder = ModuleType(str(names["__name__"]))
    vars(holder).update(names, __builtins__={**vars(builtins), "__import__": import_recorded})
    sys.modules.setdefault(holder.__name__, holder)
    try:
        exec(compile(source, "<kept playbook>", "exec"), vars(holder))  # noqa: S102 - what ran before, by its digest
        play = vars(holder)[wanted]
    except Exception as error:
        problem = f"the recorded playbook does not fit this version: {type(error).__name__}: {error}"
        raise ReasonerError(problem, remedy="install the version of esper-agents that started the session") from error
    return partial(PlaybookReasoner, play)


def source_of(play: Play, provider: str) -> ReasonerSource:
    """Return a source of reasoners that run a playbook."""
    source = _source(play)
    digest = sha256(source).hexdigest() if source else ""
    names = getattr(play, "__globals__", None)
    # The source of a nested function does not contain its closure variables.
    is_whole = names is not None and getattr(play, "__closure__", None) is None

    def rebuild(other: bytes) -> Callable[[Brief], Reasoner]:
        kept = {**(names or {}), "__name__": f"{play.__module__}.kept_{sha256(other).hexdigest()[:12]}"}
        return _defined(dedent(other.decode()).encode(), kept, play.__name__)

    build = partial(PlaybookReasoner, play)
    return ReasonerSource(PLAYBOOK, digest, provider, build, source, rebuild if is_whole else None)


def _source(play: Play) -> bytes:
    """Return the source of a playbook; empty if it has none, as in an interactive session."""
    try:
        return inspect.getsource(play).encode()
    except (OSError, TypeError):
        return b""


def without_playbook() -> ReasonerSource:
    """Return the substitute for an agent that needs a model: it concludes undecided."""
    return replace(source_of(unattended, f"esper-agents {version('esper-agents')}"), kind=UNATTENDED)
