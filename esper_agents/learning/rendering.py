"""Render the report and the proposed skills as Markdown, with quoted text escaped."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.redaction import redacted
from esper_agents.certificates.views.escaping import EscapedText, MarkdownInk, visible
from esper_agents.domain.pluralize import number_of
from esper_agents.jinja_environment import strict_environment
from esper_agents.learning.facts import facts_of
from esper_agents.learning.report import counted
from esper_agents.review.rule import example_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from esper_agents.learning.facts import Fact
    from esper_agents.learning.model_wording import OmissionReason, WordedSkill
    from esper_agents.learning.report import Retrospect, Suggestion
    from esper_agents.learning.session_summary import SourceRef
    from esper_agents.review.rule import Example, Rule

_INK = MarkdownInk()
_SHORT = 12
_MOST_SOURCES = 10
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def render_report(found: Retrospect) -> str:
    """Return a retrospect as Markdown; equal retrospects give equal text."""
    clean = redacted(found).value
    return _squeezed(_environment().get_template("retrospect.md.j2").render(found=clean, facts=facts_of(clean)))


def render_skill(skill: Suggestion) -> str:
    """Return a proposed skill as the text of its `SKILL.md`.

    It contains the documentation of installed rules and the identifiers of sessions, but nothing of the reviewed code.
    """
    return _squeezed(_environment().get_template("proposed-skill.md.j2").render(skill=skill))


def render_worded_skill(skill: WordedSkill, found: Retrospect) -> str:
    """Return a skill worded by a model as the text of its `SKILL.md`; the model's words are escaped.

    Args:
        skill: The skill.
        found: The report that it belongs to.
    """
    facts = facts_of(found)
    cited = [habit.rule for habit in found.habits if habit.id in skill.facts]
    rules = {rule.code: rule for suggestion in found.suggestions for rule in suggestion.rules if rule.code in cited}
    sources = dict.fromkeys(source for fact in skill.facts for source in facts[fact].sources)
    template = _environment().get_template("worded-skill.md.j2")
    clean = redacted(skill).value
    return _squeezed(template.render(skill=clean, rules=tuple(rules.values()), sources=tuple(sources), found=found))


def _squeezed(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip("\n") + "\n"


@cache
def _environment() -> Environment:
    environment = strict_environment("memory", _escaped)
    environment.filters |= {
        "code": _INK.code,
        "listed": _listed,
        "sources": _sources,
        "counted": _counted,
        "why": _why,
        "example": _example,
        "resting": _resting,
        "quoted": _quoted,
        "left_out": _left_out,
    }
    return environment


def _escaped(value: Any) -> str:
    return value.text if isinstance(value, EscapedText) else _INK.prose(str(value)).text


def _listed(names: Sequence[str]) -> EscapedText:
    return EscapedText(", ".join(_INK.code(name).text for name in names))


def _sources(sources: Sequence[SourceRef]) -> EscapedText:
    named = (source.certificate or source.session for source in sources[:_MOST_SOURCES])
    left = len(sources) - _MOST_SOURCES
    shown = ", ".join(_short(each) for each in named) + (f" and {left} more" if left > 0 else "")
    return EscapedText(f"{_counted(sources)}: {shown}")


def _counted(sources: Sequence[SourceRef]) -> str:
    """Return the number of sessions in words; forks, which count with their origin, are mentioned separately."""
    sessions = counted(sources)
    forks = len(sources) - sessions
    return number_of(sessions, "session") + (f" and {number_of(forks, 'fork')}" if forks else "")


def _resting(names: Sequence[str], facts: Mapping[str, Fact]) -> EscapedText:
    """Return the facts that an item cites, as counted by the program."""
    told = (
        f"  - {name} {_INK.prose(facts[name].title).text}\n    - From {_sources(facts[name].sources).text}"
        for name in dict.fromkeys(names)
    )
    return EscapedText("\n".join(told))


def _quoted(text: str) -> EscapedText:
    """Return text as a YAML scalar on one line."""
    return EscapedText(json.dumps(visible(text), ensure_ascii=False))


def _left_out(why: OmissionReason, count: int) -> str:
    return f"{number_of(count, 'item')} of the model {why} and {'was' if count == 1 else 'were'} omitted"


def _short(identifier: str) -> str:
    """Return the short form of an identifier, which every command accepts."""
    kind, _, rest = identifier.partition("_")
    return f"{kind}_{rest[-_SHORT:]}"


def _why(rule: Rule) -> EscapedText:
    """Return the first paragraph of a rule's documentation, and the cost of the pattern."""
    parts = _SECTION.split(inspect.cleandoc(rule.__doc__ or rule.name))
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    wanted = (parts[0], sections.get("Why it costs", ""))
    return EscapedText("\n\n".join(each.strip() for each in wanted if each.strip()))


def _example(example: Example) -> EscapedText:
    files = example_files(example)
    headed = {path: f"# {path}\n{text}" if len(files) > 1 else text for path, text in files.items()}
    return EscapedText("\n\n".join(f"```python\n{text.strip()}\n```" for text in headed.values()))
