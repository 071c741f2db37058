"""Convert turns to conversation messages, and a model's message to an action."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Consult, Panel, ToolCall, ToolReport, UserAnswer
from esper_agents.domain.codec import JsonObject, canonical
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.handoff import ConsultAnswer
from esper_agents.domain.ledger import Refusal
from esper_agents.memory.quoting import inert
from esper_agents.reasoning.action_schema import CONSULT, MOVES, InvalidActionError, parse_action
from esper_agents.reasoning.evidence_names import EvidenceNames
from esper_agents.reasoning.prompting import KEPT, finding_text, opening_text
from esper_agents.reasoning.tool_descriptions import called_tool
from esper_agents.tools.model_output import MOST_SHOWN, cut, model_view, whole_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.frame import Brief, Turn
    from esper_agents.reasoning.action_schema import ActionContext

_ONE_KIND = "not done: a turn makes one kind of move, and this one made another; make it in a turn of its own"
_PAUSED = "pause_turn"
# Arguments of tools that name evidence of the session.
_EVIDENCE_ARGUMENTS = ("evidence", "patch", "base")
_THINKING = frozenset(("thinking", "redacted_thinking"))


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """Parsed turn of a model.

    Attributes:
        move: The action.
        uses: IDs of the tool uses that the action executes, in the order of its parts.
        faults: Answers to all other tool uses, by ID.
        words: Answer if there is no tool use to answer, or empty.
        is_talk: Whether the turn contains only text.
    """

    move: Move
    uses: tuple[str, ...] = ()
    faults: dict[str, str] | None = None
    words: str = ""
    is_talk: bool = False


def read_turn(
    content: Sequence[JsonObject], speaker: ActionContext, faults: Mapping[str, str] = MappingProxyType({})
) -> ParsedTurn:
    """Parse the blocks of a model's message.

    Tool calls take precedence over other actions: a model that requests both needs the results first. Of several
    actions the first counts; questions to several agents are a panel.

    Args:
        content: Content blocks.
        speaker: Context of the agent.
        faults: Problems of unreadable calls by ID: none of them is executed.
    """
    if faults:
        readable = [each for each in content if each.get("id") not in faults]
        is_all = not any(each.get("type") == "tool_use" for each in readable)
        said = ParsedTurn(CallTools(())) if is_all else read_turn(readable, speaker)
        return replace(said, faults={**(said.faults or {}), **faults})
    uses = [each for each in content if each.get("type") == "tool_use"]
    if not uses:
        return ParsedTurn(
            CallTools(()), words="you made no move: call a tool, or end your work with conclude", is_talk=True
        )
    calls = [each for each in uses if each["name"] not in MOVES]
    if calls:
        meant = {call["id"]: called_tool(call["name"], call["input"]) for call in calls}
        wrong = {use: fault for use, (_, _, fault) in meant.items() if fault}
        named = {use: (tool, _with_full_names(given, speaker)) for use, (tool, given, _) in meant.items()}
        made = [call for call in calls if call["id"] not in wrong]
        move = CallTools(tuple(ToolCall(*named[each["id"]]) for each in made))
        return ParsedTurn(move, _ids(made), {**_others(uses, calls), **wrong})
    first = uses[0]["name"]
    chosen = [each for each in uses if each["name"] == first][: None if first == CONSULT else 1]
    try:
        moves = [parse_action(first, each["input"], speaker) for each in chosen]
    except InvalidActionError as error:
        return ParsedTurn(CallTools(()), (), {each["id"]: str(error) for each in uses})
    consults = tuple(each for each in moves if isinstance(each, Consult))
    move_made: Move = Panel(consults) if len(consults) > 1 else moves[0]
    return ParsedTurn(move_made, _ids(chosen), _others(uses, chosen))


def _with_full_names(arguments: JsonObject, speaker: ActionContext) -> JsonObject:
    """Return the arguments of a call with the full identifier of each evidence that they name."""
    if not isinstance(arguments, dict):
        return arguments
    named = {name: text for name in _EVIDENCE_ARGUMENTS if isinstance(text := arguments.get(name), str)}
    return arguments | {name: speaker.evidence(text) for name, text in named.items() if text.strip()}


def _ids(uses: Sequence[JsonObject]) -> tuple[str, ...]:
    return tuple(use["id"] for use in uses)


def _others(uses: Sequence[JsonObject], chosen: Sequence[JsonObject]) -> dict[str, str]:
    done = set(_ids(chosen))
    return {use["id"]: _ONE_KIND for use in uses if use["id"] not in done}


@dataclass(frozen=True, slots=True)
class ElidedTurns:
    """Omitted parts of a conversation.

    A model's thinking is signed together with everything before it, so none of it may remain after a changed part.

    Attributes:
        results: Number of leading turns whose results are shortened to a line each, for lack of space.
        thinking: Number of leading turns whose thinking is omitted.
    """

    results: int = 0
    thinking: int = 0


@dataclass(frozen=True, slots=True)
class _Message:
    """Message as sent.

    Attributes:
        role: Role of its author.
        text: JSON of the message.
        kept: The same with a cache marker for the server.
    """

    role: str
    text: str
    kept: str


class Conversation:
    """Messages of one frame as JSON, each serialized once, and the digest of their content.

    Attributes:
        names: Short identifiers of the evidence in the messages.
    """

    def __init__(self, brief: Brief, fixed: JsonObject) -> None:
        """Start an empty conversation.

        Args:
            brief: Brief of the frame.
            fixed: Parts of every request other than the messages.
        """
        self._brief = brief
        self.names = EvidenceNames(brief)
        self._fixed = sha256(canonical(fixed))
        self._messages: list[_Message] = []
        self._told, self._left_out = 0, ElidedTurns()
        self._digest = self._fixed.copy()

    def messages(self, turns: Sequence[Turn], left_out: ElidedTurns = ElidedTurns()) -> str:
        """Return the conversation as a JSON array, with the last two user messages marked for the cache.

        Args:
            turns: Completed turns, in order.
            left_out: Omitted parts.
        """
        self.names.add(turns)
        if not self._messages or left_out != self._left_out or len(turns) < self._told:
            self._messages, self._told, self._left_out, self._digest = [], 0, left_out, self._fixed.copy()
            before = [turn for turn in turns if "content" not in turn.record]
            first = "\n\n".join((opening_text(self._brief), *(_floor(turn, self._brief) for turn in before)))
            self._add("user", [{"type": "text", "text": self.names.shortened(first)}])
        for number in range(self._told, len(turns)):
            self._tell(turns[number], number)
        self._told = len(turns)
        # By identity: a model that is told the same thing twice has equal messages.
        kept = {id(each) for each in [message for message in self._messages if message.role == "user"][-2:]}
        return f"[{','.join(message.kept if id(message) in kept else message.text for message in self._messages)}]"

    @property
    def sha256(self) -> str:
        """Digest of the last returned messages and the fixed parts: canonical JSON, one part after the other."""
        return self._digest.hexdigest()

    def _tell(self, turn: Turn, number: int) -> None:
        if "content" not in turn.record:
            return
        is_bare = number < self._left_out.thinking
        if said := [each for each in turn.record["content"] if not (is_bare and each.get("type") in _THINKING)]:
            self._add("assistant", said)
        if turn.record.get("stop") != _PAUSED:
            answer = _answer(turn, is_short=number < self._left_out.results)
            self._add("user", [_shortened(each, self.names) for each in answer])

    def _add(self, role: str, content: list[dict[str, Any]]) -> None:
        marked = [*content[:-1], {**content[-1], "cache_control": KEPT}]
        text, kept = (json.dumps({"role": role, "content": each}, ensure_ascii=False) for each in (content, marked))
        self._messages.append(_Message(role, text, kept))
        self._digest.update(canonical({"role": role, "content": content}))


def _shortened(block: dict[str, Any], names: EvidenceNames) -> dict[str, Any]:
    """Return a content block with the short identifiers of evidence."""
    if "text" in block:
        return {**block, "text": names.shortened(block["text"])}
    return {**block, "content": [{**each, "text": names.shortened(each["text"])} for each in block["content"]]}


def _floor(turn: Turn, brief: Brief) -> str:
    """Return the results of the guardrail and of the program's own calls that preceded the model's first turn.

    Findings that the brief shows are named by their identifiers.
    """
    shown = frozenset(finding.id for finding in brief.findings)
    answers = turn.result if isinstance(turn.result, tuple) else (turn.result,)
    told = (text for answer in answers for text in _texts(answer, is_short=False, shown=shown))
    return "\n".join(("Before you were asked, the program did this itself:", *told))


def answers_of(turn: Turn) -> tuple[dict[str, Any], ...]:
    """Return the content blocks that answer a turn; empty if no model decided it."""
    return tuple(_answer(turn, is_short=False)) if "content" in turn.record else ()


def _answer(turn: Turn, *, is_short: bool) -> Iterator[dict[str, Any]]:
    """Yield the blocks that answer a model's message: one for each tool use, the others after them."""
    uses, faults = turn.record.get("uses", []), dict(turn.record.get("faults") or {})
    results = turn.result if isinstance(turn.result, tuple) else (turn.result,) * len(uses)
    for use, result in zip(uses, results, strict=True):
        yield _result(use, _texts(result, is_short=is_short), is_error=_is_error(result))
    for use, fault in faults.items():
        yield _result(use, (inert({"problem": fault}),), is_error=True)
    if not uses and not faults:
        words = turn.record.get("words") or ""
        reasons = turn.result.reasons if isinstance(turn.result, Refusal) else ()
        yield {"type": "text", "text": words or "; ".join(reasons) or "go on"}


def _result(use: str, texts: Sequence[str], *, is_error: bool) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "tool_result", "tool_use_id": use, "content": content, "is_error": is_error}


def _is_error(result: object) -> bool:
    failed = isinstance(result, ToolReport) and result.evidence.outcome is not CallOutcome.COMPLETED
    return failed or isinstance(result, Refusal)


def _texts(result: object, *, is_short: bool, shown: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the texts of a result: a tool's record, and its findings separately.

    Args:
        result: The result.
        is_short: Whether evidence is named without its content.
        shown: Findings that the message shows elsewhere.
    """
    if not isinstance(result, ToolReport) or is_short:
        return (cut(inert(_told(result, shown)), MOST_SHOWN),)
    found = [finding_text(finding) for finding in result.findings]
    told = (cut(inert({"findings": found}), MOST_SHOWN, whole_of(result.evidence)),) if found else ()
    return (model_view(result.evidence), *told)


def _told(result: object, shown: frozenset[str]) -> JsonObject:
    match result:
        case ToolReport(evidence):
            told = {"evidence": evidence.id, "outcome": str(evidence.outcome), "summary": evidence.summary}
            return told | {"left_out": "for want of room; it is on record"}
        case ConsultAnswer():
            return {
                "agent": result.agent,
                "answer": result.problem or result.answer,
                "findings": [each.id if each.id in shown else finding_text(each) for each in result.reported]
                or list(result.findings),
                "evidence": list(result.evidence),
                "gaps": [gap.what for gap in result.gaps],
            }
        case UserAnswer():
            return {"answer": result.text, "by": result.by}
        case Refusal():
            return {"problem": "; ".join(result.reasons)}
        case _:
            return {}
