"""Full text on both databases: what is found, in which order, where it was said, and that nothing typed is a query."""

from __future__ import annotations

from dataclasses import replace

import pytest
from archive_samples import OTHER, found, made
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import update

from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search.search import search
from esper_agents.archive.search.tokens import (
    LONGEST_WORD,
    MOST_CHARACTERS,
    asked_words,
    best_passage,
    passages,
    recorded_passages,
    searched_text,
    words_of,
)
from esper_agents.archive.search_index import rebuild
from esper_agents.certificates.statement import normal, statement
from esper_agents.domain.status import Status
from esper_agents.errors import UsageError
from esper_agents.storage.tables import certificate as table


def hits(archived, words, **options):
    wanted = options.pop("wanted", Filter())
    return search(archived.store, archived.key, replace(wanted, words=words), **options)


def ids(archived, words, **options):
    return [hit.entry.id for hit in hits(archived, words, **options)]


def test_every_text_that_is_searched_is_found_and_shown_with_where_it_stands(archived) -> None:
    issued = made(
        1,
        request="is the quokka right?",
        summary="The wombat sleeps.",
        rationale="A numbat says so.",
        agent="bilby-expert",
        component="potoroo_2_files",
        findings=(found(2, "ESP777", "src/bandicoot.py", 9, "a dingo ate it", "cassowary = kea(1)"),),
    )
    archived.add(issued)
    where = "ESP777 at src/bandicoot.py:9"
    places = {
        "quokka": ("request", "is the quokka right?"),
        "WOMBAT": ("summary", "The wombat sleeps."),
        "numbat": ("rationale", "A numbat says so."),
        "bilby": ("agent", "bilby-expert"),
        "potoroo": ("component", "potoroo_2_files"),
        "dingo ate": (where, "a dingo ate it"),
        "cassowary": (where, "cassowary = kea(1)"),
        "bandicoot.py": (where, "ESP777 loss-kept-with-its-graph src/bandicoot.py"),
        "esp777": (where, "ESP777 loss-kept-with-its-graph src/bandicoot.py"),
    }
    for words, place in places.items():
        (hit,) = hits(archived, words)
        assert (hit.entry.id, hit.passage.where, hit.passage.text) == (issued.id, *place)


def test_the_newest_come_first_and_pages_go_on_where_the_last_ended(archived) -> None:
    issued = archived.fill(*(made(number, summary=f"the loss of run {number}") for number in range(9)))
    archived.add(made(900, summary="the loss"), project=OTHER)
    assert ids(archived, "loss") == issued
    assert ids(archived, "loss", limit=4) == issued[:4]
    assert ids(archived, "loss", limit=4, before=issued[3]) == issued[4:8]


def test_all_words_must_be_said_and_those_with_a_dot_in_a_row(archived) -> None:
    apart = archived.add(made(1, summary="detach what is kept of the loss"))
    together = archived.add(made(2, summary="append loss.detach() instead"))
    assert ids(archived, "loss detach") == [together, apart]
    assert ids(archived, "loss.detach") == [together]
    assert ids(archived, "detach elsewhere") == []


def test_case_accents_and_width_do_not_count(archived) -> None:
    wide = "".join(chr(ord(each) + 0xFEE0) for each in "GRADIENT")
    issued = archived.add(made(1, summary=f"Der Überlauf im {wide}, naïve, 模型 训练, Ǆ, ﬁne"))
    for words in ("uberlauf", "ÜBERLAUF", "gradient", "naive", "模型", "训练", "fine", "ǆ"):
        assert ids(archived, words) == [issued], words


def test_a_search_keeps_to_the_filter(archived) -> None:
    one = archived.add(made(1, summary="a loss", component="one"))
    archived.add(made(2, summary="a loss", component="other"))
    assert ids(archived, "loss", wanted=Filter(component="one")) == [one]
    assert ids(archived, "loss", wanted=Filter(component="one", since="2027-01-01T00:00:00.000Z")) == []
    assert ids(archived, "loss", wanted=Filter(statuses=(Status.EMERGENCY_STOP,))) == []


QUERIES = (
    '"',
    "'",
    "loss OR NOT",
    "lo*",
    "words:loss",
    "NEAR(loss kept)",
    "loss)",
    "-loss",
    "loss\x00",
    "{loss}",
    ":a",
)


@pytest.mark.sample(8)
@pytest.mark.parametrize("words", QUERIES)
def test_signs_of_query_languages_are_no_more_than_spaces(archived, words) -> None:
    archived.add(made(1, summary="there is a loss that is kept"))
    if asked_words(words):
        assert all(hit.passage for hit in hits(archived, words))
    else:
        with pytest.raises(UsageError, match="no search word in"):
            hits(archived, words)
    assert ids(archived, "lo*") == []
    assert ids(archived, "-loss") != []


def test_any_text_can_be_searched_for(archived) -> None:
    # One archive for all examples: they only read.
    archived.add(made(1, summary="there is a loss"))

    @given(st.text(max_size=60))
    @example("ﷺ" * 50)
    @example("\U0001e900 \U00010d4f")
    @example("a" * 10_000)
    @example("loss " * 5_000)
    def look(words):
        if asked_words(words):
            hits(archived, words, limit=1)

    look()


@given(st.text(), st.text())
def test_a_text_is_found_by_any_run_of_its_own_words(before, after) -> None:
    issued = normal(replace(made(1), summary=f"{before} quokka {after}"))
    words = words_of(issued.summary)
    assert all(len(word) <= LONGEST_WORD for word in words)
    assert " ".join(words) in searched_text(issued)
    said = list(passages(issued))
    assert list(recorded_passages(statement(issued))) == said
    passage = best_passage(said, asked_words("quokka"))
    assert passage is not None
    assert "quokka" in passage.text


@pytest.mark.slow
def test_an_enormous_certificate_is_indexed_as_far_as_databases_can(archived) -> None:
    findings = tuple(found(n, "ESP301", f"m{n}.py", 1, f"number{n} " * 40) for n in range(2, 3_000))
    issued = archived.add(made(1, request="please", summary=f"{'long' * 5_000} numbat", findings=findings))
    assert ids(archived, "numbat") == [issued]
    assert ids(archived, "number2") == [issued]
    wide = archived.add(made(2, summary=" ".join(chr(0x4E00 + n % 20_000) * 60 for n in range(20_000))))
    assert len(searched_text(made(2, summary="x " * MOST_CHARACTERS))) <= MOST_CHARACTERS
    assert ids(archived, chr(0x4E00) * 60) == [wide]


@given(st.binary() | st.just(b"[" * 100_000) | st.just(b'{"predicate": {"findings": [1, {"claim": 7}], "task": []}}'))
def test_nothing_is_quoted_from_bytes_that_are_no_certificate(data) -> None:
    assert best_passage(recorded_passages(data), asked_words("quokka")) is None


def test_a_record_that_was_changed_is_still_listed_and_quoted_no_longer(archived) -> None:
    issued = archived.add(made(1, summary="there is a quokka"))
    with archived.store.writing() as transaction:
        transaction.connection.execute(update(table).values(statement=b'{"no": "certificate"}'))
    (hit,) = hits(archived, "quokka")
    assert (hit.entry.id, hit.passage) == (issued, None)


def test_a_long_passage_is_cut_to_what_stands_around_the_word(archived) -> None:
    archived.add(made(1, summary=f"{'before ' * 50}quokka {'after ' * 50}"))
    (hit,) = hits(archived, "quokka")
    assert hit.passage.text.startswith("... before")
    assert hit.passage.text.endswith("after ...")
    assert "quokka" in hit.passage.text
    assert len(hit.passage.text) < 200


def test_what_is_made_again_from_the_statements_finds_the_same(archived) -> None:
    issued = archived.fill(*(made(number, summary=f"run {number} of the quokka") for number in range(5)))
    with archived.store.writing() as transaction:
        rebuild(transaction.connection)
    assert ids(archived, "quokka") == issued
    assert ids(archived, "run 3") == [issued[1]]
