"""`esper review` through the real entry point."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import command

from esper_agents.review.source import LARGEST_BYTES

LOOP = """\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""


@pytest.fixture
def esper(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command("review", *arguments, cwd=tmp_path)

    return run


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.py").write_text(LOOP)
    return "train.py"


def test_a_critical_finding_fails_and_is_shown_with_its_line(esper, train):
    done = esper(train)
    assert done.returncode == 3
    assert "train.py:3:5: critical ESP101 gradients-not-cleared" in done.stdout
    assert "       3 |     loss.backward()" in done.stdout
    assert "train.py:5:5: warning ESP301 loss-kept-with-graph" in done.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--category", "memory"), 0),
        (("--category", "memory", "--fail-on", "warning"), 3),
        (("--rule", "ESP901", "--fail-on", "suggestion"), 0),
        (("--rule", "loss-kept-with-graph", "--fail-on", "suggestion"), 3),
    ],
)
def test_the_asked_level_and_rules_decide_the_exit_code(esper, train, options, code):
    assert esper(train, *options).returncode == code


def test_json_holds_claims_and_digests(esper, train):
    shown = json.loads(esper(train, "--json").stdout)
    assert [claim["rule"] for claim in shown["claims"]] == ["ESP101", "ESP301"]
    assert [len(each["git_blob"]) for each in shown["files"]] == [40]
    assert shown["unreadable"] == []


def test_the_source_cannot_steer_the_terminal(esper, tmp_path):
    (tmp_path / "train.py").write_text(LOOP.replace("(loss)", "(loss)  # \x1b[2J\u202e\x07"))
    shown = esper("train.py").stdout
    assert "losses.append(loss)" in shown
    assert not {"\x1b", "\u202e", "\x07"} & set(shown)


def test_a_file_that_does_not_parse_is_a_critical_finding(esper, tmp_path):
    (tmp_path / "broken.py").write_text("def f(:\n")
    done = esper("broken.py")
    assert done.returncode == 3
    assert "broken.py:1:7: critical ESP109 syntax-error" in done.stdout


def test_a_file_that_is_not_read_makes_the_review_undecided_unless_that_is_allowed(esper, tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "padded.py").write_bytes(LOOP.encode() + b"#" * LARGEST_BYTES)
    (tmp_path / "odd.py").write_bytes(b"x = 1\ny = 2\nz = '\xff'\n")
    first, warm = esper("."), esper(".")
    assert (first.returncode, warm.returncode) == (4, 4)
    assert "padded.py: larger than" in " ".join(warm.stdout.split())
    assert "odd.py:3: cannot be decoded" in " ".join(warm.stdout.split())
    assert esper(".", "--allow-unread").returncode == 0
    assert esper("--fail-on", "never", ".").returncode == 4
    (tmp_path / "train.py").write_text(LOOP)
    assert esper(".", "--allow-unread").returncode == 3
    listed = json.loads(esper(".", "--json").stdout)["unreadable"]
    assert [each["path"] for each in listed] == ["odd.py", "padded.py"]
    notes = json.loads(esper(".", "--format", "sarif").stdout)["runs"][0]["invocations"][0]
    assert len(notes["toolExecutionNotifications"]) == 2
    assert esper("--format", "github", ".").stdout.count("title=not reviewed") == 2


def test_files_of_which_none_is_read_are_undecided_whatever_is_allowed(esper, tmp_path):
    (tmp_path / "odd.py").write_bytes(b"x = 1\ny = 2\nz = '\xff'\n")
    assert esper(".", "--allow-unread").returncode == 4


def test_a_rule_is_explained_and_all_are_listed(esper):
    page = esper("--explain", "ESP305")
    assert page.returncode == 0
    assert page.stdout.startswith("# ESP305 item-in-training-loop")
    assert "## When it is right" in page.stdout
    assert "ESP101" in esper("--list-rules").stdout


@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_rules_are_printed_as_json_with_the_shape_that_the_page_describes(esper, option):
    listed = json.loads(esper("--list-rules", *option).stdout)
    assert list(listed) == ["rules"]
    assert {each["code"] for each in listed["rules"]} >= {"ESP101", "ESP305"}
    assert all(
        set(each) == {"code", "name", "severity", "category", "is_fixable", "summary"} for each in listed["rules"]
    )
    (rule,) = json.loads(esper("--explain", "item-in-training-loop", *option).stdout)["rules"]
    assert (rule["code"], rule["severity"], rule["is_fixable"]) == ("ESP305", "warning", False)
    assert rule["page"] == esper("--explain", "ESP305").stdout
    assert set(rule) == {*listed["rules"][0], "page", "bad", "good"}
    assert all(isinstance(source, str) for side in ("bad", "good") for source in rule[side].values())
    page = (Path(__file__).parents[2] / "docs/review.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in rule)


def test_the_code_of_a_rule_is_explained_with_a_hint_to_the_command_that_does_it(esper):
    page = esper("--explain", "ESP305")
    assert page.stdout == command("rule", "ESP305", cwd=Path()).stdout
    assert "use `esper rule ESP305`" in page.stderr


def test_the_findings_at_a_line_are_explained_with_their_context_and_the_page_of_the_rule(esper, train):
    done = esper("--explain", f"{train}:5")
    assert done.returncode == 0
    assert ">      5 |     losses.append(loss)" in done.stdout
    assert "       2 |     loss = criterion(model(x), y)" in done.stdout
    assert "train.py:5:5: warning ESP301 loss-kept-with-graph" in done.stdout
    assert "# ESP301 loss-kept-with-graph" in done.stdout
    assert "ESP101" not in done.stdout
    assert esper("--explain", f"{train}:5:5").stdout == done.stdout
    found = json.loads(esper("--explain", f"{train}:5", "--json").stdout)
    assert ([each["rule"] for each in found["diagnostics"]], list(found["pages"])) == (["ESP301"], ["ESP301"])


def test_a_suppressed_finding_is_explained_with_its_reason(esper, tmp_path):
    (tmp_path / "train.py").write_text(LOOP.replace("(loss)", "(loss)  # esper: ignore[ESP301] 3 steps only"))
    shown = esper("--explain", "train.py:5").stdout
    assert "suppressed 3 steps only" in shown
    assert "# ESP301 loss-kept-with-graph" in shown


@pytest.mark.parametrize(
    ("place", "problem", "remedy"),
    [
        ("train.py:6", "no finding at train.py:6", "lines with findings: 3, 5"),
        ("train.py:99", "'train.py' has no line 99", "name a line from 1 to 6"),
        ("gone.py:1", "no such file or folder: 'gone.py'", "correct the path"),
    ],
)
def test_a_line_without_a_finding_is_refused_with_the_lines_that_have_one(esper, tmp_path, place, problem, remedy):
    (tmp_path / "train.py").write_text(f"{LOOP}# end\n")
    done = esper("--explain", place)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert f"fix: {remedy}" in done.stderr


def test_a_line_without_a_finding_is_explained_by_its_values_and_events(esper, train):
    shown = " ".join(esper("--explain", f"{train}:2").stdout.split())
    assert "value loss: unknown criterion(), data with a graph through 'criterion' at line 2" in shown
    assert "event forward 'model'; mode unknown; gradients on; in loops over data at line 1" in shown
    found = json.loads(esper("--explain", f"{train}:4", "--json").stdout)
    assert (found["diagnostics"], found["note"]) == ([], "")
    assert [each.partition(";")[0] for each in found["events"]] == ["step 'optimizer.step'"]


def test_the_project_of_a_review_can_be_named(esper, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(LOOP)
    assert "one/train.py:3:5" in esper("--project", ".", "one").stdout
    done = command("review", "--project", "../two", "train.py", cwd=tmp_path / "one")
    assert (done.returncode, "path outside the project" in done.stderr) == (2, True)
    assert "add --fix" in esper("--dry-run", "one").stderr


def test_rules_have_no_form_for_findings(esper):
    for option in (("--list-rules",), ("--explain", "ESP101")):
        done = esper(*option, "--format", "sarif")
        assert (done.returncode, done.stdout) == (2, "")
        assert "fix: use --format text or --format json" in done.stderr


def test_the_place_that_is_meant_is_marked(esper, train):
    lines = esper(train).stdout.splitlines()
    shown = lines.index("       3 |     loss.backward()")
    assert lines[shown + 1] == "         |     ^^^^^^^^^^^^^^^"


@pytest.fixture
def repository(tmp_path, git, train):
    """Return a function that puts the folder under git as it is."""

    def commit():
        git(tmp_path, "init", "-q", "-b", "main", "--template=")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", "as it was")
        return tmp_path

    return commit


def test_a_change_is_judged_by_what_it_brings(esper, repository, git):
    root = repository()
    assert esper("--diff", "HEAD").returncode == 0
    (root / "train.py").write_text("import os\n\n" + LOOP)
    assert esper("--diff", "HEAD", "--fail-on", "suggestion").returncode == 0
    (root / "new.py").write_text('import torch\n\nstate = torch.load("a", weights_only=False)\n')
    done = esper("--diff", "HEAD", "--fail-on", "warning")
    assert done.returncode == 3
    assert "ESP901" in done.stdout
    assert "ESP101" not in done.stdout
    assert "2 existed before the change" in " ".join(done.stdout.split())
    assert esper("--staged", "--fail-on", "warning").returncode == 0
    git(root, "add", "-A")
    assert esper("--staged", "--fail-on", "warning").returncode == 3


def test_a_change_without_its_companion_is_reported(esper, repository):
    root = repository()
    skill = root / ".esper/skills/docs/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: docs\ndescription: d\ncompanions:\n"
        '  - {when: "*.py", then: README.md, why: "say [bold]what[/] changed \\e[2J"}\n---\nText.\n'
    )
    (root / "train.py").write_text(LOOP + "x = 1\n")
    done = esper("--diff", "HEAD", "--fail-on", "warning")
    assert done.returncode == 3
    assert "train.py:1:1: warning ESP701" in done.stdout
    assert "say [bold]what[/] changed" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout
    (root / "README.md").write_text("text\n")
    assert esper("--diff", "HEAD", "--fail-on", "warning").returncode == 0


def test_a_baseline_leaves_out_what_it_lists_and_names_what_is_gone(esper, train, tmp_path):
    assert esper(train, "--write-baseline", "known.json").returncode == 0
    assert (tmp_path / "known.json").read_text().count('"fingerprint"') == 2
    done = esper(train, "--baseline", "known.json", "--fail-on", "suggestion")
    assert done.returncode == 0
    assert "2 in the baseline" in " ".join(done.stdout.split())
    (tmp_path / train).write_text(LOOP.replace("    losses.append(loss)\n", ""))
    done = esper(train, "--baseline", "known.json")
    assert done.returncode == 0
    assert "stale" in done.stdout


def test_fixes_are_shown_without_being_made_and_made_when_asked(esper, tmp_path, git):
    file = tmp_path / "train.py"
    file.write_bytes(b"optimizer.zero_grad(set_to_none=False)\r\nx = 1")
    done = esper("train.py", "--fix", "--dry-run")
    assert "+optimizer.zero_grad()" in done.stdout
    assert file.read_bytes().startswith(b"optimizer.zero_grad(set")
    esper("train.py", "--diff-only", "--output", "fix.patch")
    git(tmp_path, "init", "-q", "--template=")
    git(tmp_path, "apply", "fix.patch")
    assert file.read_bytes() == b"optimizer.zero_grad()\r\nx = 1"
    file.write_bytes(b"optimizer.zero_grad(set_to_none=False)\r\nx = 1")
    done = esper("train.py", "--fix", "--fail-on", "suggestion")
    assert done.returncode == 0
    assert "mended" in done.stdout
    assert file.read_bytes() == b"optimizer.zero_grad()\r\nx = 1"


def test_sarif_and_annotations_are_written_where_asked(esper, train, tmp_path):
    done = esper(train, "--format", "sarif", "--output", "review.sarif", "--fail-on", "never")
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((tmp_path / "review.sarif").read_text())["version"] == "2.1.0"
    done = esper(train, "--format", "github")
    assert done.returncode == 3
    assert done.stdout.startswith("::error file=train.py,line=3,")


@pytest.mark.slow
def test_the_libraries_for_mending_are_loaded_only_to_mend(tmp_path, train):
    import os

    command = [sys.executable, "-X", "importtime", "-m", "esper_agents.cli.main", "review", train]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False)
    assert "esper_agents.review.engine" in done.stderr
    assert "libcst" not in done.stderr


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--diff", "nothing"), "not under git"),
        (("--diff", "HEAD", "--staged"), "mutually exclusive"),
        (("train.py", "--baseline", "none.json"), "baseline cannot be read"),
        (("train.py", "--write-baseline", "no/folder.json"), "baseline cannot be written"),
        (("train.py", "--diff", "HEAD", "--write-baseline", "b.json"), "whole files"),
        (("train.py", "--output", "no/folder.txt"), "cannot be written"),
        (("train.py", "--format", "xml"), "xml"),
        (("nowhere.py",), "nowhere.py"),
        (("--explain", "ESP3O5"), "no rule named 'ESP3O5'"),
        ((".",), "no Python file"),
        ((), "no path was named"),
    ],
)
def test_wrong_usage_is_two_lines_and_exit_code_2(esper, tmp_path, arguments, problem):
    if "train.py" in arguments:
        (tmp_path / "train.py").write_text(LOOP)
    done = esper(*arguments)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "  fix: " in done.stderr
    assert "Traceback" not in done.stderr
