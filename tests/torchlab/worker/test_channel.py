"""Tests of the channel: whole messages with their files, and nothing believed that is no message."""

import json
import os
import socket
import threading
import time

import pytest

from esper_agents.torchlab.worker.process.channel import Channel, ChannelError


@pytest.fixture
def ends():
    made = [Channel(each) for each in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)]
    yield made
    for each in made:
        each.close()


def test_a_message_arrives_as_it_was_sent(ends):
    ends[0].send({"do": "load", "numbers": [1, 2.5, None], "text": "ä\n"})
    assert ends[1].receive(1) == ({"do": "load", "numbers": [1, 2.5, None], "text": "ä\n"}, [])


def test_a_long_message_arrives_whole(ends):
    text = "x" * (8 << 20)
    sender = threading.Thread(target=ends[0].send, args=({"text": text},))
    sender.start()
    assert ends[1].receive(10)[0]["text"] == text
    sender.join()


def test_files_come_with_the_message_that_they_were_sent_with(ends, tmp_path):
    (tmp_path / "one").write_text("one")
    opened = os.open(tmp_path / "one", os.O_RDONLY)
    ends[0].send({"n": 1})
    ends[0].send({"n": 2}, (opened,))
    ends[0].send({"n": 3})
    os.close(opened)
    assert ends[1].receive(1) == ({"n": 1}, [])
    message, files = ends[1].receive(1)
    assert message == {"n": 2}
    assert os.read(files[0], 10) == b"one"
    os.close(files[0])
    assert ends[1].receive(1) == ({"n": 3}, [])


def test_a_message_that_arrived_with_another_is_ready(ends):
    ends[0].send({"n": 1})
    ends[0].send({"n": 2})
    assert not ends[1].is_ready
    ends[1].receive(1)
    assert ends[1].is_ready


def test_the_kernel_says_who_sent_it(ends):
    ends[0].send({})
    ends[1].receive(1)
    assert ends[1].peer_pid == os.getpid()


def test_no_message_in_time_is_a_timeout(ends):
    with pytest.raises(TimeoutError):
        ends[1].receive(0.02)


def test_a_byte_now_and_then_does_not_put_off_the_end(ends):
    stop = threading.Event()

    def drip():
        while not stop.wait(0.01):
            ends[0]._end.send(b"\0")

    dripping = threading.Thread(target=drip)
    # A message of many bytes is announced and never comes.
    ends[0]._end.send((1 << 20).to_bytes(4, "big") + b"\0")
    dripping.start()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        ends[1].receive(0.2)
    stop.set()
    dripping.join()
    assert time.monotonic() > begun


def test_the_other_side_hanging_up_is_an_end(ends):
    ends[0].close()
    with pytest.raises(EOFError):
        ends[1].receive(1)


@pytest.mark.parametrize("sent", [b"\xff" * 16, b"[1]", b"{", b'{"a": 1', b"[" * 5_000])
def test_what_is_no_message_is_refused(ends, sent):
    framed = sent if sent.startswith(b"\xff") else len(sent).to_bytes(4, "big") + b"\0" + sent
    ends[0]._end.send(framed)
    with pytest.raises(ChannelError):
        ends[1].receive(1)


def test_numbers_that_json_has_not_are_not_sent(ends):
    with pytest.raises(ValueError, match="not JSON compliant"):
        ends[0].send({"speedup": float("nan")})


def test_messages_are_plain_json(ends):
    ends[0].send({"a": 1})
    assert json.loads(ends[1]._end.recv(100)[5:]) == {"a": 1}
