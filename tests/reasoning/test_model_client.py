"""One exchange with a server that speaks the Messages API: who is asked, what comes back, what is made of trouble."""

from __future__ import annotations

import json
import sys

import pytest

from esper_agents.domain.program_notice import ProgramNotice
from esper_agents.errors import ModelBusyError, ModelError, OverloadedError, UsageError
from esper_agents.reasoning.model_client import ModelServer, server_of
from esper_agents.reasoning.model_errors import TooLongError
from esper_agents.reasoning.models import Usage, load_models
from esper_agents.reasoning.retry_budget import MOST_RETRIES, RetryBudget
from esper_agents.testing.http_server import LoopbackServer, Response
from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import Fail, Hang, RawBytes, Say, Stop, Think, ToolUseBlock, TruncateResponse

pytestmark = pytest.mark.anyio
REQUEST = json.dumps(
    {
        "model": "claude-opus-5-5",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "is it right?"}],
        "stream": True,
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    }
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("esper_agents.reasoning.retry_budget._FIRST_WAIT_S", 0.001)


async def ask(script, monkeypatch, *, request=REQUEST, heard=None, key=None, given="test", silence_s=5.0):
    """Ask a scripted server; return its reply and the requests that it got."""
    with MessagesServer(script, key=key) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", given)
        model = ModelServer(silence_s=silence_s)
        try:
            return await model.ask(request, (heard if heard is not None else []).append), server.requests
        finally:
            await model.close()


async def refused(script, monkeypatch, error=ModelError, **options):
    """Ask a server in trouble; return what is said of it, and how often it was asked."""
    count = []

    def counted(request):
        count.append(request)
        return script

    with pytest.raises(error) as raised:
        await ask(counted, monkeypatch, **options)
    assert type(raised.value) is error
    assert raised.value.remedy
    assert "\n" not in raised.value.problem + raised.value.remedy
    return raised.value.problem, len(count)


async def test_an_answer_comes_back_whole_with_its_usage_and_its_words_are_told_as_they_come(monkeypatch):
    heard = []
    script = [[Think("hm"), Say("I look."), ToolUseBlock("look", {"text": "a"})]]
    reply, requests = await ask(script, monkeypatch, heard=heard)
    assert [each["type"] for each in reply.content] == ["thinking", "text", "tool_use"]
    assert reply.content[0]["signature"]
    assert reply.content[2]["input"] == {"text": "a"}
    assert (reply.stop, reply.model) == ("tool_use", "claude-opus-5-5")
    assert "".join(heard) == "I look."
    billed = requests[0].usage
    assert reply.usage == Usage(billed.uncached, billed.written, billed.read, reply.usage.output)
    assert reply.usage.output > 0
    assert requests[0].is_streamed


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "pause_turn", "refusal", "model_context_window_exceeded"])
async def test_whatever_it_stops_for_is_told(monkeypatch, reason):
    reply, _ = await ask([[Say("so"), Stop(reason)]], monkeypatch)
    assert reply.stop == reason


@pytest.mark.parametrize(
    "trouble",
    [Fail(529), Fail(429, retry_after_s=0), Fail(500), TruncateResponse(0), [Say("I be"), TruncateResponse(500)]],
)
async def test_trouble_that_passes_is_not_noticed(monkeypatch, trouble):
    reply, requests = await ask([trouble, Say("fine")], monkeypatch)
    assert reply.content[0]["text"] == "fine"
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (Fail(429), OverloadedError),
        (Fail(529), OverloadedError),
        (Fail(503), OverloadedError),
        (TruncateResponse(0), ModelBusyError),
    ],
)
async def test_trouble_that_stays_is_told_after_so_many_retries(monkeypatch, trouble, kind):
    _, count = await refused(trouble, monkeypatch, kind)
    assert count == MOST_RETRIES + 1


BROKEN = [Say("I begin"), TruncateResponse(500)]
MALFORMED = ToolUseBlock("look", "{,")
OVERLOADED_LATE = [Say("I begin"), Fail(529)]


@pytest.mark.parametrize(
    ("troubles", "words"),
    [
        ([BROKEN], "ended its answer early"),
        ([OVERLOADED_LATE], "is overloaded: Overloaded"),
        ([Fail(500), BROKEN], "is overloaded"),
        ([BROKEN, Fail(529), TruncateResponse(0)], "is overloaded"),
        ([Fail(429, retry_after_s=0.01), BROKEN], "is overloaded"),
    ],
)
async def test_whatever_goes_wrong_a_request_is_made_five_times_at_most(monkeypatch, troubles, words):
    made = []

    def script(request):
        made.append(request)
        return troubles[(len(made) - 1) % len(troubles)]

    with pytest.raises(ModelBusyError) as raised:
        await ask(script, monkeypatch)
    assert words in raised.value.problem
    assert raised.value.problem.endswith("(asked 5 times)")
    assert len(made) == MOST_RETRIES + 1 == 5


async def test_a_call_whose_arguments_are_not_json_comes_back_with_what_is_wrong_and_without_them(monkeypatch):
    reply, requests = await ask([[MALFORMED, ToolUseBlock("look", {"text": "a"})]], monkeypatch)
    broken, whole = reply.content
    assert (broken["input"], whole["input"]) == ({}, {"text": "a"})
    assert list(reply.faults) == [broken["id"]]
    assert "not valid JSON" in reply.faults[broken["id"]]
    assert len(requests) == 1


async def test_several_requests_of_one_move_share_their_tries(monkeypatch):
    tries, made = RetryBudget(), []

    def script(request):
        made.append(request)
        return Say("fine") if len(made) == 4 else Fail(529)

    with MessagesServer(script) as server:
        model = ModelServer(silence_s=5.0, address=server.url, key="test")
        await model.ask(REQUEST, lambda _: None, tries)
        with pytest.raises(ModelBusyError):
            await model.ask(REQUEST, lambda _: None, tries)
        await model.close()
    assert len(made) == 4 + 2


async def test_who_watches_is_told_of_each_wait_in_a_line_that_no_model_wrote(monkeypatch):
    heard = []
    await ask([BROKEN, Fail(429, retry_after_s=0.04), Say("fine")], monkeypatch, heard=heard)
    first, second = (each for each in heard if isinstance(each, ProgramNotice))
    assert first.endswith("ended its answer early; it is asked again in 0.0 s (1 of 4)")
    assert "rate limit" in second
    assert second.endswith("it is asked again in 0.0 s (2 of 4)")
    assert [each for each in heard if not isinstance(each, ProgramNotice)][-1] == "fine"


async def test_what_answers_used_that_came_to_nothing_is_counted(monkeypatch):
    tries = RetryBudget(load_models().resolve("opus"))
    with MessagesServer([BROKEN, BROKEN, Fail(500), Say("fine")]) as server:
        model = ModelServer(silence_s=5.0, address=server.url, key="test")
        reply = await model.ask(REQUEST, lambda _: None, tries)
        await model.close()
    prompts = [request.usage.total for request in server.requests if request.usage.total]
    assert len(prompts) == 4
    counted = tries.usage.tokens - tries.usage.output
    assert counted == sum(prompts[each] for each in (0, 1, 3))
    assert tries.usage.output > reply.usage.output
    assert tries.money > load_models().resolve("opus").cost(reply.usage)


# Before any work is begun.


async def greeted(server, key="test", model="claude-opus-5-5"):
    greeting = ModelServer(silence_s=5.0, address=server, key=key)
    try:
        await greeting.greet(model)
    finally:
        await greeting.close()


async def test_a_greeting_sends_nothing_of_a_project_and_asks_for_no_answer():
    with MessagesServer([]) as server:
        await greeted(server.url)
    assert not server.requests
    (asked,) = server.counted
    assert asked.body == {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "?"}]}


async def test_a_wrong_key_is_told_at_the_greeting_without_being_shown():
    with MessagesServer([], key="right") as server, pytest.raises(UsageError, match="rejects the API key") as raised:
        await greeted(server.url, "wrong-key")
    assert "--reasoner playbook" in raised.value.remedy
    assert "resume" not in raised.value.remedy
    assert "wrong-key" not in raised.value.problem


async def test_a_model_that_the_server_does_not_know_is_told_at_the_greeting():
    with MessagesServer([]) as server, pytest.raises(UsageError, match="does not have model 'claude-nonesuch'"):
        await greeted(server.url, model="claude-nonesuch")


async def test_where_nobody_listens_is_told_at_the_greeting_at_once():
    with pytest.raises(ModelBusyError, match="cannot be reached") as raised:
        await greeted("http://127.0.0.1:9")
    assert "ANTHROPIC_BASE_URL" in raised.value.remedy
    assert "--reasoner playbook" in raised.value.remedy


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "response",
    [
        Response(404, (), (b"not here",)),
        Response(405, (), (b"{}",)),
        Response(500, (), (b"oops",)),
        Response(529, (), (b"{}",)),
        Response(200, (("content-type", "text/html"),), (b"<html>",)),
        Response(200, (("content-type", "application/json"),), (b"[1",)),
        Response(200, (), (b"{", TruncateResponse(0))),
        Response(200, (), (Hang(),)),
    ],
)
async def test_a_server_that_knows_no_greeting_is_left_in_peace(monkeypatch, response):
    monkeypatch.setattr("esper_agents.reasoning.model_client._GREETING_S", 0.1)
    asked = []

    def respond(received):
        asked.append(received.path)
        return response

    server = LoopbackServer(respond)
    server.start()
    try:
        await greeted(server.url)
    finally:
        server.stop()
    assert len(asked) == 1


async def test_bedrock_is_not_greeted():
    server = ModelServer("bedrock")
    await server.greet("claude-opus-5-5")
    assert "client" not in vars(server)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("fail", "error", "words"),
    [
        (Fail(401), UsageError, "rejects the API key"),
        (Fail(403), UsageError, "rejects the API key"),
        (Fail(404), ModelError, "does not have this model or address"),
        (Fail(400, "temperature: not known"), ModelError, "temperature: not known"),
        (Fail(400, "prompt is too long: 9 tokens > 8 maximum"), TooLongError, "too long"),
        (Fail(413), TooLongError, "too long"),
        (Fail(400, "line\nbreak \x1b[31m" + "x" * 999), ModelError, "line break ?[31mxxx"),
    ],
)
async def test_a_refusal_is_told_in_one_line_and_not_tried_again(monkeypatch, fail, error, words):
    problem, count = await refused(fail, monkeypatch, error)
    assert words in problem
    assert len(problem) < 500
    assert problem.isprintable()
    assert count == 1


async def test_a_key_that_is_not_the_servers_is_told_and_never_shown(monkeypatch):
    problem, count = await refused(Say("x"), monkeypatch, UsageError, key="right", given="wrong-key")
    assert "rejects the API key" in problem
    assert "wrong-key" not in problem
    assert count == 0


@pytest.mark.parametrize(
    "body", [b"<html>welcome</html>", b"data: {\n\n", b'event: message_start\ndata: {"type": "message_start"}\n\n', b""]
)
async def test_an_answer_that_is_no_message_is_an_error_of_the_server(monkeypatch, body):
    with pytest.raises(ModelError) as raised:
        await ask(lambda _: RawBytes(body), monkeypatch)
    assert "127.0.0.1" in raised.value.problem
    assert "\n" not in raised.value.problem


async def test_a_server_that_says_nothing_is_given_up(monkeypatch):
    await refused(Hang(), monkeypatch, ModelBusyError, silence_s=0.1)


async def test_where_nobody_listens_is_told(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    server = ModelServer(silence_s=1, address="http://127.0.0.1:9", key="test")
    with pytest.raises(ModelBusyError, match=r"127\.0\.0\.1:9 cannot be reached"):
        await server.ask(REQUEST, lambda _: None)
    await server.close()


async def test_without_a_key_nobody_is_asked():
    with pytest.raises(UsageError, match="no API key") as raised:
        await ModelServer().ask(REQUEST, lambda _: None)
    assert "ANTHROPIC_API_KEY" in raised.value.remedy
    assert "--reasoner playbook" in raised.value.remedy


async def test_an_address_and_a_key_of_its_own_come_before_the_environments(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "other")
    with MessagesServer([Say("fine")], key="own") as server:
        model = ModelServer(address=server.url, key="own")
        assert model.host == server.url.removeprefix("http://")
        assert (await model.ask(REQUEST, lambda _: None)).content[0]["text"] == "fine"
        await model.close()


async def test_closing_a_server_that_was_never_asked_makes_no_client():
    model = ModelServer()
    await model.close()
    assert "client" not in vars(model)


def test_a_key_is_not_in_what_is_printed_of_a_server():
    assert "secret" not in repr(ModelServer(key="secret"))


def test_who_is_asked_comes_from_the_environment():
    assert server_of({}) == ModelServer()
    assert server_of({"ESPER_MODEL_SERVER": "bedrock", "ESPER_MODEL_TIMEOUT": "7"}) == ModelServer("bedrock", 7.0)
    second = {"ESPER_SECOND_OPINION_BASE_URL": "http://other", "ESPER_SECOND_OPINION_API_KEY": "k"}
    assert server_of(second) == ModelServer()
    assert server_of({"ESPER_MODEL_SERVER": "vertex", **second}, second=True) == ModelServer(
        address="http://other", key="k"
    )
    assert server_of({"ESPER_MODEL_SERVER": "vertex"}, second=True) == ModelServer("vertex")


@pytest.mark.parametrize(
    "environment",
    [
        {"ESPER_MODEL_SERVER": "openai"},
        *({"ESPER_MODEL_TIMEOUT": each} for each in ("", "soon", "0", "-1", "inf", "nan")),
    ],
)
def test_an_environment_that_names_no_server_is_refused(environment):
    with pytest.raises(UsageError, match=next(iter(environment))) as raised:
        server_of(environment)
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("kind", "missing", "given"),
    [
        ("bedrock", "botocore", {"AWS_REGION": "us-east-1"}),
        ("vertex", "google.auth", {"ANTHROPIC_VERTEX_PROJECT_ID": "toy"}),
    ],
)
async def test_what_bedrock_and_vertex_need_beside_the_sdk_is_named(monkeypatch, kind, missing, given):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, missing, None)
    model = ModelServer(kind)
    assert model.host.endswith((".amazonaws.com", ".googleapis.com"))
    with pytest.raises(UsageError, match=f"cannot send requests to {kind}") as raised:
        await model.ask(REQUEST, lambda _: None)
    assert f"anthropic[{kind}]" in raised.value.remedy
    await model.close()


def test_bedrock_without_a_region_is_refused(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UsageError, match="cannot create a client for bedrock") as raised:
        _ = ModelServer("bedrock").client
    assert "AWS_REGION" in raised.value.remedy


async def test_bedrock_is_asked_at_the_address_of_the_model(monkeypatch):
    with MessagesServer([]) as server:
        place = {
            "AWS_REGION": "us-east-1",
            "AWS_BEARER_TOKEN_BEDROCK": "test",
            "ANTHROPIC_BEDROCK_BASE_URL": server.url,
        }
        for name, value in place.items():
            monkeypatch.setenv(name, value)
        model = ModelServer("bedrock")
        # The scripted server has no such address.
        with pytest.raises(ModelError, match="this model or address"):
            await model.ask(REQUEST, lambda _: None)
        assert [request.path for request in server.requests] == ["/model/claude-opus-5-5/invoke-with-response-stream"]
        await model.close()


@pytest.mark.parametrize("address", ["nonsense", "ftp://there", "http://"])
async def test_what_is_no_address_is_told(monkeypatch, address):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    with pytest.raises(UsageError, match="is not a server address") as raised:
        await ModelServer().ask(REQUEST, lambda _: None)
    assert "ANTHROPIC_BASE_URL" in raised.value.remedy


def test_a_password_in_an_address_is_not_part_of_the_host():
    assert ModelServer(address="https://ada:secret@gateway:8443/v1", key="k").host == "gateway:8443"
