"""Options, output and exit code of `esper pr`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.review.command import FailOn, finish, write_output
from esper_agents.cli.shared_options import HERE, ProjectOption
from esper_agents.cli.terminal import echo, redact, report
from esper_agents.domain.gate_level import GateLevel
from esper_agents.errors import CodeHostError, EsperError, StorageError, UsageError

if TYPE_CHECKING:
    from esper_agents.api import PullRequestReview

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class PullRequestFormat(StrEnum):
    """Output format of the review of a pull request."""

    MARKDOWN = "markdown"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    SARIF = "sarif"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(pr)


def pr(
    base: Annotated[
        str, typer.Option(metavar="REV", help="Branch to compare with [default: of the CI job, or main]")
    ] = "",
    style: Annotated[PullRequestFormat, typer.Option("--format", help="Output format")] = PullRequestFormat.MARKDOWN,
    post: Annotated[bool, typer.Option("--post", help="Create or update one comment on the pull request")] = False,
    require_comment: Annotated[
        bool, typer.Option("--require-comment", help="With --post: fail if no comment can be posted")
    ] = False,
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Author of the comment to update [default: token owner]")
    ] = "",
    fail_on: Annotated[FailOn, typer.Option(help="Exit 3 on findings of this severity or higher")] = FailOn.CRITICAL,
    gate: Annotated[
        GateLevel, typer.Option(help="Fail on uncovered files, on verdicts against files, or never")
    ] = GateLevel.AGAINST,
    trust: Annotated[
        list[str] | None,
        typer.Option("--trusted-key", metavar="KEY|FILE", help="Additional trusted public key (repeatable)"),
    ] = None,
    accept_overrides: Annotated[
        bool, typer.Option("--accept-overrides", help="Accept overrides that improve a status")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the report to this file")
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Also write the findings as SARIF to this file")
    ] = None,
    project: ProjectOption = HERE,
) -> None:
    """Review a branch for its pull request (CI).

    Compares the work tree with its merge base: new findings with patches, removed guards, the verdict of certificates
    on the changed files, and the command that would give a better one. No code is executed and no certificate issued.

    --format github prints annotations, at most ten of each level, and appends the report to $GITHUB_STEP_SUMMARY.
    --format gitlab prints a Code Quality report. With --post, both formats create one comment, or update the one that
    the same author created before, through the API of the code host with the token of the environment (GITHUB_TOKEN,
    GITLAB_TOKEN). A comment that cannot be posted, as in a job for a fork, is one line on standard error.

    Exits with 3 on a finding at the level of --fail-on or a certificate against a changed file, 7 if a certificate was
    modified, 4 if a changed file cannot be read.

    Examples:
      esper pr
      esper pr --base origin/release
      esper pr --format github --post
      esper pr --format junit --output pr.xml
    """
    if (require_comment or author) and not post:
        raise UsageError("--require-comment and --author belong to --post", remedy="esper pr --format github --post")
    if post and style not in {PullRequestFormat.GITHUB, PullRequestFormat.GITLAB}:
        raise UsageError(f"--post does not post {style}", remedy="use --format github or --format gitlab")
    from esper_agents.api import read_trusted_keys, review_pull_request
    from esper_agents.cli.review.progress import progress_line

    with progress_line() as on_progress:
        review = asyncio.run(
            review_pull_request(
                project,
                base=base,
                environment=os.environ,
                trusted_keys=[signer for each in trust or () for signer in read_trusted_keys(each)],
                accepts_overrides=accept_overrides,
                fail_on=gate,
                on_progress=on_progress,
            )
        )
    review = redact(review)
    write_output(_formatted(review, style), output, is_data=True)
    if sarif is not None:
        write_output(_formatted(review, PullRequestFormat.SARIF), sarif)
    if style is PullRequestFormat.GITHUB:
        _summarize(review)
    if post:
        _post(review, style, author=author, is_required=require_comment)
    if review.gate.exit_code:
        raise typer.Exit(review.gate.exit_code)
    finish(review.outcome, fail_on, allows_unread=False)


def _formatted(review: PullRequestReview, style: PullRequestFormat) -> str:
    from esper_agents.cli.pr.comment import as_comment
    from esper_agents.cli.pr.outputs import as_code_quality, as_junit

    match style:
        case PullRequestFormat.MARKDOWN:
            return as_comment(review)
        case PullRequestFormat.GITHUB:
            from esper_agents.api import as_annotations

            return as_annotations(review.outcome, is_limited=True)
        case PullRequestFormat.GITLAB:
            return as_code_quality(review)
        case PullRequestFormat.JUNIT:
            return as_junit(review)
        case PullRequestFormat.SARIF:
            from esper_agents.api import review_as_sarif

            log = review_as_sarif(review.outcome, options=review.options)
            return json.dumps(log, indent=1, sort_keys=True) + "\n"


def _summarize(review: PullRequestReview) -> None:
    """Append the report to the summary of a GitHub job, if there is one.

    Raises:
        StorageError: The file cannot be written.
    """
    from esper_agents.cli.pr.comment import as_comment

    file = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(as_comment(review, blob_url=_blob_url(review)))
    except OSError as error:
        raise StorageError(
            f"{file!r} cannot be written: {error.strerror}", remedy="unset GITHUB_STEP_SUMMARY, or name a writable file"
        ) from error


def _post(review: PullRequestReview, style: PullRequestFormat, *, author: str, is_required: bool) -> None:
    """Create or update the comment; report an error of the code host in two lines, unless the comment is required.

    Raises:
        CodeHostError: The comment is required and cannot be posted.
        UsageError: The environment is not that of a job for a pull request.
    """
    from esper_agents.api import CodeHost, post_comment, pull_request_of
    from esper_agents.cli.pr.comment import as_comment

    host = CodeHost.GITHUB if style is PullRequestFormat.GITHUB else CodeHost.GITLAB
    body = as_comment(review, blob_url=_blob_url(review))
    try:
        posted = post_comment(pull_request_of(host, os.environ), body, author=author)
    except EsperError as error:
        if is_required or not isinstance(error, CodeHostError):
            raise
        report(error)
        return
    said = f"comment {'created' if posted.is_new else 'updated'}{f': {posted.url}' if posted.url else ''}"
    if style is PullRequestFormat.GITHUB:
        echo(said)
    else:
        # Standard output is the Code Quality report.
        sys.stderr.write(f"{said}\n")


def _blob_url(review: PullRequestReview) -> str:
    """Return the address of the reviewed files in a job of GitHub; empty elsewhere."""
    server, repository = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    if not server.startswith("https://") or not server.isascii() or not _REPOSITORY.fullmatch(repository):
        return ""
    return "" if set(server) & set("()<> \\\"'`") else f"{server}/{repository}/blob/{review.head}"
