"""Comments on pull requests of GitHub and merge requests of GitLab, by their REST APIs."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import CodeHostError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPMessage

# Begins the body of the comment that later runs update.
COMMENT_MARKER = "<!-- esper-pr -->"
_ACTIONS_BOT = "github-actions[bot]"
_PAGE, _MOST_PAGES = 100, 50
_MOST_BYTES = 1 << 25
_MOST_EVENT_BYTES = 1 << 23
_TIMEOUT_S, _PATIENCE_S = 30.0, 120.0
_LONGEST_REASON = 200
_PAUSES_S = (1.0, 4.0)
_UNREACHABLE, _NOT_FOUND, _FORBIDDEN = 0, 404, 403
_BUSY = frozenset((_UNREACHABLE, 429, 500, 502, 503, 504))
_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_REPOSITORY = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_PULL_REQUEST = re.compile(r"refs/pull/(\d{1,12})/", re.ASCII)
_NUMBER = re.compile(r"\d{1,12}", re.ASCII)


class CodeHost(StrEnum):
    """Code host with pull requests or merge requests."""

    GITHUB = "GitHub"
    GITLAB = "GitLab"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, or a merge request of GitLab.

    Attributes:
        host: The code host.
        api: URL of its REST API.
        repository: `OWNER/NAME`, or the project ID of GitLab.
        number: Number of the pull request.
        token: Token for the API.
    """

    # GitHub's limit in characters, taken as bytes; GitLab's is higher.
    LONGEST_COMMENT: ClassVar[int] = 65_536

    host: CodeHost
    api: str
    repository: str
    number: int
    token: str = field(repr=False)

    @property
    def comments(self) -> str:
        """Path of its comments in the API."""
        if self.host is CodeHost.GITHUB:
            return f"/repos/{self.repository}/issues/{self.number}/comments"
        return f"/projects/{quote(self.repository, safe='')}/merge_requests/{self.number}/notes"

    def comment(self, identifier: int) -> str:
        """Return the path of one comment in the API."""
        if self.host is CodeHost.GITHUB:
            return f"/repos/{self.repository}/issues/comments/{identifier}"
        return f"{self.comments}/{identifier}"


@dataclass(frozen=True, slots=True)
class PostedComment:
    """Comment on a pull request.

    Attributes:
        url: Its address; empty if the API does not return one.
        is_new: Whether it was created, not updated.
    """

    url: str
    is_new: bool


class _ResponseError(CodeHostError):
    """A refused request, or one without a response.

    Attributes:
        status: HTTP status; 0 if the host is unreachable.
    """

    def __init__(self, problem: str, *, remedy: str, status: int) -> None:
        super().__init__(problem, remedy=remedy)
        self.status = status

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _BUSY


def pull_request_of(host: CodeHost, environment: Mapping[str, str]) -> PullRequest:
    """Return the pull request of a CI job, from its variables.

    Args:
        host: The code host.
        environment: For GitHub `GITHUB_REPOSITORY`, `GITHUB_TOKEN`, and `GITHUB_EVENT_PATH` or `GITHUB_REF`; for GitLab
            `CI_API_V4_URL`, `CI_PROJECT_ID`, `CI_MERGE_REQUEST_IID` and `GITLAB_TOKEN`.

    Raises:
        UsageError: A variable is missing or malformed, or the job is not for a pull request.
        CodeHostError: There is no token, as in a job for a fork.
    """
    if host is CodeHost.GITHUB:
        repository = _variable(environment, "GITHUB_REPOSITORY", _REPOSITORY, "OWNER/NAME")
        api = environment.get("GITHUB_API_URL") or "https://api.github.com"
        number, name = _number_on_github(environment), "GITHUB_TOKEN"
        remedy = "set `env: GITHUB_TOKEN: ${{ github.token }}` and `permissions: pull-requests: write`"
    else:
        repository = _variable(environment, "CI_PROJECT_ID", _NUMBER, "a number")
        api = environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
        number = int(_variable(environment, "CI_MERGE_REQUEST_IID", _NUMBER, "a number, in a merge request pipeline"))
        name, remedy = "GITLAB_TOKEN", "add a project access token with the scope `api` as CI variable GITLAB_TOKEN"
    token = environment.get(name, "")
    if not token or not token.isascii() or not token.isprintable():
        raise CodeHostError(f"{name} is not set, so no comment can be posted", remedy=remedy)
    _refuse_insecure(api)
    return PullRequest(host, api.rstrip("/"), repository, number, token)


def post_comment(
    target: PullRequest, body: str, *, author: str = "", sleep: Callable[[float], None] = time.sleep
) -> PostedComment:
    """Create the comment of this program on a pull request, or update the one that the same author created.

    A request that fails because the host is busy is repeated twice; the comment is then searched again.

    Args:
        target: The pull request.
        body: Markdown that begins with `COMMENT_MARKER`, at most `PullRequest.LONGEST_COMMENT` bytes.
        author: Name of the author of the comment to update; the owner of the token if empty.
        sleep: Waits before a repeated request.

    Raises:
        CodeHostError: The host refused a request or is unreachable.
    """
    api = _Api(target)
    for pause in _PAUSES_S:
        try:
            return _post(api, body, author)
        except _ResponseError as error:
            if not error.is_temporary or api.is_late:
                raise
            sleep(pause)
    return _post(api, body, author)


def _post(api: _Api, body: str, author: str) -> PostedComment:
    target = api.target
    own = api.find_comment(author or api.user())
    if own is None:
        made = api.request("POST", target.comments, {"body": body})
    else:
        made = api.request("PATCH" if target.host is CodeHost.GITHUB else "PUT", target.comment(own), {"body": body})
    url = made.get("html_url") if isinstance(made, dict) else None
    return PostedComment(url if isinstance(url, str) else "", own is None)


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: the token is for one host."""

    def redirect_request(  # noqa: PLR0917 - as the base class has it
        self, req: Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Return no request."""


class _Api:
    """REST API of a code host."""

    def __init__(self, target: PullRequest) -> None:
        self.target = target
        self._opener = build_opener(_NoRedirects)
        self._has_next = False
        self._until = time.monotonic() + _PATIENCE_S

    @property
    def is_late(self) -> bool:
        """Whether the time for all requests is used up."""
        return time.monotonic() >= self._until

    def user(self) -> str:
        """Return the name of the owner of the token; the token of a GitHub job has no user of its own."""
        is_github = self.target.host is CodeHost.GITHUB
        try:
            found = self.request("GET", "/user")
        except _ResponseError as error:
            if is_github and error.status in {_FORBIDDEN, _NOT_FOUND}:
                return _ACTIONS_BOT
            raise
        name = found.get("login" if is_github else "username") if isinstance(found, dict) else None
        if not isinstance(name, str) or not name:
            self._fail("returned a user without a name")
        return name

    def find_comment(self, author: str) -> int | None:
        """Return the identifier of the oldest comment with the marker by an author.

        Raises:
            CodeHostError: A page of the comments is missing: a second comment is never created on a guess.
        """
        order = "" if self.target.host is CodeHost.GITHUB else "&sort=asc&order_by=created_at"
        for page in range(1, _MOST_PAGES + 1):
            found = self.request("GET", f"{self.target.comments}?per_page={_PAGE}&page={page}{order}")
            if not isinstance(found, list):
                self._fail("returned no list of comments")
            own = next((each["id"] for each in found if self._is_own(each, author)), None)
            if own is not None or not self._has_next:
                return own
            if self.is_late:
                self._fail(f"took more than {_PATIENCE_S:.0f} s to list the comments")
        return self._fail(f"has more than {_PAGE * _MOST_PAGES} comments here")

    def _is_own(self, comment: Any, author: str) -> bool:
        """Return whether a comment was written by an author and has the marker."""
        member, name = ("user", "login") if self.target.host is CodeHost.GITHUB else ("author", "username")
        if not isinstance(comment, dict) or not isinstance(comment.get("id"), int):
            return False
        written = comment.get(member)
        has_mark = str(comment.get("body", "")).startswith(COMMENT_MARKER)
        return has_mark and isinstance(written, dict) and written.get(name) == author

    def request(self, method: str, path: str, content: Mapping[str, str] | None = None) -> Any:
        """Return the JSON of a response.

        Raises:
            CodeHostError: The host refused the request, is unreachable, or did not return JSON.
        """
        data = None if content is None else json.dumps(content).encode()
        request = Request(f"{self.target.api}{path}", data, self._headers(), method=method)  # noqa: S310 - checked before
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                text = response.read(_MOST_BYTES + 1)
                self._has_next = 'rel="next"' in (response.headers.get("Link") or "")
        except HTTPError as error:
            with error:
                self._refused(error, f"{method} {path.partition('?')[0]}")
        except (URLError, HTTPException, OSError) as error:
            reason = str(getattr(error, "reason", "") or error)[:_LONGEST_REASON]
            problem = f"{self.target.host} is unreachable: {reason}"
            raise _ResponseError(problem, remedy=self._remedy(_UNREACHABLE), status=_UNREACHABLE) from error
        if len(text) > _MOST_BYTES:
            self._fail(f"returned more than {_MOST_BYTES} bytes")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            self._fail("did not return JSON")

    def _headers(self) -> dict[str, str]:
        ours = {"User-Agent": "esper-agents", "Content-Type": "application/json"}
        if self.target.host is CodeHost.GITLAB:
            return {**ours, "PRIVATE-TOKEN": self.target.token}
        version = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        return {**ours, **version, "Authorization": f"Bearer {self.target.token}"}

    def _refused(self, error: HTTPError, what: str) -> NoReturn:
        problem = f"{self.target.host} answered {error.code} to {what}{_reason_of(error)}"
        raise _ResponseError(problem, remedy=self._remedy(error.code), status=error.code) from error

    def _remedy(self, code: int) -> str:
        if code in _BUSY:
            return "run the job again"
        if self.target.host is CodeHost.GITLAB:
            return "use a token with the scope `api` and the role Reporter or higher"
        return "grant the job `permissions: pull-requests: write`; jobs for forks have read-only tokens"

    def _fail(self, what: str) -> NoReturn:
        raise CodeHostError(f"{self.target.host} {what}", remedy="check the URL of its API")


def _reason_of(error: HTTPError) -> str:
    """Return the reason that a response gives, with a colon before it; empty without one."""
    try:
        said = json.loads(error.read(_MOST_EVENT_BYTES))
        message = said.get("message") or said.get("error") or ""
    except (ValueError, RecursionError, AttributeError, OSError, HTTPException):
        return ""
    text = message if isinstance(message, str) else json.dumps(message)
    return f": {text[:_LONGEST_REASON]}" if text else ""


def _variable(environment: Mapping[str, str], name: str, pattern: re.Pattern[str], form: str) -> str:
    value = environment.get(name, "")
    if not pattern.fullmatch(value):
        problem = f"{name} is {value[:_LONGEST_REASON]!r}" if value else f"{name} is not set"
        raise UsageError(problem, remedy=f"set it to {form}, or run without --post")
    return value


def _number_on_github(environment: Mapping[str, str]) -> int:
    """Return the number of the pull request from the event of a GitHub job, else from its reference.

    Raises:
        UsageError: The job is not for a pull request.
    """
    if file := environment.get("GITHUB_EVENT_PATH", ""):
        number = _number_in_event(file)
        if number:
            return number
    if found := _PULL_REQUEST.match(environment.get("GITHUB_REF", "")):
        return int(found[1])
    raise UsageError(
        "this job is not for a pull request",
        remedy="run it `on: pull_request`, or set GITHUB_REF=refs/pull/NUMBER/merge",
    )


def _number_in_event(file: str) -> int:
    try:
        read = read_plain(Path(file), _MOST_EVENT_BYTES, follow=True)
        event = json.loads(read.data) if read else {}
    except (OSError, ValueError, RecursionError):
        return 0
    request = event.get("pull_request") if isinstance(event, dict) else None
    number = request.get("number") if isinstance(request, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0


def _refuse_insecure(api: str) -> None:
    """Raise an error for an API whose connection would show the token.

    Raises:
        UsageError: The URL is malformed, or neither HTTPS nor of this machine.
    """
    try:
        parts = urlsplit(api)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
        is_plain = bool(parts.hostname) and parts.username is None and not parts.query and not parts.fragment
    except ValueError:
        is_safe = is_plain = False
    if not (is_safe and is_plain and api.isascii() and api.isprintable()):
        raise UsageError(
            f"{api[:_LONGEST_REASON]!r} is not an HTTPS URL", remedy="correct GITHUB_API_URL or CI_API_V4_URL"
        )
