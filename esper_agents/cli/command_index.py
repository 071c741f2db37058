"""Table of the commands: the short help and the modules of each.

A start imports the modules of one command, and the help none.

`tests/cli/test_command_index.py` compares the table and the help with the commands.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Command: short help, and the modules of `esper_agents.cli` that register it and its subcommands.
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "agents": ("Manage agents", ("agents", "route")),
    "answer": ("Answer an agent's question, then resume", ("resume",)),
    "approvals": ("List and answer pending questions", ("approvals",)),
    "approve": ("Approve a tool call or advice, then resume", ("resume",)),
    "archive": ("Move and prune archives", ("archive",)),
    "certificates": (
        "List, verify and manage certificates",
        (
            "certificates",
            "certificate_upkeep",
            "certificate_archive",
            "certificate_diff",
            "audit",
            "override",
            "countersign",
        ),
    ),
    "cluster": ("Show workers on several machines", ("cluster",)),
    "db": ("Manage the database", ("db",)),
    "deny": ("Deny a tool call or advice, then resume", ("resume",)),
    "dev": ("Write extensions of esper-agents", ("dev",)),
    "doctor": ("Check the installation and the project", ("doctor",)),
    "eval": ("Score answers to the tasks of a suite", ("evaluate",)),
    "explain": ("Explain a stack trace or error message", ("explain",)),
    "gate": ("Require valid certificates for files (CI)", ("gate",)),
    "init": ("Set up a project: key, model, hook and CI", ("init",)),
    "inspect": ("State what code does on a topic", ("inspect",)),
    "keys": ("Manage signing keys and trusted keys", ("keys",)),
    "log": ("Publish and witness transparency logs", ("log",)),
    "mcp": ("Serve a project to coding agents by MCP", ("mcp",)),
    "memory": ("Manage what agents remember", ("memory",)),
    "models": ("Manage language models and consent", ("models",)),
    "open": ("Open a certificate in the browser", ("open_certificate",)),
    "plugins": ("Manage plugins", ("plugins",)),
    "pr": ("Review a branch for its pull request (CI)", ("pr",)),
    "resume": ("Resume a session", ("resume",)),
    "retrospect": ("Report recurring patterns over sessions", ("retrospect",)),
    "review": ("Lint Python files with the PyTorch rules", ("review",)),
    "rule": ("Show lint rules and their documentation", ("rule",)),
    "run": ("Submit a task from a template", ("run",)),
    "serve": ("Serve the archive to the browser", ("serve",)),
    "sessions": ("List and manage sessions", ("sessions", "session_branches", "watch_session")),
    "skills": ("Manage skills", ("skills",)),
    "submit": ("Submit a task and get a certificate", ("submit",)),
    "torch": ("Measure PyTorch code in a sandbox", ("torch",)),
    "trace": ("Export a session as OpenTelemetry spans", ("trace",)),
    "why": ("Explain the verdict of a certificate", ("why",)),
    "worker": ("Run queued and abandoned sessions", ("worker",)),
}

# Subcommands that the first module of their command registers: the other modules are not imported for them.
FREQUENT = {"certificates": ("list", "show", "path"), "sessions": ("list", "search", "show", "cancel")}


def modules_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the modules that register the command of a command line; those of all commands if it names none."""
    if not words or words[0] not in COMMANDS:
        return tuple(dict.fromkeys(name for _, modules in COMMANDS.values() for name in modules))
    modules = COMMANDS[words[0]][1]
    return modules[:1] if words[1:2] and words[1] in FREQUENT.get(words[0], ()) else modules


SUMMARY = """Review, measure and certify PyTorch code

Start with: esper submit "review this training code" train.py
"""
_OPTIONS = """\
  -V, --version         Show the version and exit
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  --help                Show this message and exit.
"""


def overview() -> str:
    """Return the help of `esper`."""
    summary = "\n".join(f"  {line}" if line else "" for line in SUMMARY.splitlines())
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {short_help}" for name, (short_help, _) in COMMANDS.items())
    return f"Usage: esper [OPTIONS] COMMAND [ARGS]...\n\n{summary}\n\nOptions:\n{_OPTIONS}\nCommands:\n{commands}\n"
