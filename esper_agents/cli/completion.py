"""Shell completion for bash, zsh and fish, without importing a command.

`completion_table.py` lists commands, options and the kinds of their values; `checks/completion_table.py` writes it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE = "_ESPER_COMPLETE"
"""Environment variable with which the scripts of `esper --install-completion` request candidates."""
_SHELLS = ("complete_bash", "complete_zsh", "complete_fish")


def is_requested() -> bool:
    """Return whether a shell requests candidates."""
    return os.environ.get(VARIABLE) in _SHELLS


def complete() -> int:
    """Print the candidates for the requesting shell, and return the exit code.

    Prints none where the shell itself completes paths.
    """
    shell = os.environ[VARIABLE]
    words, incomplete = _from_bash() if shell == "complete_bash" else _from_line()
    found = dict(candidates(words, incomplete))
    match shell:
        case "complete_bash":
            sys.stdout.write("\n".join(found))
        case "complete_zsh":
            listed = "\n".join(
                f'"{_in_zsh(name)}":"{_in_zsh(text)}"' if text else f'"{_in_zsh(name)}"' for name, text in found.items()
            )
            sys.stdout.write(f"_arguments '*: :(({listed}))'" if found else "_files")
        case _:
            if os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
                return int(not found)
            sys.stdout.write("\n".join(f"{name}\t{text}" if text else name for name, text in found.items()))
    return 0


def _from_bash() -> tuple[list[str], str]:
    position = os.environ.get("COMP_CWORD", "")
    words = _split(os.environ.get("COMP_WORDS", ""))
    number = int(position) if position.isdecimal() else len(words)
    return words[1:number], words[number] if number < len(words) else ""


def _from_line() -> tuple[list[str], str]:
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    return (words, "") if not words or line.endswith(" ") else (words[:-1], words[-1])


def _split(line: str) -> list[str]:
    import shlex

    try:
        return shlex.split(line)
    except ValueError:
        # An open quote.
        return line.split()


def _in_zsh(text: str) -> str:
    for character, quoted in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", "\\\\:")):
        text = text.replace(character, quoted)
    return text


def candidates(words: list[str], incomplete: str) -> Iterable[tuple[str, str]]:
    """Return the candidates for a word, each with its short help.

    Args:
        words: The words of the command line before it, without `esper`.
        incomplete: The beginning of the word.
    """
    from esper_agents.cli.completion_table import TABLE

    path, options, kind, number = "", TABLE[""][1], "", 0
    for word in words:
        child = f"{path} {word}".strip()
        if kind:
            kind = ""
        elif word.startswith("-"):
            kind = "" if "=" in word else options.get(word, "")
        elif child in TABLE:
            path, options, number = child, TABLE[child][1], 0
        else:
            number += 1
    subcommands = {name: TABLE[f"{path} {name}".strip()][0] for name in TABLE[path][3]}
    if kind:
        found = _values(kind)
    elif incomplete.startswith("-"):
        found = [(name, "") for name in (*options, "--help")]
    elif subcommands:
        found = list(subcommands.items())
    else:
        kinds = TABLE[path][2]
        found = _values(kinds[min(number, len(kinds) - 1)]) if kinds else []
    return [(name, text) for name, text in found if name.startswith(incomplete)]


def _values(kind: str) -> list[tuple[str, str]]:
    match kind:
        case "agent":
            from esper_agents.api import agent_names

            return [(name, "") for name in agent_names()]
        case "certificate" | "session":
            from esper_agents.api import recent_ids

            return [("latest", ""), *((each, text) for each, text in recent_ids(kind))]
        case "rule":
            from esper_agents.api import rule_codes

            return rule_codes()
        case "status":
            from esper_agents.cli.completion_table import STATUSES

            return [(name, "") for name in STATUSES]
        case _:
            return [(name, "") for name in kind.split("|") if name] if "|" in kind else []
