"""The pages of the rules, from their own docstrings and examples; all of them together are `docs/rules.md`."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.catalogue import catalogue, find
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import example_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

    from esper_agents.review.rule import Example, Rule

ALL = "all"
_HEAD = """# The rules

Made by `make docs` from the rules' own pages, which `esper rule CODE` prints one by one. How the command
is used stands in [review.md](review.md). A severity is that of the rule; a finding in a test or a benchmark counts one
less.
"""
_SOURCES = "## Sources\n"


def explain(code: str, extra: Sequence[ModuleType] = ()) -> str:
    """Return the page of a rule as Markdown, or those of all rules for the word `all`.

    Args:
        code: The rule's code or name, or `all`.
        extra: Modules with additional rules.

    Raises:
        NotFoundError: No rule has it.
    """
    return handbook(explained(ALL, extra)) if code == ALL else page(explained(code, extra)[0])


def explained(code: str = ALL, extra: Sequence[ModuleType] = ()) -> tuple[Rule, ...]:
    """Return the rules that a code, a name or the word `all` means, by code.

    Raises:
        NotFoundError: No rule has it.
    """
    rules = catalogue(extra)
    return rules if code == ALL else (find(code, rules),)


def summary_of(rule: Rule) -> str:
    """Return the first paragraph of a rule's page on one line."""
    return inspect.cleandoc(type(rule).__doc__ or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")


def page(rule: Rule) -> str:
    """Return a page: what a rule finds, why that costs, when the code is right, the fix, sources, and two examples."""
    text = inspect.cleandoc(type(rule).__doc__ or "")
    before, heading, sources = text.partition(_SOURCES)
    parts = (
        f"# {rule.code} {rule.name}",
        f"*{rule.severity}, {rule.category}*",
        before.strip(),
        *_fix(rule),
        (heading + sources).strip(),
        "## Bad",
        _blocks(rule.bad),
        "## Good",
        _blocks(rule.good),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _fix(rule: Rule) -> list[str]:
    """Return what the rule advises for its own bad example."""
    from esper_agents.review.engine import review_sources

    if rule.advice:
        return ["## The fix", rule.advice]
    known = {each.code for each in catalogue()}
    claims = review_sources(example_files(rule.bad)).claims if rule.code in known else ()
    own = [claim for claim in claims if claim.rule == rule.code]
    advice = list(dict.fromkeys(each.remedy[:1].upper() + each.remedy[1:] + "." for each in own))
    by_itself = ["`esper review --fix` does it where that is safe."] if rule.is_fixable else []
    return ["## The fix", *advice, *by_itself] if advice or by_itself else []


def _blocks(example: Example) -> str:
    files = example_files(example)
    named = len(files) > 1
    return "\n\n".join(
        (f"`{path}`\n\n" if named else "") + f"```python\n{source.rstrip()}\n```" for path, source in files.items()
    )


def handbook(rules: Iterable[Rule]) -> str:
    """Return the pages of rules as one document, with a table of them by category in front."""
    rules = tuple(rules)
    parts = [_HEAD]
    for category in Category:
        own = [rule for rule in rules if rule.category is category]
        if own:
            rows = "".join(_row(each) for each in own)
            parts.append(f"## {category}\n\n| code | name | severity | fixed | finds |\n|---|---|---|---|---|\n{rows}")
    # A page's own headings go two levels down: it is a part here.
    parts += [re.sub(r"^(#+ )", r"##\1", _outside_code(page(rule)), flags=re.MULTILINE) for rule in rules]
    return "\n".join(parts).replace(_HASH, "#")


def _row(rule: Rule) -> str:
    anchor = f"{rule.code} {rule.name}".lower().replace(" ", "-")
    fixed = "yes" if rule.is_fixable else ""
    cell = summary_of(rule).replace("|", "\\|")
    return f"| [{rule.code}](#{anchor}) | {rule.name} | {rule.severity} | {fixed} | {cell} |\n"


# Stands for a hash sign in an example, which opens a comment and no heading.
_HASH = "\0"
_BLOCK = pattern(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _outside_code(text: str) -> str:
    return _BLOCK.sub(lambda found: found[0].replace("#", _HASH), text)
