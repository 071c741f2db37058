"""What the settings of an activity send, and how much a model may answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from modelling import ask, conclude, served

from esper_agents.paths import home
from esper_agents.reasoning.model_activity import ActivitySettings, ReasoningEffort, ThinkingMode
from esper_agents.reasoning.models import load_models
from esper_agents.testing.script import ToolUseBlock

SONNET = load_models().resolve("sonnet")
SETTINGS = """
[models]
inherit = "claude-sonnet-5-5"
[models.activity.reason]
thinking = "adaptive"
effort = "xhigh"
thinking_tokens = 5_000
answer_tokens = 3_000
[models.activity.consult]
thinking = "disabled"
effort = "low"
answer_tokens = 2_500
"""


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (ActivitySettings(), 32_000),
        (ActivitySettings(answer_tokens=4_000), 20_000),
        (ActivitySettings(thinking_tokens=2_000, answer_tokens=4_000), 6_000),
        (ActivitySettings(ThinkingMode.DISABLED), 16_000),
        (ActivitySettings(ThinkingMode.DISABLED, thinking_tokens=9_000, answer_tokens=4_000), 4_000),
        (ActivitySettings(thinking_tokens=900_000), 128_000),
    ],
)
def test_the_output_limit_is_the_sum_of_both_within_that_of_the_model(settings, most):
    assert settings.most_output(SONNET) == most
    assert settings.most_output(replace(SONNET, most_output=2_000)) == 2_000


@pytest.mark.parametrize(
    ("settings", "most", "sent"),
    [
        (ActivitySettings(), 9_000, {}),
        (ActivitySettings(ThinkingMode.BETWEEN_TOOLS), 9_000, {"thinking": {"type": "between_tools"}}),
        (ActivitySettings(effort=ReasoningEffort.LOW), 9_000, {"output_config": {"effort": "low"}}),
        (
            ActivitySettings(ThinkingMode.ENABLED, thinking_tokens=3_000),
            9_000,
            {"thinking": {"type": "enabled", "budget_tokens": 3_000}},
        ),
        # A budget of the session leaves less for both.
        (ActivitySettings(ThinkingMode.ENABLED), 4_000, {"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
        (ActivitySettings(ThinkingMode.ENABLED), 2_000, {"thinking": {"type": "disabled"}}),
    ],
)
def test_only_what_is_set_is_sent(settings, most, sent):
    assert settings.members(most) == sent


def by_user(text):
    home().mkdir(parents=True, exist_ok=True)
    (home() / "config.toml").write_text(text)
    (home() / "config.toml").chmod(0o600)


@pytest.mark.anyio
async def test_the_agent_of_the_task_and_a_consulted_one_have_settings_of_their_own(toybox, monkeypatch):
    by_user(SETTINGS)
    for name in ("worker", "other"):
        toybox.agent(name)

    def script(request):
        is_other = "You are other" in str(request.body["system"])
        is_first = len(request.body["messages"]) == 1
        return conclude() if is_other or not is_first else ToolUseBlock("consult", {"agent": "other", "question": "?"})

    with served(script, monkeypatch) as server:
        made = await ask(toybox, server)
    assert made.certificate is not None
    reason, consult = (each.body for each in server.requests[:2])
    assert (reason["thinking"], reason["output_config"]) == ({"type": "adaptive"}, {"effort": "xhigh"})
    assert reason["max_tokens"] == 8_000
    assert (consult["thinking"], consult["output_config"]) == ({"type": "disabled"}, {"effort": "low"})
    assert consult["max_tokens"] == 2_500


@pytest.mark.anyio
async def test_an_answer_fits_the_window_of_a_small_model(toybox, monkeypatch):
    stated = '[[model]]\nname = "claude-haiku-4-5"\nwindow = 16_000\nmost_output = 15_000\n'
    by_user(f'[models]\ninherit = "claude-haiku-4-5"\n{stated}')
    toybox.agent("worker")
    with served([conclude()], monkeypatch) as server:
        await ask(toybox, server)
    (request,) = server.requests
    assert request.usage.written + request.usage.uncached + request.body["max_tokens"] <= 16_000
    assert request.body["model"] == "claude-haiku-4-5"
