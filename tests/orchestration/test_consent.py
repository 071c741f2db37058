"""A person's word on where source may go: kept for each project and server, and no where it cannot be read."""

from __future__ import annotations

import stat

import pytest

from esper_agents.orchestration.consent import ConsentError, agree, consents, is_agreed, withdraw

HOST = "api.anthropic.com"


def the_file(home):
    (found,) = home.iterdir()
    return found


def test_before_anybody_was_asked_nothing_is_agreed_to(tmp_path):
    assert not consents(tmp_path / "none")
    assert not is_agreed(tmp_path / "none", HOST)


def test_a_yes_is_kept_with_who_said_it_and_when(tmp_path):
    home = tmp_path / "home"
    said = agree(home, HOST, "Ada")
    assert consents(home) == (said,)
    assert (said.by, said.is_agreed) == ("Ada", True)
    assert said.at.endswith("Z")
    assert is_agreed(home, HOST)


@pytest.mark.parametrize("other", ["api.anthropic.com:8080", "anthropic.com", "API.ANTHROPIC.COM", ""])
def test_a_yes_is_for_one_server_alone(tmp_path, other):
    agree(tmp_path, HOST, "Ada")
    assert not is_agreed(tmp_path, other)


def test_a_no_is_kept_too_and_the_last_word_counts(tmp_path):
    agree(tmp_path, HOST, "Ada", is_agreed=False)
    assert [consent.is_agreed for consent in consents(tmp_path)] == [False]
    assert not is_agreed(tmp_path, HOST)
    agree(tmp_path, HOST, "Ada")
    assert is_agreed(tmp_path, HOST)
    assert len(consents(tmp_path)) == 1


def test_a_word_can_be_taken_back_and_others_stay(tmp_path):
    agree(tmp_path, HOST, "Ada")
    agree(tmp_path, "localhost:8080", "Ada")
    assert withdraw(tmp_path, HOST)
    assert not withdraw(tmp_path, HOST)
    assert [consent.host for consent in consents(tmp_path)] == ["localhost:8080"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "\xff",
        "{}",
        "7",
        "[7]",
        '[{"host": "api.anthropic.com"}]',
        '[{"host": "api.anthropic.com", "by": "Ada", "at": "now", "is_agreed": "yes"}]',
        '[{"host": "api.anthropic.com", "by": "Ada", "at": "now", "is_agreed": 1}]',
    ],
)
def test_what_cannot_be_read_agrees_to_nothing_and_a_new_word_stands(tmp_path, text):
    agree(tmp_path, HOST, "Ada")
    the_file(tmp_path).write_bytes(text.encode("latin-1"))
    assert not is_agreed(tmp_path, HOST)
    agree(tmp_path, HOST, "Ada")
    assert is_agreed(tmp_path, HOST)


def test_a_folder_in_its_place_agrees_to_nothing(tmp_path):
    (tmp_path / "models-may-read.json").mkdir()
    assert not consents(tmp_path)


def test_others_cannot_write_it(tmp_path):
    agree(tmp_path, HOST, "Ada")
    assert not the_file(tmp_path).stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def test_who_has_not_agreed_is_told_both_ways_on():
    error = ConsentError(HOST)
    assert HOST in error.problem
    assert f"esper models allow {HOST}" in error.remedy
    assert "--reasoner playbook" in error.remedy
