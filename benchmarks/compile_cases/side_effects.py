"""What a graph cannot hold: output, clocks, files, state of the interpreter."""

import json
import logging
import random
import time
import warnings

import torch

log = logging.getLogger("compile_cases")


def print_midway(x):  # breaks
    y = x.sin()
    print("midway")  # break
    return y.cos()


def print_at_the_end(x):  # fails-fullgraph
    y = x.sin()
    print("end")  # break
    return y


def print_at_the_start(x):  # fails-fullgraph
    print("start")  # break
    return x.sin()


def two_prints(x):  # breaks
    y = x.sin()
    print("one")  # break
    y = y.cos()
    print("two")  # break
    return y.exp()


def print_in_a_loop(x):  # skipped
    for step in range(3):
        x = x + step
        print(step)  # break
    return x


def print_under_no_grad(x):  # breaks
    with torch.no_grad():
        y = x + 1
        print("inside")  # break
        y = y * 2
    return y


def logging_midway(x):  # breaks
    y = x + 1
    log.info("midway")  # break
    return y * 2


def warning_midway(x):  # breaks
    y = x + 1
    warnings.warn("midway", stacklevel=2)  # break
    return y * 2


def clock_midway(x):  # breaks; again 1
    y = x + 1
    begun = time.time()  # break
    return y * begun  # again


def random_number(x):  # breaks; again 1
    y = x + 1
    factor = random.SystemRandom().random()  # break 2
    return y * factor  # again


def text_of_a_dictionary(x):  # breaks
    y = x * 2
    text = json.dumps({"a": 1})  # break
    return y + len(text)


def file_midway(x):  # breaks
    y = x + 1
    opened = open("/dev/null")  # break
    return y * 2 + opened.fileno() * 0  # break


def change_of_size_in_place(x):  # breaks
    y = x + 1
    y.resize_(2, 2)  # break
    return y * 2


def addition_in_place(x):  # clean
    x.add_(1)
    return x * 2
