"""`esper certificates list|search|diff|export|trend` with filters, in processes of their own."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from contextlib import closing

import pytest


def listed(desk, *options):
    return [each["id"] for each in desk.esper("certificates", "list", *options, "--json", code=0).json]


@pytest.mark.slow
def test_list_keeps_to_every_filter(desk, ids) -> None:
    explained, reviewed = ids
    assert listed(desk, "--status", "requires-remediation") == [reviewed]
    assert listed(desk, "--status", "ADVISORY_ONLY", "--status", "REQUIRES_REMEDIATION") == ids
    assert listed(desk, "--file", "train.py", "--since", "2020", "--until", "2199-12") == ids
    assert listed(desk, "--rule", "ESP101", "--component", "train") == ids
    assert listed(desk, "--since", "2199") == listed(desk, "--rule", "ESP000") == []
    assert listed(desk, "--cursor", explained[-12:]) == [reviewed]
    (commit,) = desk.rows("SELECT DISTINCT revision FROM certificate")
    assert listed(desk, "--commit", commit[0][:7]) == ids


def test_a_file_is_named_from_the_working_folder_or_from_the_projects_root(desk, ids) -> None:
    (desk.root / "sub").mkdir()
    for name in ("../train.py", "train.py", str(desk.root / "train.py")):
        done = desk.esper("certificates", "list", "--file", name, "--json", cwd=desk.root / "sub", code=0)
        assert [each["id"] for each in done.json] == ids


REFUSED = {
    ("list", "--status", "APROVED"): ("no status named 'APROVED'", "did you mean 'APPROVED'"),
    ("list", "--since", "soon"): ("'soon' is not a date", "UTC"),
    ("list", "--commit", "HEAD"): ("'HEAD' is not a commit", "hex digits"),
    ("list", "--cursor", "crt_000000000000"): ("no certificate named", "esper certificates list"),
    ("search", "***"): ("no search word in '***'", "letters or digits"),
    ("search", "loss", "--agent", "pytorch-code-reviewr"): ("no agent named", "did you mean 'pytorch-code-reviewer'"),
    ("trend", "finding.critical"): ("no metric named", "'findings.critical'"),
    ("diff", "crt_000000000000"): ("no certificate named", "esper certificates list"),
    ("export", "--output", "nowhere/x.tar"): ("does not exist", "create it"),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("command", REFUSED)
def test_what_cannot_be_asked_is_refused_in_two_lines(desk, command) -> None:
    problem, remedy = desk.esper("certificates", *command).problem(2)
    expected = REFUSED[command]
    assert expected[0] in problem
    assert expected[1] in remedy


def test_search_shows_where_it_was_said_and_cannot_steer_the_terminal(desk, ids) -> None:
    done = desk.esper("certificates", "search", "gradients", "steps", code=0)
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("crt_")] == ids
    assert "train.py:8" in done.stdout
    explained = desk.esper("certificates", "search", "explain", code=0).stdout
    assert "  request: " in explained
    assert not {"\x1b", "\u202e"} & set(explained)
    assert not any(line.startswith("**Status**") for line in explained.splitlines())
    (found,) = desk.esper("certificates", "search", "explain", "--json", code=0).json
    assert (found["id"], found["passage"]["where"]) == (ids[0], "request")
    assert desk.esper("certificates", "search", "unheard", code=0).stdout == "no certificate says all of that\n"


def test_diff_says_what_changed_from_one_to_the_other(desk, ids) -> None:
    said = desk.esper("certificates", "diff", ids[1], code=0).stdout
    assert "status: ADVISORY_ONLY; REQUIRES_REMEDIATION before" in said
    assert "gone: none" in said
    assert "files: none changed, 1 the same" in said
    found = desk.esper("certificates", "diff", ids[1], "latest", "--json", code=0).json
    assert (found["before"], found["after"], found["component"]) == (ids[1], ids[0], "train")
    assert found["findings"]["gone"] == []
    assert found["findings"]["still"]


def test_trend_lists_the_metrics_and_follows_one(desk, ids) -> None:
    listed = desk.esper("certificates", "trend", code=0).stdout.splitlines()
    assert ["findings.critical", str(len(ids)), "1", "1"] in [line.split()[:4] for line in listed]
    counts = {each["name"]: each for each in desk.esper("certificates", "trend", "--json", code=0).json}
    assert counts["findings.critical"]["newest"] == ids[0]
    assert counts["static-review/lines"]["certificates"] == len(ids)
    few = desk.esper("certificates", "trend", "--limit", "2", code=0).stdout
    assert " more: esper certificates trend --limit " in few
    said = desk.esper("certificates", "trend", "critical", code=0).stdout
    assert said.startswith("findings.critical: ")
    assert ids[0][-12:] in said
    found = desk.esper("certificates", "trend", "critical", "--json", code=0).json
    assert [each["certificate"] for each in found["points"]] == ids[::-1]
    assert {each["amount"] for each in found["points"]} == {1.0}


def test_export_writes_what_a_stranger_needs(desk, ids, tmp_path) -> None:
    target = tmp_path / "out.tar"
    said = desk.esper("certificates", "export", "--output", str(target), code=0).stdout
    assert said.startswith("exported: 2 certificates and 1 key to")
    with tarfile.open(target) as opened:
        names = opened.getnames()
    assert {f"certificates/{each}.dsse.json" for each in ids} <= set(names)
    problem, _ = desk.esper("certificates", "export", "--output", str(target)).problem(2)
    assert problem.endswith("already exists")


def test_export_exits_with_7_where_a_certificate_is_not_what_was_issued(desk, ids, tmp_path) -> None:
    with closing(sqlite3.connect(desk.database)) as connection, connection:
        connection.execute("UPDATE certificate SET statement = CAST('{}' AS BLOB) WHERE id = ?", (ids[0],))
    done = desk.esper("certificates", "export", "--output", str(tmp_path / "out"), "--json", code=7)
    assert [each["id"] for each in done.json["left_out"]] == [ids[0]]
    assert json.loads((tmp_path / "out" / "index.jsonl").read_text())["id"] == ids[1]


@pytest.mark.parametrize("command", ["search", "diff", "export", "trend"])
def test_every_command_has_an_example_in_its_help(desk, command) -> None:
    said = desk.esper("certificates", command, "--help", code=0).stdout
    assert f"esper certificates {command}" in said.split("Examples:")[1]
