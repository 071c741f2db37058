"""Agent definitions: one specialist, defined by one Markdown file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A request that an agent should, or should not, be given.

    Attributes:
        text: The request, in a person's words.
        is_for: Whether the agent should be given it.
        instead: Who should be given it, where the definition says so; else empty.
    """

    text: str
    is_for: bool
    instead: str = ""


@dataclass(frozen=True, slots=True)
class DefinitionWarning:
    """Something in a definition that was read all the same.

    Attributes:
        path: The file.
        line: From 1.
        problem: What is odd.
        remedy: How to mend it.
    """

    path: str
    line: int
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Agent:
    """A specialist, as its definition says it.

    Attributes:
        name: How it is called; a project's own agents are `project:NAME`.
        description: What it is for and when to use it; the router reads this.
        model: `opus`, `sonnet`, `haiku`, `inherit` or a model's full name.
        tools: Tools it may use, as the definition names them; None where the definition does not say.
        skills: Skills it may load.
        domain: What it owns, in a word or two, as the handoff protocol says it.
        handles: What it takes on.
        declines: What it does not take on.
        hands_off_to: Agents that it names as neighbours.
        examples: Requests for and against it.
        body: The instructions, as Markdown.
        path: Where the definition was read from.
        sha256: Digest of the definition's bytes.
        oddities: What was odd about the file.
        provider: Distribution and version, or plugin and digest, that it comes from; empty for a project's own.
    """

    name: str
    description: str
    model: str
    tools: tuple[str, ...] | None
    skills: tuple[str, ...]
    domain: str
    handles: tuple[str, ...]
    declines: tuple[str, ...]
    hands_off_to: tuple[str, ...]
    examples: tuple[Example, ...]
    body: str
    path: str
    sha256: str
    oddities: tuple[DefinitionWarning, ...]
    provider: str = ""
