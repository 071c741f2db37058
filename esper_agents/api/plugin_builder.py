"""Build a plugin folder for Claude Code from the bundled agents, skills, commands and the MCP server."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from esper_agents.agents.plugins import MANIFEST, PluginPart, load_plugin
from esper_agents.errors import StorageError, UsageError
from esper_agents.paths import data_folder
from esper_agents.tools.client_tools import CERTIFYING, PREFIX, client_tools

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.agents.plugins import Plugin

PLUGIN_NAME = "esper"
_SERVER = "esper"
_MARKETPLACE = ".claude-plugin/marketplace.json"
_DESCRIPTION = "PyTorch specialists whose findings, measurements and verdicts come from the tools of esper-agents"
_README = """\
# esper: PyTorch specialists for Claude Code

Written by `esper plugins build DIR`, esper-agents {version}. Build it again after an update; do not edit it.

The agents call the MCP server `esper mcp`. It must be installed for the command in `.mcp.json`:

    pip install 'esper-agents[mcp,agents]'

Use the plugin in one session:

    claude --plugin-dir PATH_OF_THIS_FOLDER

Install it:

    claude plugin marketplace add PATH_OF_THIS_FOLDER
    claude plugin install esper@esper-agents
"""
_EVIDENCE = """
## Tools in this session

The MCP server `esper` provides the evidence. Call its tools; do not estimate what they can measure.

{table}
- A finding of yours that a tool can show is a claim until the tool shows it.
- A judgement such as "approved" or "1.4x faster" needs a certificate: `submit_task` for a review, `submit_claim` for a
  speedup, a leak or NaN. Follow a session with `get_session`, and quote the status and the ID of its certificate.
- If a tool is refused or missing, say which evidence is missing, and give no verdict.
"""


@dataclass(frozen=True, slots=True)
class BuiltPlugin:
    """A plugin folder as written.

    Attributes:
        plugin: The plugin, as this program loads it.
        server: Command of its MCP server.
    """

    plugin: Plugin
    server: tuple[str, ...]


def build_plugin(folder: Path, *, command: str = "esper") -> BuiltPlugin:
    """Write a plugin folder for Claude Code, and return it as loaded again.

    Args:
        folder: A missing or empty folder.
        command: Command that starts this program, for the MCP server.

    Raises:
        UsageError: The folder is not empty, or the command is not one plain word.
        StorageError: The folder cannot be written.
    """
    if not command.strip() or not command.isprintable() or "${" in command:
        raise UsageError(f"{command!r} is not a program", remedy="name one, such as esper or /opt/esper/bin/esper")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} is not an empty folder", remedy="name a new folder, or empty it first")
    server = (command, "mcp", "--project", ".")
    try:
        for path, text in _files(server).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        shutil.copytree(data_folder("prompts") / "skills", folder / PluginPart.SKILLS)
    except OSError as error:
        problem = f"{str(folder)!r} cannot be written: {(error.strerror or 'unknown reason').lower()}"
        raise StorageError(problem, remedy="name a folder in a writable directory") from error
    return BuiltPlugin(load_plugin(folder), server)


def _files(server: tuple[str, ...]) -> dict[str, str]:
    """Return the generated files by path: everything but the skills, which are copied."""
    prompts = data_folder("prompts")
    about = {"name": PLUGIN_NAME, "version": version("esper-agents"), "description": _DESCRIPTION}
    author = {"name": "The esper-agents authors"}
    owned = {
        "name": "esper-agents",
        "description": _DESCRIPTION,
        "owner": author,
        "plugins": [{**about, "source": "./"}],
    }
    entry = {"command": server[0], "args": list(server[1:])}
    return {
        MANIFEST: _json({**about, "author": author, "license": "Apache-2.0", "keywords": ["pytorch", "code-review"]}),
        _MARKETPLACE: _json(owned),
        ".mcp.json": _json({"mcpServers": {_SERVER: entry}}),
        "README.md": _README.format(version=version("esper-agents")),
        **{
            f"agents/{path.name}": _agent(path.read_text("utf-8")) for path in sorted((prompts / "agents").glob("*.md"))
        },
        **{
            f"commands/{path.name}": _command(path.read_text("utf-8"))
            for path in sorted((prompts / "commands").glob("*.md"))
        },
    }


def _agent(text: str) -> str:
    """Return a definition whose tools are those of Claude Code and of the server."""
    fields, body = _split(text)
    clients, servers = client_tools(fields.get("tools") or ())
    called = [tool for tools in servers.values() for tool in tools]
    skills = ", ".join(f"`{PLUGIN_NAME}:{each}`" for each in fields.pop("skills", None) or ())
    fields["tools"] = [*clients, *(f"{PREFIX}{each}" for each in dict.fromkeys((*called, *CERTIFYING)))]
    rows = [f"| `{name}` | {', '.join(f'`{each}`' for each in tools)} |" for name, tools in servers.items()]
    table = "\n".join(["| in this text | tool of the server |", "|---|---|", *rows, ""]) if rows else ""
    loaded = f"- Load a skill before you work on its subject: {skills}.\n" if skills else ""
    return _document(fields, f"{body.rstrip()}\n{_EVIDENCE.format(table=table)}{loaded}")


def _command(text: str) -> str:
    """Return a command that Claude Code gives to the agent it names."""
    fields, body = _split(text)
    if agent := fields.get("agent"):
        fields |= {"agent": f"{PLUGIN_NAME}:{agent}", "context": "fork"}
    return _document(fields, body)


def _split(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the body of a bundled definition."""
    import yaml

    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def _document(fields: dict[str, Any], body: str) -> str:
    import yaml

    head = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=110)
    return f"---\n{head}---\n\n{body.lstrip()}"


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
