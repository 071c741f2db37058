"""Review of a pull request as one Markdown comment of bounded size."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import quote

from esper_agents.api import COMMENT_MARKER, CoverageState, PullRequest
from esper_agents.cli.pr.markdown import block, code, is_safe_in_log, text
from esper_agents.domain.finding import Severity, counted
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.api import FileCoverage, PullRequestReview
    from esper_agents.domain.finding import Diagnostic

_MOST_FINDINGS = 30
_MOST_FILES = 15
_SHORT = 12
# Reserved for the end of the comment.
_END_BYTES = 1_200
_SUBMIT = 'esper submit {change} --allow run-tests "safe to merge?"'
_PUBLISHED = "docs/ai/agents"


def as_comment(review: PullRequestReview, *, blob_url: str = "", most: int = PullRequest.LONGEST_COMMENT) -> str:
    """Return the comment; its least important parts are omitted if it would be too long.

    Args:
        review: The review, without secrets.
        blob_url: Address of the reviewed files on the code host; locations become links.
        most: Maximum size in bytes.
    """
    comment = _Comment(most - _END_BYTES)
    comment.add(f"{COMMENT_MARKER}\n### esper: {title(review)}\n")
    comment.add(f"**Verdict:** {verdict(review)}\n")
    for paragraph in _to_raise(review):
        comment.add(f"{paragraph}\n")
    for heading, claims in (("Guards and tests removed", review.removals), ("New findings", review.findings)):
        _add_findings(comment, heading, claims, review, blob_url)
    _add_unread(comment, review)
    _add_patches(comment, review)
    _add_coverage(comment, review.gate.coverage)
    return f"{comment.text}\n{_footer(review)}\n"


def title(review: PullRequestReview) -> str:
    """Return the counts of what the review found, worst first."""
    found = []
    if review.outcome.report.claims:
        found.append(f"{counted(claim.severity for claim in review.outcome.report.claims)} introduced")
    if review.removals:
        found[-1] += f" ({number_of(len(review.removals), 'removed guard or test', 'removed guards or tests')})"
    if unread := len(review.outcome.report.unreadable) + len(review.excluded):
        found.append(f"{number_of(unread, 'file')} not reviewed")
    if not review.changed:
        return "no Python source changed"
    return ", ".join(found) or "no new findings"


def verdict(review: PullRequestReview) -> str:
    """Return the verdict that certificates give on the changed files: never more than they do."""
    files = review.gate.coverage
    if not files:
        return "none needed: there is no changed Python source to certify."
    states = Counter(file.standing for file in files)
    if states[CoverageState.TAMPERED]:
        changed = next(file for file in files if file.standing is CoverageState.TAMPERED)
        return f"none. A certificate was modified: {code(changed.certificate or changed.path)}."
    if states[CoverageState.AGAINST]:
        against = [file for file in files if file.standing is CoverageState.AGAINST]
        return f"**{_status(against[0])}**, against {_some_files(against)} ({_certificates(against)})."
    if states[CoverageState.COVERED] == len(files):
        statuses = ", ".join(sorted({_status(file) for file in files}))
        return f"**{statuses}** for {_all_files(len(files))} ({_certificates(files)})."
    missing = [file for file in files if file.standing is not CoverageState.COVERED]
    other = [each for each in missing if each.standing is CoverageState.OTHER_STATUS]
    if other:
        return f"**{_status(other[0])}** for {_some_files(other)} ({_certificates(other)}); merging needs more."
    return (
        f"none yet. No valid certificate covers {len(missing)} of {number_of(len(files), 'changed file')}; "
        "this comment is a static review, and no code was run."
    )


def _to_raise(review: PullRequestReview) -> Iterator[str]:
    """Yield what would give a better verdict, with one command that can be run."""
    states = {each.standing for each in review.gate.coverage}
    if not states - {CoverageState.COVERED}:
        return
    must = Counter(claim.severity for claim in review.outcome.report.claims)[Severity.CRITICAL]
    first = f"fix the {number_of(must, 'critical finding')}, then run" if must else "run"
    yield f"To raise it, {first}:"
    yield block(_SUBMIT.format(change=review.submit_option), "sh")
    yield f"Commit what it publishes under {code(_PUBLISHED)}, so that CI finds the certificate."


def _add_findings(
    comment: _Comment, heading: str, claims: Sequence[Diagnostic], review: PullRequestReview, blob_url: str
) -> None:
    if not claims:
        return
    ranks = list(Severity)
    ordered = sorted(claims, key=lambda each: (ranks.index(each.severity), each.location.path, each.location.line))
    fixed = {(path.path, rule) for path in review.patches for rule in path.rules}
    comment.add(f"**{heading}**\n")
    shown = 0
    for claim in ordered[:_MOST_FINDINGS]:
        has_patch = (claim.location.path, claim.rule) in fixed
        if not comment.add(_finding(claim, blob_url, has_patch=has_patch)):
            break
        shown += 1
    if shown < len(ordered):
        comment.end(f"- and {len(ordered) - shown} more: {code(f'esper review --diff {review.merge_base[:_SHORT]}')}")
    comment.add("")


def _finding(claim: Diagnostic, blob_url: str, *, has_patch: bool) -> str:
    place = claim.location
    shown = code(str(place), 200)
    if blob_url and place.path.isprintable():
        shown = f"[{shown}]({blob_url}/{quote(place.path)}#L{place.line})"
    lines = [f"- **{claim.severity}** {shown} {text(claim.message)} ({code(claim.rule)})"]
    if claim.excerpt.strip():
        lines.append(code(claim.excerpt.strip(), 200))
    remedy = f"Fix: {text(claim.remedy)}"
    lines.append(f"{remedy} (patch below)" if has_patch else remedy)
    return "\\\n  ".join(lines)


def _add_unread(comment: _Comment, review: PullRequestReview) -> None:
    unread = [(each.path, each.problem) for each in review.outcome.report.unreadable]
    unread += [(path, "a link, or excluded by its name or folder") for path in review.excluded]
    if not unread:
        return
    comment.add("**Not reviewed**\n")
    for path, problem in unread[:_MOST_FILES]:
        comment.add(f"- {code(path, 200)}: {text(problem)}")
    if len(unread) > _MOST_FILES:
        comment.add(f"- and {len(unread) - _MOST_FILES} more")
    comment.add("")


def _add_patches(comment: _Comment, review: PullRequestReview) -> None:
    if not review.patches:
        return
    command = code(f"esper review --diff {review.merge_base[:_SHORT]} --fix")
    summary = f"Patches for {number_of(len(review.patches), 'file')}"
    comment.add(f"<details><summary>{summary}</summary>\n\nSave as a file for `git apply`, or run {command}.\n")
    omitted = 0
    for patch in review.patches:
        is_shown = is_safe_in_log(patch.unified) and comment.add(f"{block(patch.unified, 'diff')}\n")
        omitted += not is_shown
    if omitted:
        comment.end(f"{number_of(omitted, 'patch', 'patches')} omitted here: too long, or with hidden characters.\n")
    comment.end("</details>\n")


def _add_coverage(comment: _Comment, coverage: Sequence[FileCoverage]) -> None:
    missing = [each for each in coverage if each.standing is not CoverageState.COVERED]
    if not missing:
        return
    worst = list(CoverageState)
    missing.sort(key=lambda each: (worst.index(each.standing), each.path))
    covered = len(coverage) - len(missing)
    lines = [f"- {code(each.path, 200)}: {each.standing}, {text(each.why)}" for each in missing[:_MOST_FILES]]
    if len(missing) > _MOST_FILES:
        lines.append(f"- and {len(missing) - _MOST_FILES} more")
    summary = f"Certificates cover {covered} of {number_of(len(coverage), 'changed file')}"
    comment.add("\n".join([f"<details><summary>{summary}</summary>\n", *lines, "\n</details>"]))


def _footer(review: PullRequestReview) -> str:
    report = review.outcome.report
    silenced = sum(each.claim.location.path in review.changed for each in report.silenced)
    suppressed = f" {number_of(silenced, 'finding')} of these files suppressed by comments." if silenced else ""
    changed = f"{len(review.reviewed)} of {number_of(len(review.changed), 'changed source')}"
    commits = f"{review.merge_base[:_SHORT]}..{review.head[:_SHORT]}"
    return (
        f"<sub>Static review of {changed} by {number_of(len(report.rules), 'rule')}, {commits}; no code was run."
        f"{suppressed} esper-agents {version('esper-agents')}</sub>"
    )


def _status(file: FileCoverage) -> str:
    """Return the status of a file; the underscore of one that exists is no markup."""
    return file.status if file.status in set(Status) else text(file.status)


def _all_files(count: int) -> str:
    return "the changed file" if count == 1 else f"all {count} changed files"


def _some_files(files: Sequence[FileCoverage]) -> str:
    first = code(files[0].path, 200)
    return first if len(files) == 1 else f"{first} and {number_of(len(files) - 1, 'other file')}"


def _certificates(files: Sequence[FileCoverage]) -> str:
    named = list(dict.fromkeys(file.certificate for file in files if file.certificate))
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return f"{code(named[0])}{more}" if named else "no certificate"


class _Comment:
    """Text that grows by whole parts up to a limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.text = ""
        self._size = 0

    def add(self, part: str) -> bool:
        """Add a part and return whether it had room."""
        size = len(part.encode()) + 1
        if self._size + size > self.most:
            return False
        self.end(part)
        return True

    def end(self, part: str) -> None:
        """Add a short part that ends another one, even beyond the limit."""
        self.text += f"{part}\n"
        self._size += len(part.encode()) + 1
