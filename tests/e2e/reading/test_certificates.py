"""`esper certificates list`, `show` and `path`, in processes of their own."""

from __future__ import annotations

import json

import pytest

from esper_agents.certificates.signing.dsse import read_envelope


def test_list_shows_each_certificate_newest_first(desk, ids) -> None:
    lines = desk.esper("certificates", "list", code=0).stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("crt_")] == ids
    assert lines[2].endswith(" REQUIRES_REMEDIATION")
    assert lines[3] == "  pytorch-code-reviewer on train: review this training code"


def test_list_as_json_holds_whole_entries(desk, ids) -> None:
    explained, reviewed = desk.esper("certificates", "list", "--json", code=0).json
    assert [explained["id"], reviewed["id"]] == ids
    assert {"issued_at", "status", "agent", "component", "request", "sha256"} <= reviewed.keys()
    assert (explained["status"], reviewed["status"]) == ("ADVISORY_ONLY", "REQUIRES_REMEDIATION")


def test_list_says_that_there_are_more_than_the_limit(desk, ids) -> None:
    said = desk.esper("certificates", "list", "--limit", "1", code=0).stdout
    assert ids[0] in said
    assert ids[1] not in said
    assert "esper certificates list --limit 2" in said


def test_list_of_an_agent_that_concluded_nothing_is_empty(desk) -> None:
    done = desk.esper("certificates", "list", "--agent", "nan-debugger", code=0)
    assert done.stdout.startswith("no matching certificates")


def test_list_of_an_agent_that_does_not_exist_offers_the_nearest(desk) -> None:
    done = desk.esper("certificates", "list", "--agent", "pytorch-code-reviewr")
    assert done.problem(2)[1].startswith("did you mean 'pytorch-code-reviewer'")


@pytest.mark.slow
def test_what_a_person_typed_cannot_steer_the_terminal(desk, ids) -> None:
    for command in (("list",), ("show", ids[0]), ("show", ids[0], "--format", "html"), ("verify", ids[0])):
        said = desk.esper("certificates", *command).stdout
        assert "\x1b" not in said
        assert "\u202e" not in said
    shown = desk.esper("certificates", "show", ids[0]).stdout
    assert [line for line in shown.splitlines() if line.startswith("Status:")] == ["Status: ADVISORY_ONLY"]


def test_show_prints_the_latest_certificate_and_any_by_the_end_of_its_identifier(desk, ids) -> None:
    assert ids[0] in desk.esper("certificates", "show", code=0).stdout
    assert ids[0] in desk.esper("certificates", "show", "latest", code=0).stdout
    shown = desk.esper("certificates", "show", ids[1][-10:], code=0).stdout
    assert shown.startswith("CODE REVIEW CERTIFICATE\n")
    assert "Status: REQUIRES_REMEDIATION" in shown


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        (("--format", "markdown"), ".md"),
        (("--markdown",), ".md"),
        (("--format", "html"), ".html"),
    ],
)
def test_show_prints_each_published_view_byte_for_byte(desk, ids, view, options, suffix) -> None:
    done = desk.esper("certificates", "show", ids[1], *options, code=0, env={"FORCE_COLOR": "1"})
    assert done.stdout == view.with_suffix(suffix).read_text("utf-8")


@pytest.mark.parametrize("options", [("--json",), ("--format", "json")])
def test_show_json_prints_the_record(desk, ids, record, options) -> None:
    assert desk.esper("certificates", "show", ids[1], *options, code=0).json == json.loads(
        read_envelope(record.read_bytes()).payload
    )


def test_show_of_a_misspelt_identifier_offers_the_nearest(desk, ids) -> None:
    misspelt = ids[1][:-1] + ("0" if ids[1][-1] != "0" else "1")
    problem, remedy = desk.esper("certificates", "show", misspelt).problem(2)
    assert problem == f"no certificate named '{misspelt}'"
    assert ids[1] in remedy


def test_show_of_a_certificate_that_was_changed_in_the_archive_exits_with_7(desk, ids) -> None:
    spoil(desk, ids[1])
    problem, _ = desk.esper("certificates", "show", ids[1]).problem(7)
    assert problem == f"archived certificate {ids[1]} was changed after it was issued"
    error = json.loads(desk.esper("certificates", "show", ids[1], "--json", code=7).stderr)["error"]
    assert (error["problem"], error["kind"], error["exit"]) == (problem, "integrity", 7)


def test_path_names_the_published_view_and_its_record(desk, ids, view, record) -> None:
    assert desk.esper("certificates", "path", ids[1], code=0).stdout == f"{view}\n"
    found = desk.esper("certificates", "path", ids[1], "--json", code=0).json
    assert found == {"view": str(view), "record": str(record)}


def test_path_writes_anew_what_is_gone(desk, ids, view, record) -> None:
    page, data = view.read_bytes(), record.read_bytes()
    record.unlink()
    desk.esper("certificates", "path", ids[1], code=0)
    assert record.read_bytes() == data
    view.unlink()
    desk.esper("certificates", "path", ids[1], code=0)
    assert view.read_bytes() == page


def test_path_of_a_view_in_the_data_folder_leaves_the_project_alone(place) -> None:
    made = place({"train.py": "import torch\n"})
    made.esper("submit", "review this training code", "train.py", "--publish", "data")
    found = made.esper("certificates", "path", code=0).stdout
    assert found.startswith(str(made.home))
    assert not (made.root / "docs").exists()


def test_every_command_takes_a_path_in_the_project(desk, ids, tmp_path) -> None:
    for command in (("list",), ("show",), ("path",), ("verify",)):
        done = desk.esper("certificates", *command, "--project", str(desk.root / "train.py"), cwd=tmp_path)
        assert done.code == 0
        assert ids[0] in done.stdout or "docs/ai/agents" in done.stdout


def test_a_project_that_is_not_there_is_refused(desk) -> None:
    problem, _ = desk.esper("certificates", "list", "--project", "nowhere").problem(2)
    assert problem == "no such file or folder: 'nowhere'"


def test_a_project_without_certificates_says_how_to_begin(place) -> None:
    made = place({}, under_git=False)
    assert "begin with: esper submit" in made.esper("certificates", "list", code=0).stdout
    assert made.esper("certificates", "list", "--json", code=0).json == []
    for command in (("show",), ("show", "latest"), ("path",), ("verify",), ("diff", "latest")):
        problem, remedy = made.esper("certificates", *command).problem(2)
        assert problem == "the project has no certificates"
        assert remedy == 'create one: esper submit "review this code" FILE'


@pytest.mark.parametrize("command", ["list", "show", "verify", "path"])
def test_every_command_has_an_example_in_its_help(desk, command) -> None:
    assert (
        f"esper certificates {command}"
        in desk.esper("certificates", command, "--help", code=0).stdout.split("Examples:")[1]
    )


def spoil(desk, certificate) -> None:
    """Change one word of a certificate in the archive."""
    import sqlite3

    with sqlite3.connect(desk.database) as connection:
        connection.execute(
            "UPDATE certificate SET statement = CAST(replace(CAST(statement AS TEXT), 'clears', 'cleans') AS BLOB)"
            " WHERE id = ?",
            (certificate,),
        )
    connection.close()
