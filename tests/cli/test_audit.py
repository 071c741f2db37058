"""`esper certificates audit` and `import`, as a person calls them, and the page that tells of them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judged import FAULTY, judge
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "certificates/audit"))

from command_line import build
from freehand import FOLDER, NAME, TRAIN, Archive, certificate

from esper_agents.certificates.audit.auditing import MEANING
from esper_agents.certificates.audit.checks import meanings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
UNKNOWN = "**Status**: PASSED"


@pytest.fixture
def archive(make_project, monkeypatch):
    """Return a repository whose agents know `torch-specialist`; the working folder is in it."""
    root = make_project({"src/train.py": TRAIN}, under_git=False)
    made = Archive(root)
    made.git("init", "-q", "-b", "main", "--template=")
    agent = "---\nname: torch-specialist\ndescription: Knows torch.\n---\nYou know torch.\n"
    made.write(agent, "torch-specialist.md", ".claude/agents")
    made.commit("2026-01-01T00:00:00+00:00")
    monkeypatch.chdir(root)
    return made


def esper(*words, **environment):
    return CliRunner().invoke(build(), ["certificates", *words], env={"COLUMNS": "100", **environment})


def test_a_good_archive_exits_with_0(archive) -> None:
    archive.write(certificate())
    archive.commit()
    done = esper("audit", "docs")
    assert done.exit_code == 0, done.output
    assert done.output == "1 document audited, 0 with something that does not hold\n"


def test_a_fault_exits_with_7_and_is_named_with_its_line(archive) -> None:
    archive.write(certificate(decision=f"## DECISION/OUTCOME\n{UNKNOWN}\n**Rationale**: good"))
    archive.commit()
    done = esper("audit", "docs")
    assert done.exit_code == 7
    assert "status-unknown: line 16: 'PASSED' is none of the eleven statuses" in done.output


def test_what_git_does_not_know_exits_with_4(archive) -> None:
    archive.write(certificate())
    done = esper("audit", "docs")
    assert done.exit_code == 4
    assert "date-undecided: cannot decide: it is not committed" in done.output


def test_wrong_usage_exits_with_2(archive) -> None:
    for words in (("audit", "none"), ("audit", "src"), ("audit",), ("import", "none")):
        assert esper(*words).exception is not None


def test_an_agent_is_known_where_the_project_defines_it_or_a_person_names_it(archive) -> None:
    archive.write(certificate(agent="**Agent**: wizard", signature="## SIGNATURE\nAgent: wizard"), folder="notes")
    archive.commit()
    assert "no agent 'wizard' is defined" in esper("audit", "notes").output
    assert esper("audit", "notes", "--agent", "wizard").exit_code == 0


def test_the_days_between_can_be_set(archive) -> None:
    archive.write(certificate())
    archive.commit("2026-03-10T00:00:00+00:00")
    assert esper("audit", "docs").exit_code == 7
    assert esper("audit", "docs", "--days", "60").exit_code == 0


def test_json_holds_what_the_screen_shows(archive) -> None:
    archive.write(certificate(evidence=""))
    archive.commit()
    done = esper("audit", "docs", "--json")
    found = json.loads(done.output)
    assert found["counts"] == {"section-missing": 1}
    assert found["exit_code"] == done.exit_code == 7
    (document,) = found["documents"]
    assert (document["path"], document["status"], document["kind"]) == (f"{FOLDER}/{NAME}", "APPROVED", "certificate")
    assert document["problems"] == [
        {"code": "section-missing", "detail": "there is no section EVIDENCE", "line": None, "outcome": "fails"}
    ]


def test_our_own_view_of_a_certificate_has_nothing_against_it(make_project, git, monkeypatch) -> None:
    root = make_project({"train.py": FAULTY})
    monkeypatch.chdir(root)
    judged = judge(root)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "certificate")
    done = esper("audit", str(judged.view.relative_to(root)))
    assert done.exit_code == 0, done.output


def test_import_takes_in_once_and_says_that_nobody_vouches(archive) -> None:
    archive.write(certificate())
    archive.commit()
    first, again = esper("import", "docs"), esper("import", "docs", "--json")
    assert first.output == "imported: 1, already imported: 0; none is verified\n"
    assert json.loads(again.output)["known"] == 1
    listed = esper("list")
    assert listed.exit_code == 0
    assert "torch-specialist" not in listed.output


ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f]")
HOSTILE = st.text(st.sampled_from("\x1b[2J\x07\u202e\u2066\x9b\r\x00ab*`#|:/\n"), max_size=60)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.tuples(HOSTILE, HOSTILE, HOSTILE, HOSTILE), as_json=st.booleans())
def test_no_text_reaches_the_terminal_as_an_escape(archive, texts, as_json) -> None:
    status, agent, cited, body = texts
    archive.write(
        certificate(
            agent=f"**Agent**: {agent}",
            decision=f"## DECISION/OUTCOME\n**Status**: {status}\n**Rationale**: {body}",
            evidence=f"## EVIDENCE\n- `{cited}/a.py:3`\n{body}",
        ).encode("utf-8", "replace")
    )
    done = esper("audit", "docs", *(("--json",) if as_json else ()))
    assert done.exit_code in {4, 7}
    assert ESCAPES.search(done.output) is None


def test_the_page_names_every_problem_and_what_it_means() -> None:
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", PAGE, re.MULTILINE))
    assert told == meanings() | MEANING


def test_every_option_that_the_page_shows_exists_and_each_is_told_of() -> None:
    group = typer.main.get_command(build()).commands["certificates"]
    options = {
        name for command in ("audit", "import") for param in group.commands[command].params for name in param.opts
    }
    about_documents, _, _ = PAGE.partition("## Witness a transparency log")
    told = set(re.findall(r"--[a-z]+", about_documents)) - {"--imported"}
    assert told <= options
    assert {option for option in options if option.startswith("--")} - told <= {"--help"}


def test_every_command_of_the_page_runs_on_the_example_of_the_page(archive) -> None:
    blocks = re.findall(r"^```\n\$ esper certificates (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    (example,) = re.findall(r"^````markdown\n(.*?)^````$", PAGE, re.MULTILINE | re.DOTALL)
    archive.write(example, "loop_review_train_20260210_093000.md")
    archive.commit("2026-09-12T09:41:00+00:00")
    for command, output in blocks:
        shown = esper(*shlex.split(command)).output
        shown = re.sub(r"commit [0-9a-f]{12}", "commit 0123456789ab", shown)
        assert [line.rstrip() for line in shown.splitlines()] == [line.rstrip() for line in output.splitlines()]


def test_what_was_taken_in_is_listed_as_what_nobody_vouches_for(archive) -> None:
    assert esper("list", "--imported").output == "nothing was taken in; do so with: esper certificates import PATH\n"
    archive.write(certificate().replace("**Status**: APPROVED", UNKNOWN))
    archive.commit()
    assert esper("import", "docs").exit_code == 0
    (found,) = json.loads(esper("list", "--imported", "--json").output)
    assert found["status"] == "PASSED"
    assert "status-unknown" in found["problems"]
    assert "unverified" in esper("list", "--imported").output
    assert "PASSED" not in esper("list").output
