"""Runs the code and checks the facts of skills where torch is, and prints what does not hold.

Reads `{"blocks": {place: source}, "facts": {place: {kind: expression, "as": category}}}` as JSON, and prints
`{place: problem}`.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import json
import sys
import tempfile
import traceback
import warnings
from contextlib import chdir

import torch
import torch.distributed as dist


def named(path):
    """Return what a dotted path names, modules on the way imported; raises AttributeError where there is none."""
    head, *rest = path.split(".")
    thing = importlib.import_module(head)
    for depth, name in enumerate(rest, 1):
        if not hasattr(thing, name) and inspect.ismodule(thing):
            try:
                importlib.import_module(".".join((head, *rest[:depth])))
            except ModuleNotFoundError:
                raise AttributeError(path) from None
        thing = getattr(thing, name)
    return thing


def signature(thing):
    return inspect.signature(thing).parameters


def evaluated(expression):
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "inspect": inspect, "signature": signature}
    for word in set(expression.replace("(", " ").replace("[", " ").split()):
        path = word.strip("\"'),]")
        if path.startswith("torch."):
            for depth in range(2, path.count(".") + 2):
                try:
                    importlib.import_module(".".join(path.split(".")[:depth]))
                except (ImportError, ValueError):
                    break
    return eval(expression, names)  # noqa: S307 - our own sheets


def check(fact):
    kind = next(each for each in ("has", "gone", "holds", "warns", "raises") if each in fact)
    said = fact[kind]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind in {"has", "gone"}:
            try:
                named(said)
            except AttributeError:
                assert kind == "gone", "is not there"
            else:
                assert kind == "has", "is there"
        elif kind == "holds":
            assert evaluated(said) is True, "does not hold"
        elif kind == "warns":
            evaluated(said)
            category = getattr(__builtins__, fact["as"])
            assert any(each.category is category for each in caught), f"warned {[each.category for each in caught]}"
        else:
            raised = None
            try:
                evaluated(said)
            except Exception as error:  # noqa: BLE001 - whatever comes is compared
                raised = error
            assert type(raised).__name__ == fact["as"], f"raised {raised!r}"


def state():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        torch.is_anomaly_enabled(),
        dist.is_initialized(),
    )


def run(source, place):
    before = state()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(source, place, "exec"), {"__name__": "sheet"})  # noqa: S102 - our own sheets
    left = state()
    torch.set_float32_matmul_precision(before[2])
    assert left == before, f"left behind {left}"


def main():
    asked = json.load(sys.stdin)
    problems = {}
    for what, check_one in ((asked["blocks"], run), (asked["facts"], lambda fact, _: check(fact))):
        for place, content in what.items():
            try:
                check_one(content, place)
            except BaseException as error:  # noqa: BLE001 - whatever comes is the answer
                where = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == place]
                problems[place] = f"line {where[-1] if where else '?'}: {type(error).__name__}: {error}"
    json.dump(problems, sys.stdout)


# Longer than everything takes on a loaded machine, and shorter than the limit of a test.
HANGS = 200

if __name__ == "__main__":
    faulthandler.dump_traceback_later(HANGS, exit=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        main()
