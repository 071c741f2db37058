"""`esper certificates show`: what ended a certificate comes first."""

from __future__ import annotations

import json

import pytest
from command_line import build
from typer.testing import CliRunner


@pytest.fixture
def place(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


def certificates(*words):
    return CliRunner().invoke(build(), ["certificates", *words], env={"COLUMNS": "200"})


def test_a_revoked_certificate_says_first_that_it_is_revoked(place):
    certificates("revoke", place.id, "--reason", "the data was mislabelled")
    assert certificates("show", place.id).stdout.startswith("revoked: the data was mislabelled\n\nCODE REVIEW")
    for style in ("json", "markdown", "html"):
        done = certificates("show", place.id, "--format", style)
        assert done.stderr == f"{place.id} is revoked: the data was mislabelled\n"
        assert "mislabelled" not in done.stdout
    assert json.loads(certificates("show", place.id, "--json").stdout)


def test_a_superseded_certificate_names_first_the_one_that_replaced_it(place):
    CliRunner().invoke(build(), ["submit", "--rerun", place.id])
    newer = json.loads(certificates("list", "--json").stdout)[0]["id"]
    assert newer != place.id
    assert certificates("show", place.id).stdout.startswith(f"superseded by {newer}\n\nCODE REVIEW")
    assert certificates("show", newer).stdout.startswith("CODE REVIEW")
