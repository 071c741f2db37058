"""Every sample in a docstring of `esper_agents.api` and `esper_agents.testing` runs: real parts, no network."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shutil
import socket
import textwrap
from pathlib import Path

import pytest

import esper_agents.api
import esper_agents.testing

_SECTION = re.compile(r"[A-Z][A-Za-z ]*:")
_SAMPLES = re.compile(r"Examples?:")
_FENCE = re.compile(r"^ *```(?:python|py)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def documented():
    """Yield every docstring of the public packages, and of what they export from elsewhere, each with its place."""
    for package in (esper_agents.api, esper_agents.testing):
        for file in sorted(Path(package.__file__).parent.glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    name = getattr(node, "name", "module")
                    yield f"{file.parent.name}/{file.name}:{name}", ast.get_docstring(node) or ""
        for name in package.__all__:
            exported = getattr(package, name)
            if not getattr(exported, "__module__", "").startswith(package.__name__):
                yield f"{package.__name__}.{name}", inspect.getdoc(exported) or ""


def samples_of(text):
    """Yield the samples of a docstring: fenced, after `>>>`, or indented below a sentence or `Example:`."""
    for found in _FENCE.finditer(text):
        yield textwrap.dedent(found[1])
    prompted = re.findall(r"^ *(?:>>>|\.\.\.) ?(.*)$", text, re.MULTILINE)
    if prompted:
        yield "\n".join(prompted)
    section, block = "", []
    for line in [*_FENCE.sub("", text).split("\n"), "."]:
        if line.startswith("    ") or (block and not line):
            if not _SECTION.fullmatch(section) or _SAMPLES.fullmatch(section):
                block.append(line)
        elif line:
            code = textwrap.dedent("\n".join(block)).strip()
            if code and not code.startswith((">>>", "```")):
                yield code + "\n"
            section, block = line, []


SAMPLES = [
    pytest.param(code, id=f"{place}:{number}")
    for place, text in dict(documented()).items()
    for number, code in enumerate(samples_of(text), 1)
]


@pytest.fixture
def my_model(project, tmp_path, monkeypatch):
    """Have `~/my-model` be a small training project, and no name lead to another machine."""
    shutil.copytree(project, tmp_path / "my-model")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "my-model")
    local = {"localhost", "127.0.0.1", "::1"}
    real = socket.getaddrinfo

    def only_here(host, *arguments, **options):
        assert host in local, f"a sample asks for {host!r}"
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", only_here)


@pytest.mark.parametrize("code", SAMPLES)
def test_a_sample_of_a_docstring_runs(my_model, code, capsys):
    program = compile(code, "<sample>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    # Who copies a sample has nothing but what it imports.
    returned = eval(program, {"__name__": "__main__"})  # noqa: S307 - our own text
    if inspect.iscoroutine(returned):
        asyncio.run(returned)
    assert capsys.readouterr().out


def test_samples_of_every_form_are_found():
    forms = "One.\n\n    print(1)\n\n    print(2)\n\nTwo.\n\n>>> print(3)\n\n"
    forms += "```python\nprint(4)\n```\n\nExample:\n    print(5)\n"
    assert sorted(samples_of(forms)) == ["print(1)\n\nprint(2)\n", "print(3)", "print(4)\n", "print(5)\n"]
    assert list(samples_of("One.\n\nArgs:\n    name: What it is.\n\n    more: Another.\n\nReturns:\n    It.")) == []
    assert len(SAMPLES) >= 2
