"""Agent definitions: one specialist, defined by one Markdown file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """An example request that an agent should, or should not, receive.

    Attributes:
        text: The request, in a user's words.
        is_for: Whether the agent should receive it.
        instead: The agent that should receive it, if the definition names one; else empty.
    """

    text: str
    is_for: bool
    instead: str = ""


@dataclass(frozen=True, slots=True)
class DefinitionWarning:
    """A warning about a part of a definition that was accepted nevertheless.

    Attributes:
        path: The file.
        line: From 1.
        problem: The unusual part, in words.
        remedy: A fix for it.
    """

    path: str
    line: int
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Agent:
    """A specialist as defined by its definition.

    Attributes:
        name: The agent's name; a project's own agents are `project:NAME`.
        description: Its purpose and when to use it; read by the router.
        model: `opus`, `sonnet`, `haiku`, `inherit` or a model's full name.
        tools: Tools it may use, as the definition names them; None if the definition has no such field.
        skills: Skills it may load.
        domain: Its subject in one or two words, as the handoff protocol states it.
        handles: Tasks that it accepts.
        declines: Tasks that it does not accept.
        hands_off_to: Agents that it names as neighbours.
        examples: Example requests for and against it.
        body: The instructions, as Markdown.
        path: Path of the definition.
        sha256: Digest of the definition's bytes.
        oddities: Warnings about the file.
        provider: Distribution and version, or plugin and digest, that provides it; empty for a project's own agent.
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
