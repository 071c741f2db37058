"""Functions that dynamo gives up whole."""

import contextlib

import torch


@torch.compiler.disable
def apart(x):
    return x + 1


@contextlib.contextmanager
def told():
    print("entering")  # break for behind_a_context_manager
    yield 1


def only_a_disabled_call(x):  # skipped
    return apart(x)  # break


def a_generator(x):  # skipped
    for step in range(3):
        yield x + step


def a_break_in_a_try_block(x):  # skipped
    y = x * 2
    try:
        torch._dynamo.graph_break()  # break
        y = y + 1
    except RuntimeError:
        pass
    return y.cos()


def behind_a_context_manager(x):  # skipped
    with told() as step:
        y = x + step
    return y * 2


def no_operation(x):  # skipped
    return 3


# torch.compile takes the mark off what it is given itself.
@torch.compiler.disable
def disabled_itself(x):  # clean
    return x * 2 + 1


def around_a_disabled_call(x):  # breaks
    y = apart(x * 2)  # break
    return y * 3
