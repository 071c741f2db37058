"""Parse streamed arguments of a model's tool calls; incomplete input is refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.domain.codec import JsonObject


# Of arguments that were cut off: nothing sensible is nested deeper.
_DEEPEST = 100


class ToolInputError(ValueError):
    """The arguments of a tool call are not one JSON object; the message tells the model why."""


def read_tool_input(text: str) -> JsonObject:
    """Parse the arguments of a tool call.

    Raises:
        ToolInputError: Not JSON, not an object, a duplicate member, a number that JSON does not have, or nested too
            deep.
    """
    try:
        given = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ToolInputError(f"{error.msg} at character {error.pos} of {len(text)}") from error
    except RecursionError as error:
        raise ToolInputError("they are nested too deeply") from error
    except ValueError as error:
        raise ToolInputError(str(error)) from error
    return checked_input(given)


def checked_input(given: object) -> JsonObject:
    """Return parsed arguments of a tool call.

    Raises:
        ToolInputError: They are not an object, or have text that UTF-8 cannot encode.
    """
    if not isinstance(given, dict):
        raise ToolInputError("they are not an object")
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ToolInputError("they have half of a surrogate pair") from error
    return given


def complete_part(text: str) -> JsonObject:
    """Return the members that are complete in arguments that were cut off; empty if none are."""
    end, open_then, closing, is_text, is_escaped = 0, "", "", False, False
    for at, sign in enumerate(text):
        if is_text:
            is_text, is_escaped = is_escaped or sign != '"', sign == "\\" and not is_escaped
            continue
        match sign:
            case '"':
                is_text = True
            case "{" | "[":
                closing = ("}" if sign == "{" else "]") + closing
                if len(closing) > _DEEPEST:
                    return {}
            case "}" | "]":
                closing = closing[1:]
                end, open_then = at + 1, closing
            case ",":
                end, open_then = at, closing
            case _:
                pass
    try:
        return read_tool_input(text[:end] + open_then)
    except ToolInputError:
        return {}


def unused_id(given: str, taken: Collection[str]) -> str:
    """Return the ID of a tool call, with a number if an earlier call has it: answers name calls by their ID."""
    numbered = (f"{given}_{number}" for number in range(2, len(taken) + 3))
    return given if given not in taken else next(each for each in numbered if each not in taken)


def refused_input(tool: str, problem: ToolInputError) -> str:
    """Return the message to a model about a call with unreadable arguments."""
    return f"{tool} was not called: its arguments are not valid JSON ({problem}); send the whole call again"


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        name = Counter(name for name, _ in members).most_common(1)[0][0]
        raise ToolInputError(f"member {name[:60]!a} occurs twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ToolInputError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
