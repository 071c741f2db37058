"""Why a source does not parse: a newer Python, an older one, or a mistake."""

from __future__ import annotations

import ast
import sys

import pytest

from esper_agents.review.syntax import diagnose


def problem(source: str) -> str:
    with pytest.raises(SyntaxError) as refused:
        ast.parse(source)
    return diagnose(refused.value, source, running=(3, 11)).problem


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python parses them")
@pytest.mark.parametrize(
    ("version", "source"),
    [
        ("3.12", "type X = int"),
        ("3.12", "type X[T] = list[T]"),
        ("3.12", "def f[T](x): pass"),
        ("3.12", "async def f[**P, *Ts, T: (int, str)](x): pass"),
        ("3.12", "class A[T: Sequence[int]](B[T]): pass"),
        ("3.12", 'f"{d["a"]}"'),
        ("3.12", "x = f'{a['x']}' + 'b'"),
        ("3.12", 'print(f"{", ".join(y)!r:>{width}}", end="")\ny = 2\n'),
        ("3.12", 'f"{f"{f"{1}"}"}"'),
        ("3.12", "f\"{'\\n'.join(a)}\""),
        ("3.12", 'f"{x\n}"'),
        ("3.12", 'f"""{\nx # c\n}"""'),
        ("3.13", "class A[T = int]: pass"),
        ("3.13", "def f[T: Sequence[int] = list[int]](x): pass"),
        ("3.13", "type A[T=int] = list[T]"),
        ("3.14", 'x = t"hello {name}"'),
        ("3.14", "send(rt'a')"),
        ("3.14", "try:\n    pass\nexcept A, B:\n    pass"),
        ("3.14", "try:\n    pass\nexcept a.A, b.B, C:\n    pass"),
        ("3.15", "lazy import json"),
        ("3.15", "lazy from json import loads"),
        ("3.15", "x = [*a for a in b]"),
        ("3.15", "x = {**d for d in ds}"),
    ],
)
def test_the_syntax_of_a_newer_python_is_called_so(version, source):
    assert problem(source).startswith(f"needs Python {version} (")


@pytest.mark.parametrize(
    "source",
    [
        'print "x"',
        "print x",
        'exec "x"',
        'raise E, "x"',
        "a <> b",
        "x = 0777",
        "x = `a`",
        "x = 10L",
        'x = ur"x"',
        "try:\n    pass\nexcept A, e:\n    pass",
    ],
)
def test_python_2_is_called_so(source):
    if sys.version_info >= (3, 14) and "except" in source:
        pytest.skip("this Python parses it")
    assert problem(source) == "is Python 2"


@pytest.mark.parametrize(
    "source",
    [
        'f"{x"',
        'f"{a b}"',
        'f"{x]}"',
        'x = "abc',
        'print(f"{a} {b")',
        "x = foo(",
        "def f(:",
        "if x = 3: pass",
        "class A(B:\n  pass",
        "import a b",
        "return x y",
        't "abc"',
        "for x in range(3) print(x)",
        'x = s["a"',
    ],
)
def test_a_mistake_is_called_a_mistake(source):
    assert problem(source).startswith("does not parse: ")
