"""`esper why` and `esper memory show`, in processes of their own."""

from __future__ import annotations

import pytest


def test_why_goes_from_the_status_to_the_evidence(desk, ids) -> None:
    lines = desk.esper("why", ids[1], code=0).stdout.splitlines()
    assert lines[0].startswith("REQUIRES_REMEDIATION (against): ")
    policy = next(at for at, line in enumerate(lines) if line.startswith("    critical-finding allows at most against"))
    assert lines[policy + 1].startswith("      ESP101 at train.py:8: ")
    evidence = next(line for line in lines[policy + 1 :] if line.startswith("        ev_"))
    assert "static-review completed" in evidence


def test_why_as_json_is_the_tree(desk, ids) -> None:
    tree = desk.esper("why", ids[1], "--json", code=0).json
    assert tree["verdict"]["status"] == "REQUIRES_REMEDIATION"
    (critical,) = [each for each in tree["lines"] if each["line"]["name"] == "critical-finding"]
    (found,) = critical["findings"]
    assert found["finding"]["claim"]["rule"] == "ESP101"
    assert found["finding"]["evidence"][0] == found["evidence"][0]["id"]


def test_why_of_a_certificate_without_findings_names_the_calls_that_read_code(place) -> None:
    made = place({"sound.py": "import torch\n\nWIDTH = 3\n"})
    made.esper("submit", "review this code", "sound.py", "--agent", "pytorch-code-reviewer")
    assert "static-review completed" in made.esper("why", code=0).stdout


def test_why_of_an_unknown_certificate_is_refused(desk) -> None:
    assert desk.esper("why", "crt_nothing").problem(2) == (
        "no certificate named 'crt_nothing'",
        "run `esper certificates list`",
    )


def test_memory_shows_each_thing_with_its_certificate_and_day(desk, ids) -> None:
    said = desk.esper("memory", "show", code=0).stdout
    assert "pytorch-code-reviewer, next-actions\n" in said
    assert "  critical ESP101" in said
    kept = [line for line in said.splitlines() if line.startswith("    from crt_")]
    assert {line.split()[1].rstrip(",") for line in kept} <= set(ids)
    assert all(line.split()[2].startswith("20") for line in kept)
    assert "\x1b" not in said


def test_memory_keeps_what_is_superseded_out_unless_all_is_asked_for(desk, ids) -> None:
    current = desk.esper("memory", "show", "--kind", "decisions-log", code=0).stdout
    assert "REQUIRES_REMEDIATION" not in current
    everything = desk.esper("memory", "show", "--kind", "decisions-log", "--all", code=0).stdout
    assert "[superseded] REQUIRES_REMEDIATION for train" in everything
    assert f"from {ids[1]}, " in everything


def test_memory_of_one_agent_and_one_kind_as_json(desk) -> None:
    notes = desk.esper("memory", "show", "--agent", "pytorch-code-reviewer", "--kind", "next-actions", "--json").json
    assert notes
    assert {(note["agent"], note["kind"], note["state"]) for note in notes} == {
        ("pytorch-code-reviewer", "next-actions", "current")
    }
    assert any(note["command"].startswith("esper submit --rerun crt_") for note in notes)


def test_memory_says_that_there_is_more_than_the_limit(desk) -> None:
    assert "esper memory show --limit 2" in desk.esper("memory", "show", "--limit", "1", code=0).stdout
    assert len(desk.esper("memory", "show", "--limit", "1", "--json", code=0).json) == 1


def test_memory_of_an_agent_that_does_not_exist_offers_the_nearest(desk) -> None:
    assert "'memory-diagnostician'" in desk.esper("memory", "show", "--agent", "memory-diagnostican").problem(2)[1]


def test_memory_of_an_unknown_kind_names_the_three(desk) -> None:
    problem, _ = desk.esper("memory", "show", "--kind", "dreams").problem(2)
    assert "'next-actions'" in problem


def test_a_project_without_sessions_remembers_nothing(place) -> None:
    made = place({})
    assert made.esper("memory", "show", code=0).stdout.startswith("nothing is remembered yet")
    assert made.esper("memory", "show", "--json", code=0).json == []


@pytest.mark.parametrize("command", [("why",), ("memory", "show")])
def test_every_command_has_an_example_in_its_help(desk, command) -> None:
    assert f"esper {' '.join(command)}" in desk.esper(*command, "--help", code=0).stdout.split("Examples:")[1]
