"""`esper dev new`: every skeleton is written once, and its test passes, here and in a package of one's own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from esper_agents.api import Category, ExtensionKind, lint_rules, new_extension
from esper_agents.errors import InputFileError, UsageError

ROOT = Path(__file__).parents[2]
NAME = "tried-out-thing"
# A measurement needs its descriptor, and belongs to this repository.
KINDS = [each for each in ExtensionKind if each is not ExtensionKind.MEASUREMENT]
EACH = pytest.mark.parametrize("kind", KINDS)
HAS_DESCRIPTORS = (ROOT / "esper_agents/torchlab/measurement.py").exists()
WHERE = {
    "rule": ("esper_agents/review/rules/tried_out_thing.py", "tests/review/test_tried_out_thing.py"),
    "tool": ("esper_agents/tools/tried_out_thing.py", "tests/tools/test_tried_out_thing.py"),
    "playbook": (
        "esper_agents/reasoning/playbooks/tried_out_thing.py",
        "tests/reasoning/playbooks/test_tried_out_thing.py",
    ),
    "agent": ("prompts/agents/tried-out-thing.md", "tests/agents/test_tried_out_thing_agent.py"),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of the parts of the repository that extensions need."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("esper_agents", "prompts"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("certificates", "memory", "alembic"):
        (root / name).symlink_to(ROOT / name)
    return root


@pytest.fixture
def own_package(tmp_path):
    """Return a project with one Python package."""
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds/__init__.py").write_text("")
    return tmp_path


def run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder), "ESPER_HOME": str(folder / "home"), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def esper(folder, *words):
    return run(folder, "-m", "esper_agents.cli.main", *words)


def test_result(folder, command):
    python, *words = shlex.split(command)
    assert python == "python"
    return run(folder, *words, "-q", "-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider")


test_result.__test__ = False


@pytest.mark.sample(1)
@EACH
def test_in_a_checkout_the_files_go_next_to_the_others_and_the_test_passes(checkout, kind):
    made = json.loads(esper(checkout, "dev", "new", kind, NAME, "--json").stdout)
    assert (tuple(made["files"]), made["entry_point"]) == (WHERE[kind], "")
    assert "FILL" in (checkout / made["files"][0]).read_text()
    ran = test_result(checkout, made["test_command"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    again = esper(checkout, "dev", "new", kind, NAME)
    assert (again.returncode, "exists already" in again.stderr) == (2, True)


@pytest.mark.slow
@EACH
def test_in_a_package_of_ones_own_the_test_passes_and_the_entry_point_names_what_was_written(own_package, kind):
    made = new_extension(kind, NAME, project=own_package)
    ran = test_result(own_package, made.test_command)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    if kind is ExtensionKind.AGENT:
        assert (made.files[0], made.entry_point) == (Path(f".esper/agents/{NAME}.md"), "")
        return
    ((group, points),) = tomllib.loads(made.entry_point)["project"]["entry-points"].items()
    assert group == f"esper_agents.{kind}s"
    module, _, name = points[NAME].partition(":")
    code = f"import {module} as m; print({f'm.{name}' if name else 'm'})"
    assert run(own_package, "-c", code).returncode == 0
    assert "esper_agents.api" in (own_package / made.files[0]).read_text()


@pytest.mark.slow
def test_a_measurement_is_written_with_its_job_and_its_test(checkout):
    made = json.loads(esper(checkout, "dev", "new", "measurement", "call-spread", "--json").stdout)
    assert made["files"] == [
        "esper_agents/torchlab/measurements/call_spread.py",
        "esper_agents/torchlab/worker/call_spread/__init__.py",
        "esper_agents/torchlab/worker/call_spread/job.py",
        "esper_agents/torchlab/worker/call_spread/result.py",
        "tests/torchlab/measurements/test_call_spread.py",
    ]
    if not HAS_DESCRIPTORS:
        return
    ran = test_result(checkout, made["test_command"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (checkout / "model.py").write_text("def make_model():\n    return lambda: sum(range(1000))\n")
    measured = esper(checkout, "torch", "call-spread", "model.py:make_model", "--calls", "3", "--output", "out")
    assert (measured.returncode, "a call takes" in measured.stdout) == (0, True), measured.stdout + measured.stderr
    verified = esper(checkout, "torch", "verify", "out/report.json")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_descriptor_of_a_written_measurement_fits_the_functions_that_were_written(checkout):
    if not (checkout / "esper_agents/torchlab/measurements/pass_spread.py").exists():
        new_extension(ExtensionKind.MEASUREMENT, "pass-spread", project=checkout)
    code = """
from esper_agents.torchlab.measurement import measurement, subject_of
made, subject = measurement("pass_spread"), subject_of({"target": {"file": "model.py", "line": 1}})
for call_ns in (10, 10, 11), (10, 10, 90):
    result = made.explained(made.measured(call_ns=call_ns), subject)
    shown = [label for section in made.sections(result, subject) for label, _ in section.pairs]
    print(*shown, len(list(made.claims(result, subject))), made.outline("f", result).facts, made.is_against(result))
print(made.command, made.fail_on)
"""
    ran = run(checkout, "-c", code)
    assert ran.stdout.splitlines() == [
        "steady 0 {'status': 'steady'} False",
        "unsteady 1 {'status': 'unsteady'} True",
        "pass-spread unsteady",
    ], ran.stderr


@pytest.mark.parametrize("name", ["nan", "timing", "loop", "environment", "verify"])
def test_a_measurement_named_like_a_job_or_a_command_is_refused(checkout, name):
    with pytest.raises(UsageError, match="exists already"):
        new_extension(ExtensionKind.MEASUREMENT, name, project=checkout)
    assert not (checkout / f"tests/torchlab/measurements/test_{name}.py").exists()


@pytest.mark.parametrize(("category", "code"), [("performance", "ESP4"), ("correctness", "ESP1"), ("security", "ESP9")])
def test_a_rule_has_a_free_code_of_its_category(own_package, category, code):
    made = new_extension(ExtensionKind.RULE, NAME, category=Category(category), project=own_package)
    text = (own_package / made.files[0]).read_text()
    assert f"Category.{Category(category).name}\n" in text
    (found,) = set(re.findall(r"ESP\d{3}", text))
    assert found.startswith(code)
    assert found not in {rule.code for rule in lint_rules()}


def test_only_a_rule_has_a_category(own_package):
    refused = esper(own_package, "dev", "new", "tool", NAME, "--category", "memory")
    assert (refused.returncode, "a tool has no category" in refused.stderr) == (2, True)


def test_the_steps_that_remain_are_printed_in_a_checkout_alone(checkout, own_package):
    printed = esper(checkout, "dev", "new", "tool", "another-thing").stdout
    assert "then       add a row to docs/tools.md\n" in printed
    assert "then       write changes/+another-thing.added.md: what users can do now, in one sentence\n" in printed
    assert new_extension(ExtensionKind.TOOL, NAME, project=own_package).steps == ()


def test_a_measurement_outside_of_a_checkout_is_refused(own_package):
    with pytest.raises(UsageError, match="is not a checkout of esper-agents"):
        new_extension(ExtensionKind.MEASUREMENT, NAME, project=own_package)


@pytest.mark.slow
def test_the_test_of_a_rule_fails_if_the_rule_no_longer_finds_its_bad_example(own_package):
    made = new_extension(ExtensionKind.RULE, NAME, project=own_package)
    file = own_package / made.files[0]
    file.write_text(file.read_text().replace('calls_to("torch.seed")', 'calls_to("torch.sed")'))
    ran = test_result(own_package, made.test_command)
    assert (ran.returncode, "test_the_bad_example_is_reported" in ran.stdout) == (1, True)


def test_the_generated_files_keep_to_the_rules_of_the_repository(checkout):
    files = [path for kind in ("rule", "tool", "playbook") for path in WHERE[kind]]
    for kind in KINDS:
        if not (checkout / WHERE[kind][0]).exists():
            new_extension(kind, NAME, project=checkout)
    files += new_extension(ExtensionKind.MEASUREMENT, "ruff-spread", project=checkout).files
    shutil.copy(ROOT / "pyproject.toml", checkout)
    for words in (("check",), ("format", "--check")):
        ran = run(checkout, "-m", "ruff", *words, "--no-cache", *files)
        assert ran.returncode == 0, ran.stdout


def test_a_file_that_exists_is_not_replaced_and_nothing_is_written(own_package):
    (own_package / "tests").mkdir()
    (own_package / "tests/test_tried_out_thing_tool.py").write_text("mine\n")
    with pytest.raises(InputFileError, match="the file exists already"):
        new_extension(ExtensionKind.TOOL, NAME, project=own_package)
    assert (own_package / "tests/test_tried_out_thing_tool.py").read_text() == "mine\n"
    assert not (own_package / "birds/tried_out_thing.py").exists()


@pytest.mark.parametrize("name", ["", "Seeds", "two words", "../away", "a_b", "class", "-x", "9lives", "x" * 61])
def test_a_name_that_cannot_be_a_module_is_refused(own_package, name):
    with pytest.raises(UsageError, match="is not a valid name"):
        new_extension(ExtensionKind.RULE, name, project=own_package)


@pytest.mark.parametrize(
    ("kind", "name"), [("rule", "graph-break"), ("tool", "read-file"), ("agent", "pytorch-expert")]
)
def test_a_name_that_another_extension_has_is_refused(own_package, kind, name):
    with pytest.raises(UsageError, match="exists already"):
        new_extension(ExtensionKind(kind), name, project=own_package)


def test_the_package_is_named_if_it_is_not_the_only_one(own_package):
    (own_package / "fish").mkdir()
    (own_package / "fish/__init__.py").write_text("")
    refused = esper(own_package, "dev", "new", "tool", NAME)
    assert (refused.returncode, "--package my_package" in refused.stderr) == (2, True)
    done = esper(own_package, "dev", "new", "tool", NAME, "--package", "fish")
    assert "wrote      fish/tried_out_thing.py" in done.stdout
    assert 'tried-out-thing = "fish.tried_out_thing:tried_out_thing"' in done.stdout
    assert "next       python -m pytest tests/test_tried_out_thing_tool.py" in done.stdout
    outside = esper(own_package, "dev", "new", "tool", "other", "--package", "..")
    assert (outside.returncode, "is not a Python package" in outside.stderr) == (2, True)
