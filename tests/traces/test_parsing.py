"""Tests of `esper_agents.traces.parsing`: real forms in which stack traces are pasted."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from esper_agents.domain.stack_trace import MOST_FRAMES
from esper_agents.traces.parsing import parse_traces

PLAIN = """\
Traceback (most recent call last):
  File "/home/lee/proj/train.py", line 88, in <module>
    loss.backward()
    ~~~~~~~~~~~~~^^
  File "/usr/lib/python3.12/site-packages/torch/_tensor.py", line 581, in backward
    torch.autograd.backward(
    ...<5 lines>...
    )
RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: \
[torch.FloatTensor [32, 128]], which is output 0 of SigmoidBackward0, is at version 1; expected version 0 instead.
"""
ERROR = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"


def run(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=False)
    return done.stderr


def only(text: str):
    (trace,) = parse_traces(text)
    return trace


def places(trace) -> list[tuple[str, int, str]]:
    return [(frame.path, frame.line, frame.function) for frame in trace.frames]


def test_a_plain_trace_has_its_frames_texts_and_message() -> None:
    trace = only(PLAIN)
    assert trace.exception == "RuntimeError"
    assert trace.message.endswith("is at version 1; expected version 0 instead.")
    assert places(trace)[0] == ("/home/lee/proj/train.py", 88, "<module>")
    assert [frame.text for frame in trace.frames] == ["loss.backward()", "torch.autograd.backward("]


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank0]: ",
        "[rank0]:[E1122 08:15:00.123456789 Foo.cpp:12] ",
        "2024-05-01 12:00:01,123 - ERROR - ",
        "2024-05-01T12:00:01.123Z ",
        "(RayTrainWorker pid=123, ip=10.0.0.1) ",
        "[default0]:",
        "trainer-1  | ",
        "> ",
        ">> ",
        "0: ",
        "        ",
        "\x1b[31m",
        "[1,0]<stderr>:",
    ],
)
def test_prefixes_of_logs_and_quotations_are_removed(prefix: str) -> None:
    text = "step 1\n" + "".join(f"{prefix}{line}\n" for line in PLAIN.splitlines()) + "done\n"
    trace = only(text)
    assert places(trace) == places(only(PLAIN))
    assert trace.headline == only(PLAIN).headline


def test_mixed_lines_of_two_ranks_are_two_streams_and_equal_traces_are_reported_once() -> None:
    lines = PLAIN.splitlines()
    mixed = "".join(f"[rank0]: {line}\n[rank1]: {line}\n" for line in lines)
    trace = only(mixed)
    assert places(trace) == places(only(PLAIN))
    assert trace.origin == "rank 0"


def test_ranks_that_fail_for_different_reasons_are_all_reported() -> None:
    other = PLAIN.replace("train.py", "eval.py")
    mixed = "".join(
        f"[rank0]: {one}\n[rank1]: {two}\n" for one, two in zip(PLAIN.splitlines(), other.splitlines(), strict=True)
    )
    assert [trace.origin for trace in parse_traces(mixed)] == ["rank 0", "rank 1"]


def test_chained_exceptions_are_one_trace_with_its_cause() -> None:
    text = run("""
        def load():
            try:
                {}["a"]
            except KeyError as error:
                raise ValueError("no a") from error
        try:
            load()
        except ValueError:
            raise RuntimeError("cannot load")
    """)
    trace = only(text)
    assert [each.headline for each in trace.chain] == ["RuntimeError: cannot load", "ValueError: no a", "KeyError: 'a'"]
    assert [len(each.frames) for each in trace.chain] == [1, 2, 1]


def test_members_of_an_exception_group_are_traces_and_notes_belong_to_the_message() -> None:
    text = run("""
        error = ValueError("first")
        error.add_note("in batch 3")
        def fail():
            raise error
        try:
            fail()
        except ValueError as caught:
            raise ExceptionGroup("two", [caught, TypeError("second")])
    """)
    traces = {each.exception: each for trace in parse_traces(text) for each in trace.chain}
    assert traces["ValueError"].message == "first\nin batch 3"
    assert places(traces["ValueError"])[-1][2] == "fail"


def test_the_cpp_stack_of_torch_is_removed() -> None:
    tail = (
        "Exception raised from unpack at ../torch/csrc/autograd/saved_variable.cpp:194 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f in libc10.so)\n"
        "frame #1: <unknown function> + 0x4f (0x7f in libtorch_cpu.so)\n"
    )
    assert only(PLAIN + tail).message == only(PLAIN).message


def test_the_error_of_a_data_loader_worker_is_the_cause() -> None:
    text = (
        'Traceback (most recent call last):\n  File "train.py", line 5, in <module>\n    for x in loader:\n'
        "TypeError: Caught TypeError in DataLoader worker process 3.\nOriginal Traceback (most recent call last):\n"
        '  File "/opt/site-packages/torch/utils/data/_utils/worker.py", line 309, in _worker_loop\n    data = f()\n'
        '  File "/home/lee/data.py", line 21, in __getitem__\n    return a + b\n'
        "TypeError: unsupported operand type(s) for +: 'int' and 'str'\n"
    )
    trace = only(text)
    assert trace.cause is not None
    assert trace.cause.origin == "DataLoader worker process 3"
    assert places(trace.cause)[-1] == ("/home/lee/data.py", 21, "__getitem__")


def test_the_frames_of_user_code_in_a_dynamo_error_are_the_innermost() -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 9, in <module>\n    g(x)\n'
        "torch._dynamo.exc.Unsupported: Data-dependent branching\n  Explanation: Detected data-dependent branching\n"
        "  Hint: Use `torch.cond` to express dynamic control flow.\n\n"
        "  Developer debug context: attempted to jump\n\n\n"
        'from user code:\n   File "a.py", line 4, in f\n    if x.sum() > 0:\n\n'
        "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace\n"
    )
    trace = only(text)
    assert trace.exception == "torch._dynamo.exc.Unsupported"
    assert places(trace)[-1] == ("a.py", 4, "f")
    assert "torch.cond" in trace.message


def test_the_forward_trace_of_anomaly_mode_is_a_trace() -> None:
    text = (
        "/opt/torch/autograd/graph.py:825: UserWarning: Error detected in SigmoidBackward0. "
        "Traceback of forward call that caused the error:\n"
        '  File "net.py", line 58, in forward\n    gate = torch.sigmoid(x)\n'
        " (Triggered internally at ../torch/csrc/autograd/python_anomaly_mode.cpp:118.)\n"
        "  return Variable._execution_engine.run_backward(\n" + PLAIN
    )
    forward, backward = parse_traces(text)
    assert places(forward) == [("net.py", 58, "forward")]
    assert backward.exception == "RuntimeError"


def test_a_trace_of_ipython_has_the_lines_that_its_arrows_point_at() -> None:
    text = (
        "---------------------------------------------------------------------------\n"
        "RuntimeError                              Traceback (most recent call last)\n"
        "Cell In[5], line 3\n      1 net = Net()\n      2 x = torch.rand(2, 3)\n----> 3 net(x)\n\n"
        "File ~/proj/net.py:61, in Net.forward(self, x)\n"
        "     60 def forward(self, x):\n---> 61     return self.fc(x)\n\n"
        f"{ERROR}\n"
    )
    trace = only(text)
    assert places(trace) == [("Cell In[5]", 3, "<module>"), ("~/proj/net.py", 61, "Net.forward")]
    assert trace.frames[-1].text == "return self.fc(x)"
    assert trace.headline == ERROR


def test_an_older_trace_of_ipython_is_read() -> None:
    text = (
        "RuntimeError                              Traceback (most recent call last)\n"
        "<ipython-input-5-abc123> in <module>\n      1 net = Net()\n----> 2 net(x)\n\n"
        "/home/lee/net.py in forward(self, x)\n     60 def forward(self, x):\n---> 61     return self.fc(x)\n\n"
        f"{ERROR}\n"
    )
    assert places(only(text)) == [("<ipython-input-5-abc123>", 2, "<module>"), ("/home/lee/net.py", 61, "forward")]


RICH = """\
╭─────────────────────────────── Traceback (most recent call last) ────────────────────────────────╮
│ /home/lee/proj/train.py:9 in main                                                                │
│                                                                                                  │
│    8 │   net = Net()                                                                             │
│ ❱  9 │   net(x)                                                                                  │
│   10                                                                                             │
│                                                                                                  │
│ /home/lee/proj/net.py:61 in forward                                                              │
│                                                                                                  │
│   60 │   def forward(self, x):                                                                   │
│ ❱ 61 │   │   return self.fc(x)                                                                   │
╰──────────────────────────────────────────────────────────────────────────────────────────────────╯
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
"""


def test_a_trace_in_a_box_of_rich_is_read() -> None:
    trace = only(RICH)
    assert places(trace) == [("/home/lee/proj/train.py", 9, "main"), ("/home/lee/proj/net.py", 61, "forward")]
    assert trace.frames[-1].text == "return self.fc(x)"
    assert trace.headline == ERROR


LONG = """\
=================================== FAILURES ===================================
___________________________________ test_net ___________________________________

    def test_net():
>       assert Net()(torch.rand(2, 3)).shape == (2, 5)

tests/test_net.py:7:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _

self = Net()

    def forward(self, x):
>       return self.fc(x)
E       RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)

net.py:61: RuntimeError
=========================== short test summary info ============================
FAILED tests/test_net.py::test_net - RuntimeError: mat1 and mat2 shapes cannot be multiplied
""".replace("py:7:\n", "py:7: \n")
SHORT = """\
___________________________________ test_net ___________________________________
tests/test_net.py:7: in test_net
    assert Net()(torch.rand(2, 3)).shape == (2, 5)
net.py:61: in forward
    return self.fc(x)
E   RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
"""


@pytest.mark.parametrize("text", [LONG, SHORT])
def test_a_failure_of_pytest_is_read_in_both_styles(text: str) -> None:
    trace = only(text)
    assert trace.headline == ERROR
    assert places(trace) == [("tests/test_net.py", 7, "test_net"), ("net.py", 61, "forward")]
    assert trace.frames[-1].text == "return self.fc(x)"


def test_a_trace_without_its_header_is_read() -> None:
    trace = only("\n".join(PLAIN.splitlines()[3:]))
    assert trace.exception == "RuntimeError"
    assert len(trace.frames) == 1


def test_a_trace_without_its_end_has_frames_and_no_exception() -> None:
    trace = only("\n".join(PLAIN.splitlines()[:4]))
    assert (trace.exception, len(trace.frames)) == ("", 1)


def test_an_error_line_in_prose_is_a_trace_without_frames() -> None:
    trace = only(f"hi, since friday i get {ERROR}\n\nany idea?")
    assert (trace.exception, trace.frames) == ("RuntimeError", ())
    assert trace.headline == ERROR


def test_prose_after_a_trace_does_not_belong_to_the_message() -> None:
    assert only(f"{PLAIN}\nit crashes after i added the second head pls help").message == only(PLAIN).message


def test_a_text_without_an_error_has_no_trace() -> None:
    assert parse_traces("please review train.py, is `x: int` right?\n\nFile a bug at line 3") == ()
    assert parse_traces("") == ()


def test_two_traces_are_returned_in_order() -> None:
    other = PLAIN.replace("RuntimeError", "ValueError").replace("train.py", "eval.py")
    assert [trace.exception for trace in parse_traces(f"{PLAIN}\nretry\n{other}")] == ["RuntimeError", "ValueError"]


def test_a_deep_recursion_is_bounded() -> None:
    frames = "".join(f'  File "a.py", line {number}, in f\n    f()\n' for number in range(1, 2500))
    trace = only(f"Traceback (most recent call last):\n{frames}RecursionError: maximum recursion depth exceeded\n")
    assert len(trace.frames) == MOST_FRAMES
    assert trace.frames[-1].line == 2499


@pytest.mark.parametrize(
    "piece",
    ["(", "> ", '  File "', "a.", "E   ", "\x1b[", "Warning: Error detected in ", "[rank0]:[", "File a:1", "\t"],
)
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    # A quadratic pattern runs into the time limit of the test.
    parse_traces(piece * 30_000)
    parse_traces(f"Traceback (most recent call last):\n{piece * 30_000}\n")
    parse_traces(f"{piece * 300}\n" * 100)


def test_the_error_of_a_spawned_process_is_the_cause_of_the_parents() -> None:
    (trace,) = parse_traces(
        'Traceback (most recent call last):\n  File "run.py", line 9, in <module>\n    mp.spawn(job, nprocs=2)\n'
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
        'Traceback (most recent call last):\n  File "run.py", line 4, in job\n    fail(rank)\nValueError: 1\n'
    )
    assert trace.cause is not None
    assert (trace.cause.exception, trace.cause.frames[-1].line) == ("ValueError", 4)


def test_a_trace_that_lost_its_indentation_keeps_its_frames_and_its_error() -> None:
    (trace,) = parse_traces(
        'File "/srv/loss.py", line 3, in forward\nx = f(y)\nFile "/srv/loss.py", line 18, in sum\nz = sum(x)\n'
        "RuntimeError: CUDA error: device-side assert triggered\n"
    )
    assert [(frame.line, frame.text) for frame in trace.frames] == [(3, "x = f(y)"), (18, "z = sum(x)")]
    assert trace.exception == "RuntimeError"


def test_frames_inside_of_a_message_are_the_innermost() -> None:
    (trace,) = parse_traces(
        'Traceback (most recent call last):\n  File "run.py", line 9, in <module>\n    torch.jit.script(net)\n'
        'torch.jit.frontend.NotSupportedError: no kwargs:\n  File "net.py", line 4\n    def forward(self, **kw):\n'
        "                      ~~~ <--- HERE\n"
    )
    assert trace.frames[-1].path == "net.py"
