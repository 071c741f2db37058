"""Decide tool calls by permission rules: deny, then ask, then allow, then tool risk.

Pure functions. Rules of a source that may only restrict are reduced first, so a project's rule never allows more.
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

# Task options with tool names, separated by spaces.
DENY, ASK, ALLOW = "deny", "ask", "allow"
# Sources that may allow tools: the user's settings and command line.
_MAY_ALLOW = frozenset((RuleSource.PERSON, RuleSource.COMMAND))
_FROM_LEAST = tuple(PermissionDecision)


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """Tool call as matched by rules.

    Attributes:
        tool: Name of the tool.
        risk: Risk of the tool.
        arguments: Arguments, completed with the tool's defaults.
        root: Folder of the project: a path below it is also matched relative to it.
    """

    tool: str
    risk: Risk
    arguments: JsonObject
    root: str = ""


@dataclass(frozen=True, slots=True)
class Permission:
    """Permission decision for a call.

    Attributes:
        action: Whether the call runs, needs approval, or never runs.
        rules: Rules that decided; empty if the tool's risk decided.
    """

    action: PermissionDecision
    rules: tuple[PermissionRule, ...] = ()

    @property
    def because(self) -> str:
        """Sources of the decision as text; empty if no rule decided."""
        said = dict.fromkeys(f"{rule.source}: {rule}" for rule in self.rules)
        return "; ".join(said)


def permission(rules: Sequence[PermissionRule], call: ToolCallRequest) -> Permission:
    """Return the decision for a call: the strictest of all matching rules, whatever their order.

    Only the user's rules can allow a call.
    """
    fitting = [rule for rule in rules if not is_void(rule) and matches_call(rule, call)]
    strictest = max((rule.action for rule in fitting), key=_FROM_LEAST.index, default=by_risk(call.risk))
    return Permission(strictest, tuple(rule for rule in fitting if rule.action is strictest))


def by_risk(risk: Risk) -> PermissionDecision:
    """Return the decision for a call that no rule matches."""
    match risk:
        case Risk.LOW:
            return PermissionDecision.ALLOW
        case Risk.MEDIUM | Risk.HIGH:
            return PermissionDecision.ASK


def is_void(rule: PermissionRule) -> bool:
    """Return whether a rule allows something that its source may not allow."""
    return rule.action is PermissionDecision.ALLOW and rule.source not in _MAY_ALLOW


def restricting_rules(rules: Sequence[PermissionRule]) -> tuple[PermissionRule, ...]:
    """Return the rules that only restrict."""
    return tuple(rule for rule in rules if rule.action is not PermissionDecision.ALLOW)


def task_rules(options: Mapping[str, str]) -> tuple[PermissionRule, ...]:
    """Return the rules in a task's options; they bind all its agents, including consulted ones.

    Allowed tools come from the command line: a project cannot set the options of a task.
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
    """Return a task's options with additional tools that need approval, never run, or run without approval."""
    named = {ASK: ask, DENY: deny, ALLOW: allow}
    said = {name: " ".join(dict.fromkeys((*options.get(name, "").split(), *more))) for name, more in named.items()}
    return {**options, **{name: tools for name, tools in said.items() if tools}}


def digest_of_rules(rules: Sequence[PermissionRule]) -> str:
    """Return the sha256 of rules in their order, as hex digits."""
    return digest_of_value({"rules": rules})


def matches_call(rule: PermissionRule, call: ToolCallRequest) -> bool:
    """Return whether a rule matches a call.

    A value can be written in several ways: `./a`, `b/../a`, `/project/a`. An allow rule matches only if every form
    matches, a restricting rule if any form does.
    """
    if not fnmatchcase(call.tool, rule.tool):
        return False
    return all(_is_like(rule.action, pattern, call, name) for name, pattern in rule.arguments.items())


def _is_like(action: PermissionDecision, pattern: str, call: ToolCallRequest, name: str) -> bool:
    texts = tuple(_texts(call.arguments[name], call.root)) if name in call.arguments else ()
    match action:
        case PermissionDecision.ALLOW:
            return bool(texts) and all(fnmatchcase(text, pattern) for text in texts)
        case PermissionDecision.ASK | PermissionDecision.DENY:
            folded = pattern.casefold()
            return any(fnmatchcase(text, pattern) or fnmatchcase(text.casefold(), folded) for text in texts)


def _texts(value: object, root: str) -> Iterator[str]:
    """Yield every normalized form of an argument; for a list, those of all elements."""
    match value:
        case str():
            yield value
            # In a URL, two slashes are significant.
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
    """Return a tool and its exceptions, such as `run-tests:network`, that rules allow without approval.

    An exception counts only if a rule names it in full: a wildcard does not name a specific exception.
    """
    exceptions = dict.fromkeys(rule.tool for rule in rules if rule.tool.startswith(f"{tool}:"))
    names = (tool, *(exception for exception in exceptions if not set(exception) & set("*?[")))
    return tuple(
        name
        for name in names
        if permission(rules, ToolCallRequest(name, risk, {})).action is PermissionDecision.ALLOW
        and by_risk(risk) is not PermissionDecision.ALLOW
    )


def describe_default(rules: Sequence[PermissionRule], tool: str, risk: Risk) -> str:
    """Return a description of the default decision for a tool's calls; empty if they run without approval."""
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
