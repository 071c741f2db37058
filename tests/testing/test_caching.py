from __future__ import annotations

import pytest

from esper_agents.testing import Fail, Say

LONG = "All work and no play. " * 400
MARK = {"type": "ephemeral"}
TOOL = {"name": "read-file", "description": LONG, "input_schema": {"type": "object"}}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


@pytest.fixture
def usage(ask):
    """Return what asks once and returns how the input was billed: at full price, written, read."""

    def billed(server, *messages, **more):
        used = ask(server, *messages, **more).usage
        return used.input_tokens, used.cache_creation_input_tokens, used.cache_read_input_tokens

    return billed


@pytest.fixture
def server(serve):
    return serve(lambda _: Say("yes"))


def test_without_a_breakpoint_nothing_is_cached(server, usage):
    assert usage(server, LONG) == usage(server, LONG)
    assert usage(server, LONG)[1:] == (0, 0)


def test_a_prefix_is_written_once_and_read_from_then_on(server, usage):
    system = [text(LONG, cache_control=MARK)]
    fresh, written, read = usage(server, "one", system=system)
    assert written > 2000
    assert read == 0
    assert usage(server, "two", system=system) == (fresh, 0, written)


def test_a_prompt_below_the_smallest_of_its_model_is_not_cached(server, usage):
    system = [text("word " * 2500, cache_control=MARK)]
    assert usage(server, system=system, model="claude-opus-5-5")[1] > 3000
    assert usage(server, system=system, model="claude-haiku-4-5")[1] == 0


def test_tools_come_before_the_system_prompt_and_that_before_messages(server, usage):
    marked = {**TOOL, "cache_control": MARK}
    system = [text(LONG, cache_control=MARK)]
    _, written, _ = usage(server, "one", tools=[marked], system=system)
    _, _, read = usage(server, "one", tools=[marked], system=[text("another", cache_control=MARK)])
    assert 0 < read < written
    changed = {**marked, "description": LONG + "!"}
    assert usage(server, "one", tools=[changed], system=system)[2] == 0


def test_another_choice_of_tools_spoils_the_messages_alone(server, usage):
    system, turn = [text(LONG, cache_control=MARK)], user(text(LONG, cache_control=MARK))
    _, written, _ = usage(server, turn, system=system, tools=[TOOL])
    _, again, read = usage(server, turn, system=system, tools=[TOOL], tool_choice={"type": "none"})
    assert 0 < again < written
    assert read == written - again


def test_models_share_no_cache(server, usage):
    system = [text(LONG, cache_control=MARK)]
    usage(server, system=system)
    assert usage(server, system=system, model="claude-sonnet-5-5")[2] == 0


def test_a_breakpoint_that_moves_forward_reads_what_it_wrote_before(server, usage):
    turns = [user(text(LONG, cache_control=MARK))]
    _, written, _ = usage(server, *turns)
    for at in range(3):
        turns[-1] = user({each: value for each, value in turns[-1]["content"][0].items() if each != "cache_control"})
        turns += [{"role": "assistant", "content": "yes"}, user(text(f"and {at}?", cache_control=MARK))]
        _, more, read = usage(server, *turns)
        assert read == written
        assert more > 0
        written += more


def test_a_breakpoint_looks_back_over_twenty_blocks_and_no_further(server, usage):
    first = user(text(LONG, cache_control=MARK))
    _, written, _ = usage(server, first)
    plain = text(LONG)
    near = user(plain, *(text("x") for _ in range(18)), text("end", cache_control=MARK))
    far = user(plain, *(text("y") for _ in range(19)), text("end", cache_control=MARK))
    assert usage(server, near)[2] == written
    assert usage(server, far)[2] == 0


def test_a_mark_on_the_whole_request_stands_at_its_last_block(server, usage):
    _, written, _ = usage(server, LONG, cache_control=MARK)
    turns = (LONG, {"role": "assistant", "content": "yes"}, "more")
    assert usage(server, *turns, cache_control=MARK)[2] == written


def test_a_result_of_a_tool_is_cached_by_a_mark_inside_it(server, usage, ask):
    use = {"type": "tool_use", "id": "toolu_1", "name": "read-file", "input": {}}
    inside = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text(LONG, cache_control=MARK)]}
    turns = ("read it", {"role": "assistant", "content": [use]}, user(inside))
    _, written, _ = usage(server, *turns, tools=[TOOL])
    assert usage(server, *turns, tools=[TOOL])[1:] == (0, written)


def test_what_is_cached_expires_and_lives_on_by_being_read(serve, usage):
    now = [1000.0]
    server = serve(lambda _: Say("yes"), clock=lambda: now[0])
    short, long = [text(LONG, cache_control=MARK)], [text(LONG + "!", cache_control={**MARK, "ttl": "1h"})]
    usage(server, system=short)
    usage(server, system=long)
    for _ in range(2):
        now[0] += 200
        assert usage(server, system=short)[2] > 0
    now[0] += 301
    assert usage(server, system=short)[2] == 0
    assert usage(server, system=long)[2] > 0
    now[0] += 3601
    assert usage(server, system=long)[2] == 0


def test_each_part_is_written_for_as_long_as_its_own_mark_says(server, ask):
    used = ask(
        server,
        user(text(LONG, cache_control=MARK)),
        system=[text(LONG, cache_control={**MARK, "ttl": "1h"})],
    ).usage
    assert used.cache_creation.ephemeral_1h_input_tokens > 2000
    assert used.cache_creation.ephemeral_5m_input_tokens > 2000


def test_an_answer_that_failed_has_cached_nothing(serve, ask, usage):
    server = serve(Fail(400), Say("yes"))
    system = [text(LONG, cache_control=MARK)]
    with pytest.raises(Exception, match="400"):
        ask(server, system=system)
    assert usage(server, system=system)[2] == 0


def test_the_server_keeps_how_each_request_was_billed(server, ask):
    system = [text(LONG, cache_control=MARK)]
    used = [ask(server, system=system).usage for _ in range(2)]
    assert [request.usage.read for request in server.requests] == [each.cache_read_input_tokens for each in used]
    assert [request.usage.total for request in server.requests] == [server.requests[0].usage.total] * 2
