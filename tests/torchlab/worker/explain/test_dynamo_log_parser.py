"""What is read out of dynamo's logs, as several versions of torch write them."""

from esper_agents.torchlab.worker.explain.dynamo_log_parser import (
    read_break,
    read_limit,
    read_reason,
    read_recompile,
)

MESSAGE = """\
Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with
    argument types ['str'].
  Hint: Avoid calling builtin `print`.
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html
"""
BREAK = (
    "Graph break in user code at /home/me/model.py:5\n"
    "Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):\n\n"
    + MESSAGE
    + "\nUser code traceback:\n"
    '  File "/home/me/train.py", line 30, in step\n    y = model(x)\n'
    '  File "/home/me/model.py", line 5, in torch_dynamo_resume_in_forward_at_3\n    print("x")\n'
)


def test_a_reason_is_taken_apart_into_kind_page_explanation_and_hints():
    reason = read_reason(MESSAGE)
    assert (reason.kind, reason.page) == ("Failed to trace builtin operator", "GB0059")
    assert reason.explanation.endswith("`print` with argument types ['str'].")
    assert reason.hints == ("Avoid calling builtin `print`.", "Please report an issue to PyTorch.")
    assert reason.context == "builtin print"
    assert reason.after is None


def test_a_break_keeps_its_stack_and_the_name_of_the_function_that_was_resumed():
    found = read_break(BREAK, None)
    assert [(frame.filename, frame.line, frame.function) for frame in found.frames] == [
        ("/home/me/train.py", 30, "step"),
        ("/home/me/model.py", 5, "forward"),
    ]
    assert found.effect == "splits"


def test_a_break_in_a_loop_is_told_by_its_own_reason_and_skips_the_function():
    message = MESSAGE.rstrip() + (
        "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
        "graph break in loop\n  Explanation: torch.compile detected a graph break in a for/while loop.\n"
    )
    text = f"Graph break in user code at /home/me/model.py:5\nGraph Break Reason: {message}\nUser code traceback:\n"
    found = read_break(text, None)
    assert (found.reason.page, found.reason.after, found.effect) == ("GB0059", "graph break in loop", "skips")


def test_the_older_form_without_pages_is_read_as_well():
    text = (
        "Graph break in user code at /home/me/model.py:7\nReason: Unsupported: call_function BuiltinVariable(print)\n"
        'User code traceback:\n  File "/home/me/model.py", line 7, in forward\n    print(x)\n'
    )
    found = read_break(text, None)
    assert found.reason.kind == "Unsupported: call_function BuiltinVariable(print)"
    assert found.reason.page is None
    assert found.frames[-1].line == 7


def test_a_skipped_frame_takes_its_reason_from_the_exception():
    text = 'Graph break: skip: from user code at:\n  File "/home/me/model.py", line 9, in forward\n    print(x)\n'
    found = read_break(text, RuntimeError(MESSAGE))
    assert (found.reason.page, found.effect, found.frames[-1].line) == ("GB0059", "skips", 9)


def test_a_line_about_something_else_is_no_break():
    assert read_break("torch._dynamo.reset", None) is None
    assert read_recompile("torch._dynamo.reset") is None
    assert read_limit("Graph break from `Tensor.item()`, consider setting:") is None


def test_a_recompile_names_the_guard_of_each_version_newest_first():
    text = (
        "Recompiling function forward in /home/me/model.py:4\n    triggered by the following guard failure(s):\n"
        "    - 0/1: self.n == 1    # self.n += 1  # me/model.py:5 in forward\n"
        "    - User stack trace:\n"
        '    -   File "/home/me/model.py", line 5, in forward\n'
        "    -     self.n += 1\n"
        "    - 0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"
    )
    found = read_recompile(text)
    assert (found.function.function, found.function.line) == ("forward", 4)
    assert [guard.split("  ")[0] for guard, _ in found.guards] == [
        "self.n == 1",
        "tensor 'x' size mismatch at index 0. expected 4, actual 5",
    ]
    assert found.guards[0][1][-1].line == 5


def test_a_guard_without_the_number_of_a_version_is_read_too():
    text = (
        "Recompiling function f in /home/me/f.py:3\n    triggered by the following guard failure(s):\n    - L['i'] == 1"
    )
    assert read_recompile(text).guards == [("L['i'] == 1", [])]


def test_a_limit_names_the_function_that_is_given_up():
    limit = read_limit(
        "torch._dynamo hit config.cache_size_limit (8)\n   function: 'forward' (/home/me/model.py:4)\n   last reason: x"
    )
    assert (limit.setting, limit.limit, limit.function.function) == ("cache_size_limit", 8, "forward")
