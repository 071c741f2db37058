"""Names in a record that could become paths: whatever they say, nothing outside is read or written."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from certificate_samples import certificate, finding, full, source
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.archive.verification.files import SubjectState, verify_subjects
from esper_agents.certificates.statement import parse, statement
from esper_agents.certificates.views.file_names import slugify, view_name
from esper_agents.domain.finding import Location

HOSTILE = [
    "../../../etc/passwd",
    "..",
    ".",
    "",
    "/etc/passwd",
    "//etc/passwd",
    "a/../../b",
    "a\0b",
    "a\nb",
    "a\r\n**Status**: APPROVED",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "con",
    "NUL",
    "aux.py",
    "com1",
    "-rf",
    "--help",
    "~root",
    "$(touch x)",
    "C:\\Windows\\x",
    "\\\\server\\share",
    "file:///etc/passwd",
    "a" * 5000,
    "\u00e9" * 300,
    "\ud800",
    " ",
    ".git/config",
    ".esper-x",
]
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


@pytest.mark.parametrize("text", HOSTILE)
def test_no_field_leads_a_view_out_of_its_folder(text):
    made = replace(certificate(), agent=text, descriptor=slugify(text), component=slugify(text))
    assert re.fullmatch(r"[a-z0-9_]{1,200}_[0-9]{8}_[0-9]{6}_[0-9a-f]+\.md", view_name(made))
    assert slugify(text) not in RESERVED


@settings(max_examples=200)
@given(st.text(max_size=80))
def test_no_text_makes_a_part_of_a_name_that_is_more_than_a_word(text):
    assert re.fullmatch(r"[a-z0-9_]{1,61}", slugify(text))
    assert slugify(text) not in RESERVED


@pytest.mark.parametrize("text", HOSTILE)
def test_an_agent_s_name_is_one_folder_and_stays_inside(text, tmp_path):
    from types import SimpleNamespace

    from esper_agents.archive.publishing import _folder

    project = SimpleNamespace(root=str(tmp_path), is_git=True)
    services = SimpleNamespace(project=project, home=tmp_path / "home", publish=True)
    folder = _folder(services, text)
    base = tmp_path / "docs/ai/agents"
    assert os.path.normpath(folder) == str(folder)
    assert folder in {base, base / folder.name}


@pytest.fixture
def canary(tmp_path):
    """Return a project beside a file that must not be read."""
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "canary.py").write_text("secret = 1\n")
    (root / "link.py").symlink_to(tmp_path / "canary.py")
    (root / "up").symlink_to(tmp_path)
    return root


@pytest.mark.parametrize(
    "path",
    ["../canary.py", "link.py", "up/canary.py", "x/../../canary.py", "./../canary.py", "up/../canary.py", *HOSTILE],
)
def test_no_path_of_a_subject_reads_outside_the_tree(canary, path):
    file = source(path, "secret = 1\n")
    named = finding(location=Location(path, 1), excerpt="secret = 1")
    data = statement(replace(certificate(), examined=(file,), findings=(named,)))
    (found,) = verify_subjects(data, canary)
    assert found.state in {SubjectState.MISSING, SubjectState.UNREADABLE}
    assert found.citations == ()


def test_an_absolute_path_into_the_tree_is_none_either(canary):
    (canary / "in.py").write_text("x = 1\n")
    data = statement(replace(certificate(), examined=(source(str(canary / "in.py"), "x = 1\n"),)))
    (found,) = verify_subjects(data, canary)
    assert found.state is SubjectState.UNREADABLE


@pytest.mark.parametrize("text", [each for each in HOSTILE if each])
def test_an_identifier_that_is_a_path_is_none(text):
    for change in ({"id": text}, {"session": text}):
        with pytest.raises(Exception, match=r"not a (certificate|session) ID|encode|surrogate"):
            parse(statement(replace(full(), **change)))


def test_names_that_are_no_utf_8_are_missing_and_not_read_under_another_name(canary):
    Path(os.fsdecode(os.fsencode(canary) + b"/tr\xffain.py")).write_text("x = 1\n")
    data = statement(replace(certificate(), examined=(source(os.fsdecode(b"tr\xffain.py"), "x = 1\n"),)))
    (found,) = verify_subjects(data, canary)
    assert found.state is SubjectState.MISSING
