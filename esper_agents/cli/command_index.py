"""Table of the commands: short help and modules of each, so that a start imports no other command.

`tests/cli/test_command_index.py` compares it with the commands, and prints what belongs here.
"""

from __future__ import annotations

# Command: short help, and the modules of `esper_agents.cli` that register it and its subcommands.
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "agents": ("List, show, check and export agents.", ("agents", "route")),
    "answer": ("Answer an agent's question, and go on.", ("resume",)),
    "approvals": ("What waits for you, and your answers.", ("approvals",)),
    "approve": (
        "Agree to the one tool call, or the one piece of advice, that a question names, and go on.",
        ("resume",),
    ),
    "certificates": (
        "What has been certified.",
        ("certificates", "certificate_archive", "certificate_diff", "audit", "override", "countersign"),
    ),
    "db": ("The database: its state, upgrade, backup, and what is not needed.", ("db",)),
    "deny": (
        "Refuse the one tool call, or the one piece of advice, that a question names, and go on without it.",
        ("resume",),
    ),
    "doctor": ("Show what is where, and what is wrong with it; exits with 1 where something is.", ("doctor",)),
    "gate": ("Answer by exit code whether certificates that are genuine and current cover what is there.", ("gate",)),
    "keys": ("Keys that sign certificates, and whose are trusted.", ("keys",)),
    "memory": ("What agents keep between sessions.", ("memory",)),
    "models": ("Show models, their prices and what they have cost; agree to what they may read.", ("models",)),
    "open": (
        "Open a certificate in the browser: one page that holds no script and fetches nothing.",
        ("open_certificate",),
    ),
    "plugins": ("Add, list and remove plugins: agents, commands and skills.", ("plugins",)),
    "resume": ("Go on with a session at the first step without a result.", ("resume",)),
    "retrospect": ("What the sessions of a project show together.", ("retrospect",)),
    "review": ("Review Python files for what goes wrong in PyTorch code, without running them.", ("review",)),
    "run": ("Submit a task by a template: ours, or the command of a plugin.", ("run",)),
    "sessions": ("What has been submitted, and how far it is.", ("sessions", "session_branches", "watch_session")),
    "skills": ("List, show and check skills.", ("skills",)),
    "submit": ("Give a task to the specialists; it ends with a certificate.", ("submit",)),
    "torch": (
        "Measure PyTorch code: each run in a confined process of its own, every number taken there and then.",
        ("torch",),
    ),
    "trace": (
        "Make OpenTelemetry spans of a session from its record: of its agents, their turns and their tool calls.",
        ("trace",),
    ),
    "why": (
        "Show why a certificate says what it says: its status, the lines of the policy, the findings, the evidence.",
        ("why",),
    ),
    "worker": ("Run sessions that were queued with `esper submit --queue`, and those whose owner died.", ("worker",)),
}
