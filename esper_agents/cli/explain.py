"""`esper explain`: command that explains stack traces and error messages."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.lightweight_commands import LightweightCommand
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json, say
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.api import TraceExplanation

_COMMAND = "esper.explain.command"


class _ExplainCommand(LightweightCommand):
    """Command whose words after `--` are a command line of their own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the words after `--` aside."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=_ExplainCommand)(explain)


def explain(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE|TEXT]", help="Log file, `-` for standard input, or the message")
    ] = None,
    session: Annotated[str, typer.Option(metavar="ID", help="Explain the error of a stored session")] = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Explain a stack trace or error message.

    Reads a log from FILE or standard input, takes the message itself, or runs the command after `--` as it is, outside
    of the sandbox, and explains its failure. The command's output and exit code are passed through. Nothing is stored.

    Frames are mapped to the lines of the project, also from another machine or after lines moved.
    Exit code 0: the error is known; 4: it is not known; 2: the text contains no error.

    Examples:
      esper explain crash.log
      python train.py 2>&1 | esper explain -
      esper explain "RuntimeError: Trying to backward through the graph a second time"
      esper explain -- python train.py --epochs 1
      esper explain --session latest
      esper explain crash.log --json
    """
    given = " ".join(words or [])
    command = context.meta.get(_COMMAND)
    if command is not None:
        raise typer.Exit(_explain_command(command, given or session, project, as_json=as_json))
    from esper_agents.api import explain_trace

    if session and given:
        raise UsageError("--session names the text already", remedy=f"esper explain --session {session}")
    explanation = _of_session(session, project) if session else explain_trace(_text(given), project)
    _print(explanation, as_json=as_json)
    raise typer.Exit(ExitCode.DONE if explanation.family else ExitCode.UNDECIDED)


def _explain_command(command: list[str], file: str, project: Path, *, as_json: bool) -> int:
    """Run a command and explain its failure on standard error; as JSON on standard output."""
    if not command or file:
        raise UsageError("name either a log file or, after --, a command", remedy="esper explain -- python train.py")
    from esper_agents.api import explain_command

    result = explain_command(command, project)
    if result.explanation is not None:
        if as_json:
            _print(result.explanation, as_json=True)
        else:
            with redirect_stdout(sys.stderr):
                sys.stdout.write("\n")
                _print(result.explanation, as_json=False)
    elif result.exit_code:
        with redirect_stdout(sys.stderr):
            say("answer", f"the command failed with exit code {result.exit_code} and printed no error message")
    return result.exit_code


def _of_session(session: str, project: Path) -> TraceExplanation:
    import asyncio

    from esper_agents.api import open_project

    async def explained() -> TraceExplanation:
        async with open_project(project) as opened:
            return await opened.traces.explain_session(session)

    return asyncio.run(explained())


def _text(file: str) -> str:
    """Return the text of a file or of standard input, or the given text itself."""
    if not file and sys.stdin.isatty():
        raise UsageError(
            "no log file was named", remedy="esper explain crash.log, or pipe the log to `esper explain -`"
        )
    if file in {"", "-"}:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    from esper_agents.api import is_error_text, read_trace_file

    return file if is_error_text(file) else read_trace_file(Path(file))


def _print(explanation: TraceExplanation, *, as_json: bool) -> None:
    if as_json:
        data = asdict(explanation)
        data["location"] = str(explanation.location) if explanation.location else None
        data["also"] = [str(place) for place in explanation.also]
        del data["examined"]
        echo_json(data)
        return
    say("answer", " ".join(each for each in (explanation.answer, explanation.fix) if each))
    for alternative in explanation.alternatives:
        say("other", alternative)
    if explanation.why:
        say("why", explanation.why)
    for frame in explanation.frames:
        say("frame", frame)
    _print_rest(explanation)


def _print_rest(explanation: TraceExplanation) -> None:
    """Print what else the text and the project contain, and what to do next."""
    if explanation.also:
        say("also", "the same pattern is at " + ", ".join(map(str, explanation.also)))
    for finding in explanation.findings:
        say("finding", finding)
    if explanation.others:
        say("note", f"{explanation.others} more in this text; the first relevant one is explained")
    for error in explanation.other_errors:
        say("", error)
    for source in explanation.sources[:1]:
        say("source", source)
    if explanation.next:
        say("next", explanation.next)
