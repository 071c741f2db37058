"""A secret in the source, the request or the output of a tool is on no screen and in no file that a command writes."""

from __future__ import annotations

import json

import pytest

SECRET = "sk-ant-REDACTME0123456789abcdefghij"  # noqa: S105 - of the form of one
TRAIN = f"""import torch


def train(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss.item() if "{SECRET}" else 0.0
    return total
"""
TARGET = f"""import torch


def target(x):
    print("{SECRET}")
    return x * 2


def failing(x):
    raise RuntimeError("{SECRET}")
"""
ASKED = f"review this training code, the key is {SECRET}"
SCREENS = (
    ("review", "train.py"),
    *(("review", "train.py", "--format", style) for style in ("json", "sarif", "github")),
    ("review", "train.py", "--format", "sarif", "--output", "out.sarif"),
    ("review", f"{SECRET}.py"),
    ("submit", "--dry-run", ASKED, "train.py"),
    ("submit", ASKED, "train.py"),
    ("submit", "--json", ASKED, "train.py"),
    *(("sessions", verb) for verb in ("list", "show", "tail", "attach")),
    *(("sessions", verb, "--json") for verb in ("list", "show")),
    ("sessions", "search", "training"),
    *(("certificates", verb) for verb in ("list", "show", "search")),
    *(("certificates", verb, "--json") for verb in ("list", "show")),
    *(("memory", "list", *more) for more in ((), ("--json",))),
    ("memory", "show"),
    *(("why", "latest", *more) for more in ((), ("--json",))),
    ("trace", "latest", "--content"),
    ("agents", "route", ASKED),
    ("agents", "route", ASKED, "--json"),
    ("resume", SECRET),
    ("gate", SECRET),
    (SECRET,),
)


@pytest.fixture(scope="module")
def toy(place):
    return place({"train.py": TRAIN, "target.py": TARGET})


@pytest.mark.parametrize(
    ("commands", "least"),
    [pytest.param(SCREENS[8:12], 3, id="some"), pytest.param(SCREENS, 20, id="all", marks=pytest.mark.slow)],
)
def test_no_command_shows_a_secret(toy, commands, least):
    leaked, struck = [], 0
    for command in commands:
        done = toy.esper(*command)
        struck += (done.stdout + done.stderr).count("struck out")
        if SECRET in done.stdout + done.stderr:
            leaked.append(command)
    assert leaked == []
    assert struck > least
    written = [path for path in toy.root.rglob("*") if path.is_file() and path.name not in {"train.py", "target.py"}]
    assert [each for each in written if ".git/" not in str(each) and SECRET.encode() in each.read_bytes()] == []


def test_an_excerpt_says_what_was_struck_out(toy):
    done = toy.esper("review", "train.py", "--json")
    assert json.loads(done.stdout)
    assert "[struck out: Anthropic key]" in done.stdout


@pytest.mark.slow
def test_no_measurement_shows_a_secret(toy):
    pytest.importorskip("torch")
    for command in (
        ("torch", "profile", "target.py:target", "--input", "randn(4)", "--output", "kept"),
        ("torch", "nan", "target.py:failing", "--input", "randn(4)", "--json"),
        ("torch", "nan", "target.py:failing", "--input", "randn(4)"),
    ):
        done = toy.esper(*command)
        assert "esper" not in done.stderr or "internal error" not in done.stderr
        assert SECRET not in done.stdout + done.stderr
    kept = [path for path in (toy.root / "kept").rglob("*") if path.is_file()]
    assert kept
    assert [each for each in kept if SECRET.encode() in each.read_bytes()] == []
