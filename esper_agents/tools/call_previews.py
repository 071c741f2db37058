"""Previews of tool calls for the user who approves them: a unified diff, or a command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import unified_diff
from shlex import join
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError
from esper_agents.tools.file_access import writable
from esper_agents.tools.file_edits import LARGEST_BYTES
from esper_agents.tools.secret_stores import secret_store

if TYPE_CHECKING:
    from esper_agents.domain.agent_action import ToolCall
    from esper_agents.domain.codec import JsonObject
    from esper_agents.tools.tool import ToolContext

_WRITE = "write-file"
# Arguments that a preview shows, by tool.
_SHOWN = {
    "edit-file": ("path", "old_string", "new_string", "replace_all"),
    _WRITE: ("path", "content"),
    "shell": ("command",),
    "run-tests": ("paths",),
    "run-python": ("code",),
}


def pytest_argv(call: ToolCall) -> tuple[str, ...]:
    """Return the command of a call of run-tests: pytest with its paths."""
    paths = call.arguments.get("paths")
    return ("pytest", *map(str, paths if isinstance(paths, list | tuple) else ()))


def hidden_arguments(call: ToolCall) -> JsonObject:
    """Return the arguments of a call that its preview does not show."""
    shown = _SHOWN.get(call.tool, ())
    return {name: value for name, value in call.arguments.items() if name not in shown}


@dataclass(slots=True)
class CallPreviews:
    """Previews of the calls of one turn, in order: an edit is shown on top of the earlier edits of its file.

    Attributes:
        context: The project.
    """

    context: ToolContext
    _texts: dict[str, str] = field(default_factory=dict)

    def preview(self, call: ToolCall) -> str:
        """Return a call as a diff or a command line; empty if its arguments are best shown as they are."""
        arguments = call.arguments
        match call.tool:
            case "edit-file" | "write-file":
                return self._diff(call)
            case "shell":
                return f"$ {arguments.get('command', '')}"
            case "run-tests":
                return f"$ {join(pytest_argv(call))}"
            case "run-python":
                return f"$ python - <<'EOF'\n{arguments.get('code', '')}\nEOF"
            case _:
                return ""

    def _diff(self, call: ToolCall) -> str:
        path = str(call.arguments.get("path", ""))
        try:
            inside = writable(self.context, path).relative_to(self.context.root.resolve()).as_posix()
            before = self._texts[inside] if inside in self._texts else self._text(path)
            after = _changed(call, before or "")
        except EvidenceError as error:
            return f"(the call will fail: {error.problem})"
        self._texts[inside] = after
        lines = unified_diff(
            (before or "").splitlines(),
            after.splitlines(),
            "/dev/null" if before is None else f"a/{inside}",
            f"b/{inside}",
            lineterm="",
        )
        return "\n".join(lines) or f"(no change of {inside})"

    def _text(self, path: str) -> str | None:
        """Return the content of a file as text; None if it does not exist."""
        target = self.context.within(path)
        if not target.exists():
            return None
        if target.stat().st_size > LARGEST_BYTES:
            raise EvidenceError(f"{path!r} has over {LARGEST_BYTES} bytes", remedy="change it yourself")
        data = target.read_bytes()
        if why := secret_store(data, path):
            raise EvidenceError(f"{path!r} is not shown: it holds {why}", remedy="deny the call")
        return data.decode("utf-8", "replace")


def _changed(call: ToolCall, text: str) -> str:
    """Return a text after a call of edit-file or write-file."""
    if call.tool == _WRITE:
        return str(call.arguments.get("content", ""))
    old, new = (str(call.arguments.get(name, "")) for name in ("old_string", "new_string"))
    count = text.count(old) if old else 0
    if count == 0 or (count > 1 and not call.arguments.get("replace_all")):
        problem = f"the text to replace occurs {count} times in {call.arguments.get('path')!r}"
        raise EvidenceError(problem, remedy="deny the call")
    return text.replace(old, new)
