"""How often a server is asked again, how long is waited before, and what that is told as."""

from __future__ import annotations

import pytest

from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.errors import ModelBusyError, ModelError
from esper_agents.reasoning.models import Usage, load_models
from esper_agents.reasoning.retry_budget import MOST_RETRIES, RetryBudget, TransientError

pytestmark = pytest.mark.anyio


@pytest.fixture
def waited(monkeypatch):
    """Return the seconds that are waited, which nobody waits."""
    seconds = []

    async def sleep(wait_s):
        seconds.append(wait_s)

    monkeypatch.setattr("esper_agents.reasoning.retry_budget.asyncio.sleep", sleep)
    return seconds


def trouble(wait_s=None, kind=ModelBusyError):
    return TransientError(kind("host is busy", remedy="later"), wait_s)


async def test_each_wait_is_about_twice_the_last_and_told_as_a_notice(waited):
    tries, heard = RetryBudget(), []
    for _ in range(MOST_RETRIES):
        await tries.wait(trouble(), heard.append)
    assert all(0.75 * most <= each <= most for each, most in zip(waited, (0.5, 1, 2, 4), strict=True))
    assert heard[3] == f"host is busy; it is asked again in {waited[3]:.1f} s (4 of 4)"
    assert all(isinstance(each, ProgramNotice) for each in heard)


@pytest.mark.parametrize("kind", [ModelBusyError, ModelError])
async def test_after_the_last_one_the_trouble_is_what_it_was(waited, kind):
    with pytest.raises(kind, match=r"host is busy \(asked 5 times\)") as raised:
        await RetryBudget(left=0).wait(trouble(kind=kind), lambda _: None)
    assert type(raised.value) is kind
    assert not waited


async def test_the_servers_own_wait_holds_within_reason(waited):
    await RetryBudget().wait(trouble(wait_s=70), lambda _: None)
    assert waited == [70]
    with pytest.raises(ModelBusyError, match=r"host is busy \(for the next 121 s"):
        await RetryBudget().wait(trouble(wait_s=121), lambda _: None)
    assert waited == [70]


def test_what_answers_use_is_added_up_at_the_price_of_who_gave_them():
    opus, haiku = (load_models().resolve(each) for each in ("opus", "haiku"))
    tries = RetryBudget(opus)
    tries.count(Usage(fresh=10, output=5))
    tries.model = haiku
    tries.count(Usage(written=7, cached=3))
    assert tries.usage == Usage(10, 7, 3, 5)
    assert tries.money == opus.cost(Usage(fresh=10, output=5)) + haiku.cost(Usage(written=7, cached=3))
