"""Ask a model to word a report: one request, one answer, and its usage."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import redacted
from esper_agents.errors import ModelError, UsageError
from esper_agents.learning.model_wording import handed_in, request_for
from esper_agents.reasoning.retry_budget import RetryBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.domain.codec import JsonObject
    from esper_agents.learning.facts import Fact
    from esper_agents.reasoning.model_client import ModelReply, ModelServer
    from esper_agents.reasoning.models import Model, ModelTable
    from esper_agents.reasoning.reasoner import Say

_MOST_OUTPUT = 16_000


def wording_request(facts: Mapping[str, Fact], model: Model) -> str:
    """Return the request to word the facts, as JSON."""
    return request_for(facts, model.name, min(_MOST_OUTPUT, model.most_output))


async def asked(server: ModelServer, models: ModelTable, facts: Mapping[str, Fact], say: Say) -> JsonObject:
    """Ask a model to word the facts and return the record of its response; if it declines, ask the fallback model.

    Args:
        server: The model server.
        models: The available models.
        facts: The facts to word.
        say: Receives the model's text as it is generated.

    Returns:
        The members of `reasoner.Decision.record`, and `problem`: why the response cannot be used, or empty.
    """
    model = models.resolve("")
    tries = RetryBudget(model)
    reply: ModelReply | None = None
    try:
        reply = await server.ask(wording_request(facts, model), say, tries)
        if reply.stop == "refusal" and models.fallback not in {"", model.name}:
            tries.model = model = models.resolve(models.fallback)
            reply = await server.ask(wording_request(facts, model), say, tries)
        problem = _problem(reply)
    except (ModelError, UsageError) as error:
        problem = error.problem
    record = {
        "id": reply.id if reply else "",
        "model": reply.model if reply else model.name,
        "content": list(reply.content) if reply else [],
        "stop": reply.stop if reply else "",
        "usage": asdict(tries.usage),
        "is_priced": model.is_listed,
        "spent": {"tokens": tries.usage.tokens, "money": tries.money},
        "problem": problem,
    }
    clean: JsonObject = redacted(record).value
    return clean


def _problem(reply: ModelReply) -> str:
    """Return why a response cannot be used, or empty text."""
    match reply.stop:
        case "refusal":
            return f"{reply.model} declined"
        case "max_tokens" | "model_context_window_exceeded":
            return f"the answer of {reply.model} was truncated because it is too long"
        case _:
            return "" if handed_in(reply.content) is not None else f"{reply.model} returned no report"
