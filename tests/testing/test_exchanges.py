from __future__ import annotations

import stat

import anthropic
import httpx2
import pytest

from esper_agents.errors import UsageError
from esper_agents.testing import Fail, RawBytes, Say, Think, ToolUseBlock, TruncateResponse
from esper_agents.testing.exchanges import Replayer, digest_of, exchanges_in
from esper_agents.testing.recording import Recorder

KEY = "sk-ant-api03-" + "k" * 40
OTHER = "sk-ant-api03-" + "o" * 40
READ = {"name": "read-file", "input_schema": {"type": "object"}}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "exchanges.jsonl"


@pytest.fixture
def record(file, serve):
    """Return what records, through a scripted endpoint, what a function asks a client for."""

    def recorded(asking, *answers):
        endpoint = serve(*answers)
        with (
            Recorder(endpoint.url, file) as recorder,
            anthropic.Anthropic(base_url=recorder.url, api_key=KEY, max_retries=0) as client,
        ):
            return asking(client), endpoint

    return recorded


def replayed(file, asking):
    with (
        Replayer(file) as server,
        anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        return asking(client)


def whole(client, text="hello"):
    turns = [{"role": "user", "content": text}]
    return client.messages.create(model="claude-opus-5-5", max_tokens=99, messages=turns, tools=[READ]).to_dict()


def streamed(client, text="hello"):
    turns = [{"role": "user", "content": text}]
    with client.messages.stream(model="claude-opus-5-5", max_tokens=99, messages=turns, tools=[READ]) as events:
        return events.get_final_message().to_dict()


@pytest.mark.parametrize("asking", [whole, streamed])
def test_what_was_recorded_is_replayed(file, record, asking):
    said, endpoint = record(asking, [Think("hm"), Say("yes, Grüße"), ToolUseBlock("read-file", {"path": "a"})])
    assert replayed(file, asking) == said
    assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_no_key_and_no_secret_is_kept(file, record, monkeypatch):
    monkeypatch.setenv("MY_DATABASE_PASSWORD", "correct-horse-battery")
    asked = f"key = {OTHER!r}, db = 'correct-horse-battery', me = {KEY!r}"

    def asking(client):
        return whole(client, asked), streamed(client, asked)

    told = [Say("so " * 19 + f"it is {OTHER}!"), ToolUseBlock("read-file", {"path": f"{KEY} " * 3})]
    record(asking, told, told)
    kept = file.read_text()
    assert kept.count("[struck out: ") > 8
    assert not any(secret in kept.replace("\\", "") for secret in (KEY, OTHER, "correct-horse", "authorization"))
    events = exchanges_in(file)[1].response
    told = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    assert told == "so " * 19 + "it is [struck out: Anthropic key]!"
    assert replayed(file, asking)[1]["content"][0]["text"] == told


def test_the_record_is_for_its_owner_alone(file, record):
    record(whole, Say("yes"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_request_that_came_twice_is_answered_in_the_same_order(file, record):
    def asking(client):
        with pytest.raises(anthropic.APIStatusError) as raised:
            whole(client)
        return raised.value.status_code, raised.value.response.headers["retry-after"], whole(client)["content"]

    said, _ = record(asking, Fail(529, retry_after_s=2), Say("yes"))
    assert replayed(file, asking) == said
    assert said[:2] == (529, "2")


def test_answers_that_broke_off_or_made_no_sense_are_replayed_as_they_were(file, record):
    def asking(client):
        with pytest.raises(httpx2.RemoteProtocolError):
            streamed(client)
        with pytest.raises(UnicodeDecodeError):
            whole(client)

    record(asking, [Say("x" * 900), TruncateResponse(700)], RawBytes(b"\xff{oops"))
    assert [each.form for each in exchanges_in(file)] == ["events", "base64"]
    assert [each.is_whole for each in exchanges_in(file)] == [False, True]
    replayed(file, asking)


def test_a_request_that_is_not_on_record_fails_the_test_that_made_it(file, record):
    record(whole, Say("yes"))

    def asking(client):
        with pytest.raises(anthropic.BadRequestError, match="is not recorded"):
            whole(client, "something else")

    with pytest.raises(UsageError, match="no record of 1 requests"):
        replayed(file, asking)


def test_an_endpoint_that_cannot_be_reached_is_said_and_not_recorded(file):
    with (
        Recorder("http://127.0.0.1:9", file) as recorder,
        anthropic.Anthropic(base_url=recorder.url, api_key=KEY, max_retries=0) as client,
        pytest.raises(anthropic.InternalServerError, match="cannot be reached"),
    ):
        whole(client)
    assert not file.exists()


def test_requests_that_say_the_same_have_the_same_digest():
    assert digest_of("/v1/messages", b'{"a": 1, "b": 2}') == digest_of("/v1/messages", b'{"b":2,"a":1}')
    assert digest_of("/v1/messages", b'{"a": 1}') != digest_of("/v1/messages", b'{"a": 2}')
    assert digest_of("/v1/messages", b"{}") != digest_of("/v1/messages/count_tokens", b"{}")


def test_a_request_of_whatever_bytes_has_a_digest():
    assert digest_of("/", b"\xff") != digest_of("/", b'{"a": NaN}') != digest_of("/", b"[" * 100_000)


def test_any_line_that_a_model_can_say_stays_one_line_of_the_record(file, record):
    said, _ = record(whole, Say("one\u2028two\u0085three\r\nfour\x00 \U0001f600"))
    assert replayed(file, whole) == said


def test_a_record_that_is_not_there_is_said_in_one_line(file):
    with pytest.raises(UsageError, match="cannot be read"):
        Replayer(file)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"path": "x"}', b"\xff\xfe"])
def test_a_file_that_is_no_record_is_refused_with_its_line(file, line):
    file.write_bytes(line)
    with pytest.raises(UsageError, match=r"exchanges.jsonl:1 is not a recorded exchange"):
        Replayer(file)
