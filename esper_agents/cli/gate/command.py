"""Options and output of `esper gate`."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import asdict
from difflib import get_close_matches
from enum import StrEnum
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.indented_output import outlined
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption, WitnessOption
from esper_agents.cli.terminal import echo, json_text, one_line, redact
from esper_agents.domain.gate_level import GateLevel
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import Status
from esper_agents.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.api import GateResult

_REVIEWER = "pytorch-code-reviewer"
_NEVER_COUNTED = frozenset((Status.RECOMMEND, Status.DO_NOT_RECOMMEND, Status.ADVISORY_ONLY))
_MOST_SHOWN = 50
# More files are not listed in a command.
_MOST_NAMED = 5


class GateFormat(StrEnum):
    """Output format of the gate."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"
    JUNIT = "junit"
    SARIF = "sarif"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(gate)


def gate(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATHS", help="Files and directories [default: whole project]")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="Accepted status (repeatable) [default: APPROVED, GO]"),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(metavar="AGENT", help=f"Required agent (repeatable) [default: {_REVIEWER}]"),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trusted-key", metavar="KEY|FILE", help="Additional trusted public key (repeatable)"),
    ] = None,
    witness: WitnessOption = None,
    accept_overrides: Annotated[
        bool,
        typer.Option("--accept-overrides", help="Accept overrides that improve a status"),
    ] = False,
    fail_on: Annotated[
        GateLevel, typer.Option("--fail-on", help="Fail on uncovered files, on verdicts against files, or never")
    ] = GateLevel.UNCOVERED,
    diff: Annotated[
        str, typer.Option("--diff", metavar="REV", help="Only files that differ from a revision, or in A..B")
    ] = "",
    style: Annotated[GateFormat, typer.Option("--format", help="Output format")] = GateFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the result to this file")
    ] = None,
    summary: Annotated[Path | None, typer.Option(hidden=True, help="Same as --format markdown --output FILE")] = None,
    sarif: Annotated[Path | None, typer.Option(hidden=True, help="Same as --format sarif --output FILE")] = None,
    junit: Annotated[Path | None, typer.Option(hidden=True, help="Same as --format junit --output FILE")] = None,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Require valid certificates for files (CI).

    The exit code is the answer; no certificate is written. Certificates of approvals and go/no-go questions count.
    Advice and recommendations count neither for nor against a file. A certificate covers a file if its agent reviewed
    the whole file with the rules of all categories. A certificate about a change covers the files that it added, and
    those whose earlier content was covered; with --diff, the content of that revision needs no certificate. With
    --diff A..B, the files are those of B, read from git without a checkout.

    Reads the archive and the published files of the project. A key in the project's .esper/trusted_keys counts only if
    you accepted it (`esper keys trust --from-project`) or pass it with --trusted-key. An override that makes a status
    worse counts; one that makes it better counts only with --accept-overrides.
    With --require-witness, a certificate covers a file only if this witness cosigned a checkpoint of the log with it;
    a verdict against a file needs no witness.

    Exits with 0 if all files are covered; 3 if a certificate is negative or has another status; 8 if a file is not
    covered or has changed; 4 if a certificate is not signed by a trusted key; 7 if a certificate was modified. With
    --fail-on against, exits with 3 or 7 only if a verdict is against a file or a certificate was modified; the other
    results are printed only. With --fail-on never, exits with 0.

    Examples:
      esper gate
      esper gate src --require APPROVED --require CONDITIONALLY_APPROVED --agent pytorch-code-reviewer
      esper gate --diff origin/main
      esper gate --diff main...fix/loss
      esper gate --trusted-key keys/team --format sarif --output gate.sarif
    """
    from esper_agents.api import check_coverage, read_trusted_keys

    required = frozenset(_status(each) for each in require) if require else None
    found = asyncio.run(
        check_coverage(
            project,
            paths or (),
            required=required,
            agents=agent or None,
            trusted_keys=[signer for each in trust or () for signer in read_trusted_keys(each)],
            accepts_overrides=accept_overrides,
            since=diff,
            fail_on=fail_on,
            witnesses=witness or (),
        )
    )
    for file, written in ((summary, GateFormat.MARKDOWN), (sarif, GateFormat.SARIF), (junit, GateFormat.JUNIT)):
        if file is not None:
            _write(file, _formatted(found, written, diff))
    text = _formatted(found, GateFormat.JSON if as_json else style, diff)
    if output is not None:
        _write(output, text)
    else:
        echo(text.removesuffix("\n"), is_data=as_json or style is not GateFormat.TEXT)
    raise typer.Exit(found.exit_code)


def _formatted(found: GateResult, style: GateFormat, since: str) -> str:
    """Return the result in an output format, without secrets."""
    from esper_agents.cli.gate.outputs import as_annotations, as_junit, as_markdown, as_sarif

    found = redact(found)
    match style:
        case GateFormat.TEXT:
            return "".join(f"{line}\n" for line in _lines(found, since))
        case GateFormat.JSON:
            coverage = [asdict(each) for each in found.coverage]
            about = {"root": str(found.root), "commit": found.commit}
            return json_text({**about, "coverage": coverage, "exit_code": int(found.exit_code)})
        case GateFormat.MARKDOWN:
            return as_markdown(found.coverage)
        case GateFormat.GITHUB:
            return as_annotations(found.coverage)
        case GateFormat.JUNIT:
            return as_junit(found.coverage)
        case GateFormat.SARIF:
            return json.dumps(as_sarif(found.coverage), indent=2) + "\n"


def _lines(found: GateResult, since: str) -> Iterator[str]:
    from esper_agents.api import CoverageState

    worst = list(CoverageState)
    bad = [each for each in found.coverage if each.standing is not CoverageState.COVERED]
    bad.sort(key=lambda each: (worst.index(each.standing), each.path))
    covered = len(found.coverage) - len(bad)
    certificates = number_of(found.certificates, "certificate")
    where = f"{found.root} at commit {found.commit[:12]}" if found.commit else str(found.root)
    yield outlined(f"covered: {covered} of {len(found.coverage)}, by {certificates} in {where}")
    for each in bad[:_MOST_SHOWN]:
        by = f" ({each.certificate})" if each.certificate else ""
        yield outlined(f"{each.path}{f' for {each.agent}' if each.agent else ''}: {each.standing}, {each.why}{by}", 1)
    if len(bad) > _MOST_SHOWN:
        yield outlined(f"and {len(bad) - _MOST_SHOWN} more: --format json lists all", 1)
    overridden = [each for each in found.coverage if each.standing is CoverageState.COVERED and each.why]
    for each in overridden[:_MOST_SHOWN]:
        yield outlined(f"{each.path}: {each.standing}, {each.why} ({each.certificate})", 1)
    missing = [each for each in bad if each.standing in {CoverageState.UNCOVERED, CoverageState.NOT_CURRENT}]
    undecided = [each for each in bad if each.standing is CoverageState.UNDECIDED and each.certificate]
    if missing and found.commit:
        yield one_line(f"next: esper submit 'is this change safe to merge?' --diff {shlex.quote(since)}")
    elif missing:
        # Without paths, the task applies to the whole project.
        files = dict.fromkeys(relpath(found.root / each.path) for each in missing)
        named = shlex.join(files) if len(files) <= _MOST_NAMED else ""
        yield one_line(f'next: esper submit "review this training code" {named}')
    elif undecided:
        yield f"next: esper certificates verify {undecided[0].certificate}"


def _status(text: str) -> Status:
    try:
        status = Status(text.upper())
    except ValueError:
        close = get_close_matches(text.upper(), list(Status), n=1)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(Status)}"
        raise UsageError(f"there is no status {text!r}", remedy=hint) from None
    if status in _NEVER_COUNTED:
        counted = ", ".join(each for each in Status if each not in _NEVER_COUNTED)
        raise UsageError(f"--require {status}: the gate counts approvals and go/no-go only", remedy=f"one of {counted}")
    return status


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"{str(file)!r} cannot be written: {error.strerror}"
        raise StorageError(problem, remedy="name a file in a writable directory") from error
