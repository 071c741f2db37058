"""Entry point of `esper`: builds the command tree, runs it, and maps errors to exit codes.

The top level imports only modules that Python loads at startup: Ctrl-C during the import of `main` cannot be caught.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from types import FrameType, TracebackType
    from typing import Any

    import typer
else:
    # The module `signal` loads `enum` and more, and Ctrl-C while it does could not be caught.
    import _signal as signal


def build(words: Sequence[str] = ()) -> typer.Typer:
    """Return the `esper` command with its subcommands.

    Args:
        words: The command line. If it names a command, only that is registered: building all takes ten times as long.
    """
    import importlib

    import typer

    from esper_agents.cli.command_index import COMMANDS, SUMMARY, modules_of
    from esper_agents.cli.lightweight_commands import LightweightGroup, make_lightweight, only

    is_named = bool(words) and words[0] in COMMANDS
    app = typer.Typer(
        name="esper",
        cls=LightweightGroup,
        help=SUMMARY,
        no_args_is_help=True,
        add_completion=not is_named,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    # Without a callback, Typer would treat the name of a single command as its argument.
    app.callback()(_options())
    for name in modules_of(words):
        module = importlib.import_module(f"esper_agents.cli.{name}")
        # The others add subcommands to a group when they are imported.
        if register := getattr(module, "register", None):
            register(app)
    if is_named:
        only(app, words)
    make_lightweight(app)
    derive_short_help(app)
    return app


def derive_short_help(app: typer.Typer) -> None:
    """Set the short help of commands and groups to the first line of their docstring, without the full stop."""
    for command in app.registered_commands:
        command.short_help = _first_line(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is None:
            continue
        derive_short_help(group.typer_instance)
        callback = group.typer_instance.registered_callback
        if callback is not None and not isinstance(group.typer_instance.info.help, str):
            group.short_help = _first_line(callback.callback)


def _first_line(function: object) -> str:
    from inspect import getdoc

    return (getdoc(function) or "").partition("\n")[0].removesuffix(".")


def _options() -> Any:
    import typer

    def show_version(asked: bool) -> None:
        if asked:
            _say_version()
            raise typer.Exit

    def options(
        version: bool = typer.Option(
            False, "-V", "--version", is_eager=True, callback=show_version, help="Show the version and exit"
        ),
    ) -> None:
        del version

    return options


def _say_version() -> None:
    from importlib.metadata import version

    sys.stdout.write(f"esper-agents {version('esper-agents')}\n")


def main() -> None:
    """Run the command line and exit with the matching code of `errors.ExitCode`."""
    if sys.platform == "win32":
        sys.stderr.write(
            "esper: Windows is not supported\n  fix: use WSL2: run `wsl --install`, then install it there\n"
        )
        sys.exit(2)
    _collect_rarely()
    # A background process ignores Ctrl-C; keep it that way.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        sys.exit(_main())
    signal.signal(signal.SIGINT, _quit)
    code = 1
    try:
        code = _main()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _quit)
        code = _interrupted()
    finally:
        # The exit code is known; Ctrl-C during interpreter shutdown would print a traceback.
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    sys.exit(code)


def _collect_rarely() -> None:
    """Let the garbage collector run rarely, and not at the end.

    Nearly everything that a command imports lives to its end. Looking through it again and again while it is imported,
    and once more when the interpreter shuts down, took a sixth of the time of listing certificates. A session without a
    model creates 275,000 objects that live on: two collections of 100,000 took 5 % of its time.
    """
    import atexit
    import gc

    gc.set_threshold(400_000, 20, 50)
    atexit.register(gc.freeze)


def _quit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal handlers are called
    """Exit before a command has started, when there is nothing to clean up."""
    os.write(2, b"esper: interrupted\n")
    os._exit(130)


def _interrupted() -> int:
    """Report the interruption and the command that resumes the session, if there is one."""
    from esper_agents.cli.begun import sessions
    from esper_agents.cli.terminal import report
    from esper_agents.errors import ExitCode, InterruptedCommandError

    if sessions:
        remedy = f"go on with `esper resume {sessions[-1]}`"
        report(InterruptedCommandError("interrupted; finished steps are saved", remedy=remedy))
    else:
        report(InterruptedCommandError("interrupted", remedy=""))
    return ExitCode.INTERRUPTED


def _main() -> int:  # noqa: PLR0911 - one for each way to end
    _open_closed_streams()
    from esper_agents.cli.completion import complete, is_requested

    if is_requested():
        return complete()
    if sys.argv[1:] in (["--version"], ["-V"]):
        _say_version()
        return 0
    if sys.argv[1:] == ["--help"] and _has_written_overview():
        return 0
    sys.excepthook = _last_words
    # This deprecated variable makes LangChain's core refuse to run; esper does not trace there.
    os.environ.pop("LANGCHAIN_TRACING", None)
    import typer

    from esper_agents.api import take_key_file
    from esper_agents.cli.terminal import report
    from esper_agents.errors import EsperError, ExitCode, StorageError

    take_key_file()
    try:
        return _run()
    except EsperError as error:
        report(error)
        return error.exit_code
    except typer.TyperException as error:
        _explain(error)
        return ExitCode.USAGE
    except typer.Abort:
        return _interrupted()
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does; this is not an error.
        _give_up_output()
        return ExitCode.DONE
    except OSError as error:
        if error.filename is not None:
            raise
        _give_up_output()
        report(
            StorageError(
                f"the output cannot be written: {error.strerror}", remedy="free disk space, or write to another disk"
            )
        )
        return ExitCode.FAILED


def _has_written_overview() -> bool:
    """Write the help of `esper` without importing a command, and return whether that succeeded."""
    from esper_agents.cli.command_index import overview

    try:
        sys.stdout.write(overview())
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _open_closed_streams() -> None:
    """Replace standard streams that the caller closed; otherwise the next opened file would get their descriptor."""
    from pathlib import Path

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end


def _run() -> int:
    import typer

    from esper_agents.errors import ExitCode

    # Not the Typer object itself: calling that puts its own excepthook in place of ours.
    command = typer.main.get_command(build(sys.argv[1:]))
    keep_examples(command)
    # From here on, Ctrl-C may require cleanup.
    if signal.getsignal(signal.SIGINT) is _quit:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = command(standalone_mode=False)
    sys.stdout.flush()
    if code == ExitCode.INTERRUPTED:
        # Typer converts Ctrl-C to this code without a message.
        raise KeyboardInterrupt
    return int(code or 0)


def _give_up_output() -> None:
    """Discard all further writes to standard output, including buffered data."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def keep_examples(command: object) -> None:
    """Keep the line breaks of examples in help texts, by inserting click's no-rewrap marker."""
    if text := getattr(command, "help", None):
        setattr(command, "help", text.replace("\nExamples:\n", "\n\b\nExamples:\n"))  # noqa: B010 - any command
    for each in getattr(command, "commands", {}).values():
        keep_examples(each)


def _explain(error: typer.TyperException) -> None:
    """Report a command line error; a command without required arguments prints its help."""
    from esper_agents.cli.terminal import echo, report
    from esper_agents.errors import UsageError

    if type(error).__name__ == "NoArgsIsHelpError":
        echo(str(error))
    else:
        report(UsageError(_said(error), remedy=_help_of(error)))


def _said(error: typer.TyperException) -> str:
    """Return the message of a command line error, in lower case and without a full stop."""
    text = str(getattr(error, "format_message", lambda: error)()).strip().rstrip(".").replace(": Value error, ", ": ")
    return text[:1].lower() + text[1:]


def _help_of(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"run `{context.command_path if context else 'esper'} --help`"


def _last_words(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an internal error without its traceback, which is shown only if ESPER_TRACEBACK is set."""
    if os.environ.get("ESPER_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
        return
    from esper_agents.cli.terminal import report
    from esper_agents.errors import EsperError

    remedy = "run it again with ESPER_TRACEBACK=1 and report what it prints; recorded steps are safe"
    report(EsperError(f"internal error: {kind.__name__}: {error}", remedy=remedy))


if __name__ == "__main__":
    main()
