"""Table of the commands: short help and modules of each, so that a start imports one command and the help none.

`tests/cli/test_command_index.py` compares the table and the help with the commands.
"""

from __future__ import annotations

# Command: short help, and the modules of `esper_agents.cli` that register it and its subcommands.
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "agents": ("Manage agents", ("agents", "route")),
    "answer": ("Answer an agent's question, then resume", ("resume",)),
    "approvals": ("List and answer pending questions", ("approvals",)),
    "approve": ("Approve a tool call or advice, then resume", ("resume",)),
    "certificates": (
        "List, verify and manage certificates",
        ("certificates", "certificate_archive", "certificate_diff", "audit", "override", "countersign"),
    ),
    "db": ("Manage the database", ("db",)),
    "deny": ("Deny a tool call or advice, then resume", ("resume",)),
    "doctor": ("Check the installation and the project", ("doctor",)),
    "gate": ("Require valid certificates for files (CI)", ("gate",)),
    "keys": ("Manage signing keys and trusted keys", ("keys",)),
    "memory": ("Manage what agents remember", ("memory",)),
    "models": ("Manage language models and consent", ("models",)),
    "open": ("Open a certificate in the browser", ("open_certificate",)),
    "plugins": ("Manage plugins", ("plugins",)),
    "resume": ("Resume a session", ("resume",)),
    "retrospect": ("Report recurring patterns over sessions", ("retrospect",)),
    "review": ("Lint Python files with the PyTorch rules", ("review",)),
    "run": ("Submit a task from a template", ("run",)),
    "sessions": ("List and manage sessions", ("sessions", "session_branches", "watch_session")),
    "skills": ("Manage skills", ("skills",)),
    "submit": ("Submit a task and get a certificate", ("submit",)),
    "torch": ("Measure PyTorch code in a sandbox", ("torch",)),
    "trace": ("Export a session as OpenTelemetry spans", ("trace",)),
    "why": ("Explain the verdict of a certificate", ("why",)),
    "worker": ("Run queued and abandoned sessions", ("worker",)),
}
