"""Patterns are compiled when they are first used, and all of them can be."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

from esper_agents import review
from esper_agents.review.patterns import pattern

MODULES = [package.name for package in walk_packages(review.__path__, f"{review.__name__}.")]


def test_a_pattern_answers_as_a_compiled_expression_does():
    found = pattern(r"(?P<word>a+)b", re.IGNORECASE)
    assert found.fullmatch("xAAb") is None
    assert found.search("xAAb")["word"] == "AA"
    assert found.sub("-", "aab ab") == "- -"
    assert found.flags & re.IGNORECASE


def test_a_pattern_is_not_compiled_before_it_is_used():
    broken = pattern("(")
    with pytest.raises(re.error):
        broken.search("")


def test_a_pattern_has_nothing_that_an_expression_lacks():
    with pytest.raises(AttributeError, match="missing"):
        getattr(pattern("a"), "missing")  # noqa: B009 - a checker would refuse the name


@pytest.mark.parametrize("module", MODULES)
def test_every_pattern_of_a_module_can_be_compiled(module):
    lazy = type(pattern(""))
    for var in vars(import_module(module)).values():
        if isinstance(var, lazy):
            assert var.pattern
