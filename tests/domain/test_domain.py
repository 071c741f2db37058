from __future__ import annotations

import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents import errors
from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, HandOff, Move, ToolCall
from esper_agents.domain.codec import canonical, carried, checked, decode, encode
from esper_agents.domain.evidence import source_file
from esper_agents.domain.finding import Location, fingerprint
from esper_agents.domain.identifier import Prefix, is_id, new_id
from esper_agents.domain.ledger import ActionDecided, Refusal, RowKey, RowKind
from esper_agents.domain.status import QuestionType, Stance, Status, exit_code, status_for
from esper_agents.errors import EsperError, ExitCode, InputFileError, NotFoundError, UsageError

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=4)
moves = st.one_of(
    st.builds(CallTools, st.lists(st.builds(ToolCall, texts, objects), max_size=3).map(tuple)),
    st.builds(Ask, texts, st.lists(texts, max_size=3).map(tuple)),
    st.builds(Consult, texts, texts),
    st.builds(HandOff, texts, texts, texts, texts),
    st.builds(Conclude, texts, stance=st.sampled_from([None, *Stance])),
)


@given(moves)
def test_every_move_comes_back_from_json_as_it_was(move):
    assert decode(Move, encode(move, Move)) == move
    assert decode(ActionDecided, encode(ActionDecided(move, {}))) == ActionDecided(move, {})


@given(objects)
def test_equal_json_has_equal_bytes(value):
    assert canonical(value) == canonical(dict(reversed(value.items())))
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_json_has_no_bytes(number):
    with pytest.raises(ValueError, match="JSON"):
        canonical({"x": [number]})


@given(st.text())
def test_text_that_utf_8_cannot_carry_is_shown_as_what_it_was(text):
    shown = carried(text)
    assert shown.encode().decode() == shown
    assert carried(shown) == shown
    if text.isprintable() and not any("\ud800" <= each <= "\udfff" for each in text):
        assert shown == text


def test_a_value_that_would_not_come_back_is_refused():
    assert checked(Refusal, Refusal(("a",))) == Refusal(("a",))
    with pytest.raises(ValueError, match="reasons"):
        checked(Refusal, Refusal(reasons=3))


@given(st.sampled_from(Prefix))
def test_identifiers_say_what_they_name(prefix):
    made = new_id(prefix)
    assert made.startswith(f"{prefix}_")
    assert is_id(made)


def test_later_identifiers_sort_after_earlier_ones():
    made = [new_id(Prefix.EVIDENCE) for _ in range(1000)]
    assert made == sorted(set(made))


@pytest.mark.parametrize(
    "text",
    ["", "ses_", "ses_" + "0" * 31, "ses_" + "0" * 33, "x_" + "0" * 32, "ses_" + "G" * 32, "ses_" + "0" * 32 + "\n"],
)
def test_what_is_no_identifier_is_told_apart(text):
    assert not is_id(text)


def test_a_row_is_named_by_all_of_its_key():
    keys = {RowKey(f, s, c, kind) for f in range(2) for s in range(2) for c in range(2) for kind in RowKind}
    assert len(keys) == 8 * len(RowKind)


@given(texts, texts, texts, st.integers(0, 3))
def test_a_fingerprint_does_not_depend_on_white_space_and_does_on_everything_else(rule, path, line, occurrence):
    found = fingerprint(rule, path, line, occurrence)
    assert len(found) == 32
    assert found == fingerprint(rule, path, f"  {line}\t", occurrence)
    others = {
        fingerprint(f"{rule}x", path, line, occurrence),
        fingerprint(rule, f"{path}x", line, occurrence),
        fingerprint(rule, path, f"{line} x", occurrence),
        fingerprint(rule, path, line, occurrence + 1),
    }
    assert found not in others


def test_a_location_is_shown_as_path_and_line():
    assert str(Location("a/b.py", 3, 5)) == "a/b.py:3"


def test_a_files_object_id_is_that_of_git(project, git):
    data = (project / "train.py").read_bytes()
    found = source_file("train.py", data)
    assert found.git_blob == git(project, "hash-object", "train.py")
    assert found.lines == len(data.splitlines())
    assert source_file("empty.py", b"").lines == 0


@pytest.mark.parametrize("status", Status)
def test_every_status_has_an_exit_code(status):
    assert exit_code(status) in {ExitCode.DONE, ExitCode.AGAINST, ExitCode.UNDECIDED, ExitCode.EMERGENCY_STOP}


@pytest.mark.parametrize("kind", QuestionType)
def test_every_kind_spells_every_stance(kind):
    assert status_for(kind, Stance.UNDECIDED) is Status.NEEDS_FURTHER_REVIEW
    assert status_for(kind, Stance.EMERGENCY) is Status.EMERGENCY_STOP
    assert exit_code(status_for(kind, Stance.FOR)) is ExitCode.DONE
    assert {status_for(kind, stance) for stance in Stance} <= set(Status)


def test_every_status_is_spelled_by_some_kind():
    assert {status_for(kind, stance) for kind in QuestionType for stance in Stance} == set(Status)


def every_error():
    seen, waiting = [], [EsperError]
    while waiting:
        seen.append(cls := waiting.pop())
        waiting.extend(cls.__subclasses__())
    return [each for each in seen if each.__module__ == "esper_agents.errors"]


@pytest.mark.parametrize("cls", every_error(), ids=lambda cls: cls.__name__)
def test_every_error_survives_pickling_with_its_facts(cls):
    given = {
        NotFoundError: lambda: NotFoundError("agent", "x", ["xy"], listing="esper agents list"),
        errors.NoCertificatesError: errors.NoCertificatesError,
        InputFileError: lambda: InputFileError("a.py", "empty", remedy="write it"),
        errors.DefinitionError: lambda: errors.DefinitionError("a.md", "bad", remedy="mend it", line=3),
    }
    made = given.get(cls, lambda: cls("it broke", remedy="mend it"))()
    back = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    assert type(back) is cls
    assert back.__dict__ == made.__dict__
    assert str(back) == str(made) == made.problem
    assert back.exit_code is made.exit_code


@pytest.mark.parametrize("cls", every_error(), ids=lambda cls: cls.__name__)
def test_the_tree_of_errors_is_drawn_as_it_is(cls):
    depth = len(cls.__mro__) - len(EsperError.__mro__)
    lead = "" if not depth else r"(│   |    )" * (depth - 1) + "[├└]── "
    code = "" if cls is EsperError else rf" \.+ {int(cls.exit_code)} "
    assert re.search(rf"^{lead}{cls.__name__}{code}", errors.__doc__, re.MULTILINE)


def test_a_name_that_is_not_known_comes_with_the_nearest_ones_or_with_the_way_to_list_them():
    near = NotFoundError("agent", "pytorch-expret", ["pytorch-expert", "other"], listing="esper agents list")
    assert near.remedy == "did you mean 'pytorch-expert'?"
    assert NotFoundError("agent", "zzz", ["other"], listing="esper agents list").remedy == "run `esper agents list`"
    assert near.exit_code is ExitCode.USAGE
    assert isinstance(near, UsageError)
