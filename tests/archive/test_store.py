"""Listing and finding, on both databases: every filter, dates, pages, and the ends of identifiers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from archive_samples import OTHER, found, identifier, made, time_of
from certificate_samples import critical
from sqlalchemy import text

from esper_agents.archive import store as archive
from esper_agents.archive.search.filters import Filter, since_of, until_of
from esper_agents.domain.status import Status
from esper_agents.errors import NotFoundError, UsageError

AGENTS = ("pytorch-code-reviewer", "memory-diagnostician")
FILES = ("train.py", "model.py", "data/loader.py")


@pytest.fixture
def many(archived):
    """Return an archive of 36 certificates that differ in everything, newest first, beside one of another project."""
    archived.add(made(900), project=OTHER)
    issued = []
    for number, (agent, file, bad, kept) in enumerate(product(AGENTS, FILES, (0, 1), (0, 1, 2))):
        findings = ((critical(1),) if bad else ()) + tuple(found(n + 2, f"ESP30{n}", file, n + 1) for n in range(kept))
        certificate = made(
            number,
            agent=agent,
            component=file.partition(".")[0].replace("/", "_"),
            paths=(file, "shared.py"),
            commit=f"{number % 3:04x}{number:036x}",
            findings=findings,
        )
        issued.append(certificate)
        archived.add(certificate)
    return archived, tuple(reversed(issued))


def is_wanted(certificate, wanted: Filter) -> bool:
    return all(
        (
            not wanted.statuses or certificate.verdict.status in wanted.statuses,
            not wanted.agent or certificate.agent == wanted.agent,
            not wanted.component or certificate.component == wanted.component,
            not wanted.path or wanted.path in {each.path for each in certificate.examined},
            not wanted.rule or wanted.rule in {finding.claim.rule for finding in certificate.findings},
            certificate.revision.commit.startswith(wanted.commit),
            wanted.since <= certificate.issued_at,
            not wanted.until or certificate.issued_at < wanted.until,
        )
    )


PARTS = {
    "statuses": ((), (Status.REQUIRES_REMEDIATION,), (Status.APPROVED, Status.CONDITIONALLY_APPROVED)),
    "agent": ("", AGENTS[1]),
    "path": ("", "model.py"),
    "rule": ("", "ESP300", "ESP301"),
    "commit": ("", "0001"),
    "since": ("", time_of(9)),
    "until": ("", time_of(30)),
}


@pytest.mark.sample(1)
def test_every_combination_of_filters_lists_exactly_what_they_let_through_newest_first(many) -> None:
    archived, issued = many
    for values in product(*PARTS.values()):
        wanted = Filter(**dict(zip(PARTS, values, strict=True)))
        expected = [each.id for each in issued if is_wanted(each, wanted)]
        assert archived.listed(wanted=wanted) == expected, wanted


def test_pages_one_after_another_are_the_whole_listing(many) -> None:
    archived, issued = many
    for wanted in (Filter(), Filter(path="model.py"), Filter(since=time_of(3), until=time_of(33))):
        whole = [each.id for each in issued if is_wanted(each, wanted)]
        for size in (1, 5, 100):
            assert [page.id for page in archive.pages(archived.store, archived.key, wanted, size=size)] == whole


def test_certificates_of_other_projects_are_never_listed(many) -> None:
    archived, _ = many
    for wanted in (Filter(path="train.py"), Filter(rule="ESP300"), Filter(words="review"), Filter(since=time_of(0))):
        assert identifier(900) not in archived.listed(wanted=wanted, limit=100)
    assert [each.id for each in archive.listing(archived.store, OTHER.key)] == [identifier(900)]


def test_with_dates_the_order_is_that_of_times_also_where_a_clock_ran_backwards(archived) -> None:
    late, early, middle = (replace(made(number), issued_at=time_of(at)) for number, at in ((1, 20), (2, 2), (3, 10)))
    archived.fill(late, early, middle)
    assert archived.listed() == [middle.id, early.id, late.id]
    wanted = Filter(since=time_of(1))
    assert archived.listed(wanted=wanted) == [late.id, middle.id, early.id]
    assert archived.listed(wanted=wanted, before=middle.id) == [early.id]
    assert archived.listed(wanted=Filter(until=time_of(10))) == [early.id]


def test_many_of_equal_time_are_paged_without_loss(archived) -> None:
    issued = archived.fill(*(replace(made(number), issued_at=time_of(1)) for number in range(7)))
    wanted = Filter(since=time_of(1))
    assert [page.id for page in archive.pages(archived.store, archived.key, wanted, size=2)] == issued


def test_where_all_conditions_are_common_they_are_met_beyond_the_first_look(archived, monkeypatch) -> None:
    for module in ("posting_lists", "filter_conditions"):
        monkeypatch.setattr(f"esper_agents.archive.search.{module}.FIRST_LOOK", 2)
        monkeypatch.setattr(f"esper_agents.archive.search.{module}.MOST_AT_ONCE", 4)
    monkeypatch.setattr("esper_agents.archive.search.filter_conditions._FEW", 3)
    both = made(0, agent=AGENTS[1], component="model")
    archived.add(both)
    for number in range(1, 30):
        half = {"agent": AGENTS[1]} if number % 2 else {"component": "model"}
        archived.add(made(number, **half))
    for wanted in (
        Filter(agent=AGENTS[1], component="model"),
        Filter(agent=AGENTS[1], since=time_of(0), words="model"),
    ):
        assert archived.listed(wanted=wanted, limit=1) == [both.id]


def test_what_all_say_is_looked_up_where_something_rarer_stands(archived, monkeypatch) -> None:
    monkeypatch.setattr("esper_agents.archive.search.posting_lists.FIRST_LOOK", 2)
    monkeypatch.setattr("esper_agents.archive.search.full_text.Words.run", 1)
    wanted = Filter(component="model", words=AGENTS[1])
    issued = []
    for number in range(40):
        certificate = made(number, agent=AGENTS[number % 20 > 0], component="train" if number % 4 else "model")
        archived.add(certificate)
        issued += [certificate.id] if number % 4 == 0 and number % 20 else []
    assert archived.listed(wanted=wanted, limit=20) == issued[::-1]
    assert archived.listed(wanted=wanted, limit=3) == issued[:-4:-1]


def test_a_certificate_is_found_by_its_identifier_its_end_and_as_the_latest(many) -> None:
    archived, issued = many
    for wanted in (issued[7].id, issued[7].id[-6:], issued[7].id[-12:], f"crt_{issued[7].id[-10:]}"):
        assert archive.find(archived.store, archived.key, wanted).id == issued[7].id
    assert archive.find(archived.store, archived.key, "latest").id == issued[0].id


def test_the_end_of_two_identifiers_names_neither(archived) -> None:
    one, other = f"crt_{'1' * 20}{'abcdef012345'}", f"crt_{'2' * 20}{'abcdef012345'}"
    archived.fill(made(1, id=one), made(2, id=other))
    with pytest.raises(NotFoundError) as refused:
        archive.find(archived.store, archived.key, "abcdef012345")
    assert one in refused.value.remedy
    assert other in refused.value.remedy
    assert archive.find(archived.store, archived.key, "2abcdef012345").id == other


@pytest.mark.sample(4)
@pytest.mark.parametrize("wanted", ["", "abc", "%", "%%%%%%%%", "z" * 8, "______", 'a"*OR', "crt_", "0" * 40, "LATEST"])
def test_what_is_no_end_of_an_identifier_names_nothing(archived, wanted) -> None:
    archived.add(made(1, id=f"crt_{'0' * 32}"))
    with pytest.raises(NotFoundError):
        archive.find(archived.store, archived.key, wanted)


def test_one_that_the_index_has_lost_is_still_found(archived) -> None:
    (issued,) = archived.fill(made(1))
    with archived.store.writing() as transaction:
        sqlite = transaction.connection.dialect.name == "sqlite"
        forget = "INSERT INTO certificate_text (certificate_text) VALUES ('delete-all')"
        transaction.connection.execute(text(forget if sqlite else "DELETE FROM certificate_text"))
    assert archive.find(archived.store, archived.key, issued[-8:]).id == issued


def test_another_projects_certificate_is_not_found(archived) -> None:
    archived.add(made(1), project=OTHER)
    for wanted in (identifier(1), identifier(1)[-8:], "latest"):
        with pytest.raises(NotFoundError):
            archive.find(archived.store, archived.key, wanted)


HOSTILE = ("' OR 1=1 --", '"', "%", "_", "\\", "a;DROP TABLE certificate", "\u202e", "x" * 10_000, "NULL")


def test_hostile_text_in_a_filter_is_a_name_that_nothing_has(many) -> None:
    archived, issued = many
    for field, text_ in product(("agent", "path", "component", "rule"), HOSTILE):
        assert archived.listed(wanted=Filter(**{field: text_})) == []
    assert len(archived.listed()) == len(issued)


def test_hostile_names_are_listed_by_those_very_names(archived) -> None:
    for number, name in enumerate(HOSTILE):
        issued = made(number, agent=name, component=name, paths=(name,), findings=(found(2, name[:60], name, 1),))
        archived.add(issued)
        for wanted in (Filter(agent=name), Filter(component=name), Filter(path=name), Filter(rule=name[:60])):
            assert archived.listed(wanted=wanted) == [issued.id]


def test_a_period_reaches_from_its_first_moment_to_its_last() -> None:
    spans = {
        "2026": ("2026-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"),
        "2026-01": ("2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z"),
        "2026-12": ("2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"),
        "2024-02-29": ("2024-02-29T00:00:00.000Z", "2024-03-01T00:00:00.000Z"),
        "2026-01-31T09:30": ("2026-01-31T09:30:00.000Z", "2026-01-31T09:31:00.000Z"),
        "2026-01-31T09:30:15Z": ("2026-01-31T09:30:15.000Z", "2026-01-31T09:30:16.000Z"),
        "2026-01-31T09:30:15.123Z": ("2026-01-31T09:30:15.123Z", "2026-01-31T09:30:15.124Z"),
        "2026-01-31T01:30+02:00": ("2026-01-30T23:30:00.000Z", "2026-01-30T23:31:00.000Z"),
    }
    for named, span in spans.items():
        assert (since_of(named), until_of(named)) == span


@pytest.mark.parametrize("named", ["", "yesterday", "2026-13", "2026-02-30", "0000", "9999", "31.01.2026", "2026-1-1"])
def test_what_is_no_date_is_refused_with_how_to_write_one(named) -> None:
    with pytest.raises(UsageError) as refused:
        until_of(named)
    assert "2026-01-31" in refused.value.remedy
