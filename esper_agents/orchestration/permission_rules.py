"""Decide tool calls by permission rules: deny, then ask, then allow, then tool risk.

Pure. What may only tighten is cut down before it is looked at, so another rule of a project never allows more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import TYPE_CHECKING

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.codec import canonical
from esper_agents.domain.evidence import Risk
from esper_agents.domain.permission_rule import PermissionDecision, PermissionRule, RuleSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.codec import JsonObject

# Options of a task under which it names tools, with a space between them.
DENY, ASK, ALLOW = "deny", "ask", "allow"
# Who may allow anything: whoever started the program, by their settings or on its command line.
_MAY_ALLOW = frozenset((RuleSource.PERSON, RuleSource.COMMAND))
_FROM_LEAST = tuple(PermissionDecision)


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A call as rules look at it.

    Attributes:
        tool: The tool's name.
        risk: Its risk.
        arguments: What it is called with, the defaults of the tool filled in.
        root: The project's folder: a path below it is also looked at as the project sees it.
    """

    tool: str
    risk: Risk
    arguments: JsonObject
    root: str = ""


@dataclass(frozen=True, slots=True)
class Permission:
    """What becomes of a call.

    Attributes:
        action: Whether it runs, is asked about, or never runs.
        rules: The rules that say so; none where the tool's risk does.
    """

    action: PermissionDecision
    rules: tuple[PermissionRule, ...] = ()

    @property
    def because(self) -> str:
        """Who said so, in words; empty where no rule did."""
        said = dict.fromkeys(f"{each.source}: {each}" for each in self.rules)
        return "; ".join(said)


def permission(rules: Sequence[PermissionRule], call: ToolCallRequest) -> Permission:
    """Return what becomes of a call: the strictest of all the rules that fit, whatever their order.

    Nobody but the user can allow anything.
    """
    fitting = [rule for rule in rules if not is_void(rule) and matches_call(rule, call)]
    strictest = max((rule.action for rule in fitting), key=_FROM_LEAST.index, default=by_risk(call.risk))
    return Permission(strictest, tuple(rule for rule in fitting if rule.action is strictest))


def by_risk(risk: Risk) -> PermissionDecision:
    """Return what becomes of a call that no rule speaks of."""
    match risk:
        case Risk.LOW:
            return PermissionDecision.ALLOW
        case Risk.MEDIUM | Risk.HIGH:
            return PermissionDecision.ASK


def is_void(rule: PermissionRule) -> bool:
    """Return whether a rule gives leave that whoever made it cannot give."""
    return rule.action is PermissionDecision.ALLOW and rule.source not in _MAY_ALLOW


def restricting_rules(rules: Sequence[PermissionRule]) -> tuple[PermissionRule, ...]:
    """Return the rules that can only take leave away."""
    return tuple(rule for rule in rules if rule.action is not PermissionDecision.ALLOW)


def task_rules(options: Mapping[str, str]) -> tuple[PermissionRule, ...]:
    """Return the rules that a task brings along; all its agents are bound by them, consulted ones too.

    What it allows was said on the command line: nothing of a project makes the options of a task.
    """
    of_option = {
        ASK: (PermissionDecision.ASK, RuleSource.TASK),
        DENY: (PermissionDecision.DENY, RuleSource.TASK),
        ALLOW: (PermissionDecision.ALLOW, RuleSource.COMMAND),
    }
    named = ((said, tool) for name, said in of_option.items() for tool in options.get(name, "").split())
    return tuple(PermissionRule(tool, action, source=source) for (action, source), tool in named)


def restricted(
    options: Mapping[str, str], *, ask: Sequence[str], deny: Sequence[str], allow: Sequence[str] = ()
) -> dict[str, str]:
    """Return a task's options with further tools that are asked about, never run, or run unasked in its session."""
    named = {ASK: ask, DENY: deny, ALLOW: allow}
    said = {name: " ".join(dict.fromkeys((*options.get(name, "").split(), *more))) for name, more in named.items()}
    return {**options, **{name: tools for name, tools in said.items() if tools}}


def digest_of_rules(rules: Sequence[PermissionRule]) -> str:
    """Return the sha256 of rules in their order, as hex digits."""
    return digest_of_value({"rules": rules})


def matches_call(rule: PermissionRule, call: ToolCallRequest) -> bool:
    """Return whether a rule speaks of a call.

    A value can be written in several ways: `./a`, `b/../a`, `/project/a`. A rule that allows fits only where every way
    does, a rule that takes leave away where any does.
    """
    if not fnmatchcase(call.tool, rule.tool):
        return False
    return all(_is_like(rule.action, pattern, call, name) for name, pattern in rule.arguments.items())


def _is_like(action: PermissionDecision, pattern: str, call: ToolCallRequest, name: str) -> bool:
    texts = tuple(_texts(call.arguments[name], call.root)) if name in call.arguments else ()
    match action:
        case PermissionDecision.ALLOW:
            return bool(texts) and all(fnmatchcase(each, pattern) for each in texts)
        case PermissionDecision.ASK | PermissionDecision.DENY:
            folded = pattern.casefold()
            return any(fnmatchcase(each, pattern) or fnmatchcase(each.casefold(), folded) for each in texts)


def _texts(value: object, root: str) -> Iterator[str]:
    """Yield every way to read an argument; those of all members for a list."""
    match value:
        case str():
            yield value
            # In an address two slashes are no way to write one.
            if value and ("://" not in value or ".." in value.split("/")):
                plain = normpath(value)
                yield plain
                if root and (plain + "/").startswith(root.rstrip("/") + "/"):
                    yield plain[len(root.rstrip("/")) + 1 :] or "."
        case list() | tuple():
            for each in value:
                yield from _texts(each, root)
        case Mapping():
            yield canonical(value).decode(errors="surrogatepass")
            for each in value.values():
                yield from _texts(each, root)
        case _:
            yield canonical([value]).decode()[1:-1]


def allowed_names(rules: Sequence[PermissionRule], tool: str, risk: Risk) -> tuple[str, ...]:
    """Return a tool and its exceptions, such as `run-tests:network`, as far as rules let them run unasked.

    Of exceptions only those that a rule names in full: a sign that stands for others says nothing about which.
    """
    exceptions = dict.fromkeys(rule.tool for rule in rules if rule.tool.startswith(f"{tool}:"))
    names = (tool, *(each for each in exceptions if not set(each) & set("*?[")))
    return tuple(
        name
        for name in names
        if permission(rules, ToolCallRequest(name, risk, {})).action is PermissionDecision.ALLOW
        and by_risk(risk) is not PermissionDecision.ALLOW
    )


def describe_default(rules: Sequence[PermissionRule], tool: str, risk: Risk) -> str:
    """Return what becomes of calls of a tool, in words, before there is one; empty where they simply run."""
    said = {
        PermissionDecision.ALLOW: "",
        PermissionDecision.ASK: "asks you first",
        PermissionDecision.DENY: "never runs",
    }
    of_tool = [rule for rule in rules if fnmatchcase(tool, rule.tool)]
    surely = permission([rule for rule in of_tool if not rule.arguments], ToolCallRequest(tool, risk, {}))
    depends = any(rule.arguments and rule.action is not surely.action for rule in of_tool)
    if surely.action is PermissionDecision.DENY or not depends:
        return said[surely.action]
    return ", ".join(filter(None, (said[surely.action], "by its arguments other rules may hold")))
