"""Settings for models: what a user states, and what a project may only tighten."""

from __future__ import annotations

from decimal import Decimal

import pytest

from esper_agents.errors import DefinitionError
from esper_agents.orchestration.model_settings import persons_models, projects_limits, tightened
from esper_agents.orchestration.settings import load_settings
from esper_agents.reasoning.model_activity import ActivitySettings, ModelActivity, ReasoningEffort, ThinkingMode
from esper_agents.reasoning.models import ModelOverride

REASON = ModelActivity.REASON


def reason(text):
    return f"[models.activity.reason]\n{text}\n"


def test_a_user_states_activities_and_models():
    text = reason('thinking = "enabled"\neffort = "max"\nthinking_tokens = 8_000\nanswer_tokens = 4_000')
    found = persons_models(text + '[[model]]\nname = "local-7b"\ninput = 0.1\noutput = "0.4"\nwindow = 32_000\n', "f")
    assert found.activities == {REASON: ActivitySettings(ThinkingMode.ENABLED, ReasoningEffort.MAX, 8_000, 4_000)}
    assert found.models == (ModelOverride("local-7b", Decimal("0.1"), Decimal("0.4"), window=32_000),)
    assert found.roles == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (reason('thinking = "much"'), ":2: thinking must be one of 4 values"),
        (reason("effort = 3"), ":2: effort must be one of 5 values"),
        (reason("thinking_tokens = 1_000"), ":2: thinking_tokens must be a number of tokens from 1,024"),
        (reason("answer_tokens = true"), ":2: answer_tokens must be a number"),
        (reason("answer_tokens = -1"), ":2: answer_tokens must be a number"),
        (reason("budget = 1"), ":2: unknown member 'budget' of an activity"),
        ("[models.activity.sleep]\n", "unknown activity 'sleep'"),
        ("[models]\nactivity = 1\n", ":2: activity must be a table"),
        ("[models.activity]\nreason = 1\n", "unknown activity 'reason'"),
        ("[model]\n", ":1: models must be tables"),
        ("[[model]]\nwindow = 32_000\n", "a model needs its full name"),
        ('[[model]]\nname = "a b"\n', ":2: a model needs its full name"),
        ('[[model]]\nname = "a"\nwindow = 10\n', ":3: window must be a number of tokens from 16,000"),
        ('[[model]]\nname = "a"\ninput = -1\n', ":3: input must be US dollars"),
        ('[[model]]\nname = "a"\ninput = nan\n', ":3: input must be US dollars"),
        ('[[model]]\nname = "a"\ninput = "x"\n', ":3: input must be US dollars"),
        ('[[model]]\nname = "a"\ncolour = 1\n', ":3: unknown member 'colour' of a model"),
        ('[[model]]\nname = "a"\nwindow = 20_000\nmost_output = 20_000\n', "most_output of 'a' exceeds its window"),
    ],
)
def test_what_is_not_valid_is_refused_with_its_line(text, problem):
    with pytest.raises(DefinitionError) as error:
        persons_models(text, "config.toml")
    assert problem in error.value.problem
    assert "\n" not in error.value.problem + error.value.remedy


def test_a_project_lowers_limits_and_raises_none():
    own = {REASON: ActivitySettings(ThinkingMode.ADAPTIVE, ReasoningEffort.MEDIUM, 8_000, 8_000)}
    more = {REASON: ActivitySettings(ThinkingMode.ENABLED, ReasoningEffort.MAX, 9_000, 9_000)}
    less = {REASON: ActivitySettings(ThinkingMode.DISABLED, ReasoningEffort.LOW, 2_000, 2_000)}
    assert tightened(own, more) == own
    assert tightened(own, less) == less
    # Also where the user states nothing: the server's usual effort and the usual limits apply.
    assert tightened({}, {REASON: ActivitySettings(None, ReasoningEffort.XHIGH, 90_000, 90_000)}) == {
        REASON: ActivitySettings()
    }
    assert tightened({}, less) == less


def test_a_project_neither_chooses_models_nor_states_prices(tmp_path):
    with pytest.raises(DefinitionError, match=":2: a project cannot choose models: 'opus'"):
        projects_limits('[models]\nopus = "claude-fable-5-1"\n', "config.toml")
    (tmp_path / "toy/.esper").mkdir(parents=True)
    (tmp_path / "toy/.esper/config.toml").write_text('[[model]]\nname = "claude-opus-5-5"\ninput = 0\n')
    with pytest.raises(DefinitionError, match="unknown setting 'model'"):
        load_settings(tmp_path, tmp_path / "toy")


def test_both_files_together_make_the_settings(tmp_path):
    (tmp_path / "config.toml").write_text(reason("answer_tokens = 9_000"))
    (tmp_path / "config.toml").chmod(0o600)
    (tmp_path / "toy/.esper").mkdir(parents=True)
    (tmp_path / "toy/.esper/config.toml").write_text(reason('answer_tokens = 3_000\neffort = "low"'))
    found = load_settings(tmp_path, tmp_path / "toy").models
    assert found.activities == {REASON: ActivitySettings(None, ReasoningEffort.LOW, None, 3_000)}
