from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.permission_rule import PermissionDecision, PermissionRule, RuleSource
from esper_agents.errors import DefinitionError
from esper_agents.orchestration.settings import PermissionSettings, load_settings, read_rules

FULL = """# what may run here
[[rule]]
tool = "write-*"
arguments = {path = "docs/*"}
action = "allow"
reason = "documents are harmless"

[[rule]]
tool = "run-tests"
action = "deny"
"""


@pytest.fixture
def places(tmp_path):
    home, root = tmp_path / "home", tmp_path / "toy"
    home.mkdir()
    (root / ".esper").mkdir(parents=True)
    return home, root


def project_says(places, text):
    data = text if isinstance(text, bytes) else text.encode()
    (places[1] / ".esper/config.toml").write_bytes(data)


def refused(text):
    with pytest.raises(DefinitionError) as error:
        read_rules(text, "config.toml", RuleSource.PERSON)
    assert error.value.remedy
    assert "\n" not in error.value.problem + error.value.remedy
    return error.value.problem


def test_without_files_there_are_no_rules(places):
    assert load_settings(*places) == PermissionSettings()


def test_the_rules_of_a_person_are_read(places):
    (places[0] / "config.toml").write_text(FULL)
    (places[0] / "config.toml").chmod(0o600)
    assert load_settings(*places).rules == (
        PermissionRule("write-*", PermissionDecision.ALLOW, {"path": "docs/*"}, "documents are harmless"),
        PermissionRule("run-tests", PermissionDecision.DENY),
    )


def test_what_a_project_would_allow_is_ignored_and_named_and_the_rest_holds(places):
    project_says(places, FULL)
    found = load_settings(*places)
    assert found.rules == (PermissionRule("run-tests", PermissionDecision.DENY, source=RuleSource.PROJECT),)
    assert [each.tool for each in found.ignored] == ["write-*"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rules = 1\n", "config.toml:1: unknown setting 'rules'"),
        ('\n[tool]\nname = "x"\n', "config.toml:2: unknown setting 'tool'"),
        (FULL + 'acton = "deny"\n', "config.toml:11: unknown member 'acton' in a rule"),
        (FULL + "reason = 7\n", "config.toml:11: reason must be one line of text"),
        ('[[rule]]\ntool = "x"\n', "config.toml:1: action must be one of three values"),
        ('[[rule]]\ntool = "x"\naction = "permit"\n', "config.toml:3: action must be one of three values"),
        ('[[rule]]\ntool = ["x"]\naction = "ask"\n', "config.toml:2: tool must be one line of text"),
        ('[[rule]]\ntool = ""\naction = "ask"\n', "config.toml:2: tool must be one line of text"),
        ('[[rule]]\ntool = "a\\u001bb"\naction = "ask"\n', "config.toml:2: tool must be one line of text"),
        ('[[rule]]\naction = "ask"\n', "config.toml:1: tool must be one line of text"),
        ('[[rule]]\ntool = "x"\naction = "ask"\narguments = {}\n', "config.toml:4: arguments must be a table"),
        ('[[rule]]\ntool = "x"\naction = "ask"\n[rule.arguments]\nn = 8\n', "config.toml:4: the pattern of 'n' must"),
        ("rule = 1\n", "config.toml:1: rules must be tables"),
        ("[rule]\ntool = 'x'\n", "config.toml:1: rules must be tables"),
        ("[[rule]\n", "config.toml:1: not TOML"),
        ("x = \n\n", "config.toml:1: not TOML"),
        ('[[rule]]\ntool = "x"\ntool = "y"\n', "config.toml:3: not TOML"),
        ("a=" + "[" * 5000, "config.toml:1: not TOML"),
        ("[[rule]]\ntool = 'x'\naction = 'ask'\n" * 201, "config.toml: 201 rules; the maximum is 200"),
    ],
)
def test_what_no_settings_can_say_is_refused_with_its_line(text, problem):
    assert refused(text).startswith(problem)


def test_rules_in_one_list_are_read_too():
    found = read_rules('rule = [{tool = "x", action = "ask"}]\n', "config.toml", RuleSource.PERSON)
    assert found == (PermissionRule("x", PermissionDecision.ASK),)


WORDS = ("[[rule]]", "tool", "action", '"ask"', '"*"', "arguments", "path", "é")
PIECES = [*WORDS, "\n", " = ", "{", "}", "[", "]", ".", ",", "#"]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_is_rules_or_is_refused_in_two_lines(text):
    with suppress(DefinitionError):
        assert {rule.source for rule in read_rules(text, "config.toml", RuleSource.PROJECT)} <= {RuleSource.PROJECT}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"# \xff\n", ".esper/config.toml:1: file is not UTF-8"),
        (b"#" * (2**16 + 1), ".esper/config.toml: file has more than 65536 bytes"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused(places, data, problem):
    project_says(places, data)
    with pytest.raises(DefinitionError) as error:
        load_settings(*places)
    assert error.value.problem == problem


def test_a_link_a_pipe_and_a_folder_of_a_project_are_not_read(places, tmp_path):
    target = places[1] / ".esper/config.toml"
    (tmp_path / "elsewhere.toml").write_text(FULL)
    target.symlink_to(tmp_path / "elsewhere.toml")
    for make in (lambda: None, lambda: os.mkfifo(target), target.mkdir):
        make()
        with pytest.raises(DefinitionError, match=r"\.esper/config\.toml: (file cannot be read|not a regular file)"):
            load_settings(*places)
        target.unlink() if not target.is_dir() else target.rmdir()


def test_a_file_of_a_person_that_others_can_write_is_refused(places):
    file = places[0] / "config.toml"
    file.write_text(FULL)
    file.chmod(0o666)
    with pytest.raises(DefinitionError, match="writable by other users") as error:
        load_settings(*places)
    assert error.value.remedy == f"chmod go-w '{file}'"
    file.chmod(0o644)
    assert len(load_settings(*places).rules) == 2


def persons(places, text):
    file = places[0] / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load_settings(*places)


def test_a_person_says_which_models_the_roles_mean_and_who_is_asked_instead(places):
    text = '[models]\nOpus = "claude-opus-4-8"\nmine = "us.anthropic.claude:0"\nfallback = "claude-opus-5"\n'
    found = persons(places, text + FULL)
    assert found.models.roles == {"opus": "claude-opus-4-8", "mine": "us.anthropic.claude:0"}
    assert found.models.fallback == "claude-opus-5"
    assert len(found.rules) == 2


def test_a_person_may_want_nobody_to_be_asked_instead(places):
    assert persons(places, '[models]\nfallback = ""\n').models.fallback == ""
    assert persons(places, "[models]\n").models.fallback is None


def test_a_project_has_no_say_about_models(places):
    project_says(places, '\n[models]\nopus = "claude-haiku-5-5"\n')
    with pytest.raises(DefinitionError, match=r"config\.toml:3: a project cannot choose models: 'opus'"):
        load_settings(*places)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('models = "opus"\n', ":1: models must be a table"),
        ("[[models]]\n", ":1: models must be a table"),
        ("\n[models]\nopus = 5\n", ":3: 'opus' must be the full name of a model"),
        ('[models]\nopus = ""\n', ":2: 'opus' must be the full name of a model"),
        ('[models]\nopus = "a b"\n', ":2: 'opus' must be the full name of a model"),
        ('[models]\nopus = "../../x y"\n', ":2: 'opus' must be the full name of a model"),
        ('[models]\nopus = "a\\nb"\n', ":2: 'opus' must be the full name of a model"),
        ('[models]\n"a\\nb" = 5\n', "must be the full name of a model"),
        ("[models.opus]\n", "'opus' must be the full name of a model"),
    ],
)
def test_what_names_no_model_is_refused_with_its_line(places, text, problem):
    with pytest.raises(DefinitionError) as error:
        persons(places, text)
    assert problem in error.value.problem
    assert "\n" not in error.value.problem + error.value.remedy
