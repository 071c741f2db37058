"""Set-up of a project: signing key, language model and consent, pre-commit hook, CI file."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.metadata import Distribution
from json import JSONDecodeError, loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.atomic_file import write_atomically
from esper_agents.errors import InputFileError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.git.process import configured, git
from esper_agents.paths import home, project_home

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_HERE = Path()
_REVIEW = "esper review --staged --fail-on warning"
_HOOK = f"""\
#!/bin/sh
# Written by `esper init`: reports what the staged changes introduce. `git commit --no-verify` skips it.
command -v esper > /dev/null || {{
  echo "pre-commit: activate the environment of esper, or git commit --no-verify" >&2
  exit 1
}}
exec {_REVIEW}
"""
_FRAMEWORK_HOOK = f"""\
  - repo: local
    hooks:
      - id: esper-review-staged
        name: esper review
        entry: {_REVIEW}
        language: system
        types_or: [python, jupyter]
        pass_filenames: false
"""
_WORKFLOW = """\
# Written by `esper init`: reviews a pull request, with annotations, a job summary and one comment.
name: esper review
on: pull_request
permissions:
  contents: read
  pull-requests: write # for the comment; without it, as in a fork, the review is in the job summary
jobs:
  review:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install {requirement}
      - env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
        run: esper pr --format github --post --fail-on warning
"""
_GITLAB_OPTIONS = "--format gitlab --post --output gl-code-quality-report.json "
_PLAIN_OPTIONS = "--base origin/main "
_WORKFLOW_FILE = Path(".github/workflows/esper-review.yml")
_FRAMEWORK_FILE = Path(".pre-commit-config.yaml")
_MOST_BYTES = 1_000_000


class SetupPart(StrEnum):
    """Part of a project's set-up."""

    KEY = "key"
    MODEL = "model"
    HOOK = "hook"
    CI = "ci"


class SetupState(StrEnum):
    """State of a part."""

    DONE = "done"
    MISSING = "missing"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One part of the set-up.

    Attributes:
        part: The part.
        state: Whether it exists, `set_up` can make it, or only the user can.
        text: What exists, what would be made, or what the user has to do.
        file: The file that it is about; None without one.
        content: Content of the file to write, or lines for the user to add; empty without one.
        is_new: Whether this call made it.
    """

    part: SetupPart
    state: SetupState
    text: str
    file: Path | None = None
    content: str = ""
    is_new: bool = False


def plan_setup(where: str | Path = _HERE, *, requirement: str = "") -> tuple[SetupStep, ...]:
    """Return the state of a project's set-up; writes nothing.

    Args:
        where: A path in the project.
        requirement: What CI installs with pip, such as `esper-agents==0.2.0` or `git+https://HOST/esper-agents@v0.2.0`;
            if empty, what this installation came from, if CI can reach that.

    Raises:
        InputFileError: The path does not exist.
    """
    project = find_project([Path(where)], Path.cwd())
    root = Path(project.root)
    return (_key(), _model(project_home(project.key)), _hook(root), _ci(root, requirement))


def set_up(
    where: str | Path = _HERE, *, requirement: str = "", without: Collection[SetupPart] = ()
) -> tuple[SetupStep, ...]:
    """Make the missing parts of a project's set-up, and return the state afterwards.

    Existing files are never changed, and consent to send source code is never recorded here: see `models.allow`.

    Args:
        where: A path in the project.
        requirement: See `plan_setup`.
        without: Parts to leave as they are.

    Raises:
        InputFileError: The path does not exist, or a file cannot be written.
        StorageError: The key cannot be written.
    """
    makers: dict[SetupPart, Callable[[SetupStep], SetupStep]] = {SetupPart.KEY: _make_key}
    return tuple(
        makers.get(each.part, _write)(each) if each.state is SetupState.MISSING and each.part not in without else each
        for each in plan_setup(where, requirement=requirement)
    )


def _key() -> SetupStep:
    from esper_agents.certificates.signing.public_keys import key_id_of
    from esper_agents.certificates.signing.signing_key import existing_key, key_file

    file = key_file(home())
    if (key := existing_key(home())) is None:
        return SetupStep(SetupPart.KEY, SetupState.MISSING, "signing key of this user, for all projects", file)
    return SetupStep(SetupPart.KEY, SetupState.DONE, f"certificates are signed with {key_id_of(key.public_key)}", file)


def _make_key(step: SetupStep) -> SetupStep:
    from esper_agents.certificates.signing.signing_key import signing_key

    signing_key(home())
    return replace(_key(), is_new=True, file=step.file)


def _model(folder: Path) -> SetupStep:
    from esper_agents.api.models import MODEL_VARIABLES
    from esper_agents.orchestration.consent import consents

    if agreed := [consent.host for consent in consents(folder) if consent.is_agreed]:
        return SetupStep(SetupPart.MODEL, SetupState.DONE, f"source code of this project may go to {', '.join(agreed)}")
    found = next((model_variable for model_variable in MODEL_VARIABLES if os.environ.get(model_variable)), "")
    if found:
        text = f"{found} is set; source code of this project is sent only after: esper models allow"
    else:
        text = f"none: playbooks answer, without a network. For one, set {MODEL_VARIABLES[0]}, then: esper models allow"
    return SetupStep(SetupPart.MODEL, SetupState.MANUAL, text)


def _hook(root: Path) -> SetupStep:
    def step(state: SetupState, text: str, file: Path | None = None, content: str = "") -> SetupStep:
        return SetupStep(SetupPart.HOOK, state, text, file, content)

    if (folder := git(root, "rev-parse", "--absolute-git-dir")) is None:
        return step(SetupState.MANUAL, "not a git work tree: run git init, then esper init")
    framework, own = root / _FRAMEWORK_FILE, Path(folder.strip()) / "hooks" / "pre-commit"
    for file in (framework, own):
        if "esper review" in _text(file) or "esper-review" in _text(file):
            return step(SetupState.DONE, "git runs esper review before each commit", file)
    if os.path.lexists(framework):
        return step(SetupState.MANUAL, f"add to `repos` in {_FRAMEWORK_FILE}", framework, _FRAMEWORK_HOOK)
    # `git` here runs with hooks off: the settings of the command line are not the repository's or the user's.
    scopes = ("--local", "--global", "--system")
    if elsewhere := next(filter(None, (git(root, "config", scope, "--get", "core.hooksPath") for scope in scopes)), ""):
        place = f"the pre-commit hook in {elsewhere.strip()!r}, which git's core.hooksPath names"
        return step(SetupState.MANUAL, f"add to {place}", None, f"{_REVIEW}\n")
    if os.path.lexists(own):
        return step(SetupState.MANUAL, f"add to {own}", own, f"{_REVIEW}\n")
    return step(SetupState.MISSING, "git runs esper review on the staged changes before each commit", own, _HOOK)


def _ci(root: Path, requirement: str) -> SetupStep:
    def step(state: SetupState, text: str, content: str = "") -> SetupStep:
        return SetupStep(SetupPart.CI, state, text, root / _WORKFLOW_FILE, content)

    if os.path.lexists(root / _WORKFLOW_FILE):
        return step(SetupState.DONE, "GitHub reviews each pull request")
    is_github = "github" in configured(root).origin.casefold() or (root / ".github").is_dir()
    if not is_github:
        options = _GITLAB_OPTIONS if "gitlab" in configured(root).origin.casefold() else _PLAIN_OPTIONS
        text = f"no GitHub repository. In your CI run: esper pr {options}--fail-on warning"
        return replace(step(SetupState.MANUAL, text), file=None)
    wanted = requirement or _own_requirement()
    if not wanted:
        text = "this installation has no address that CI could install from: esper init --install REQUIREMENT"
        return step(SetupState.MANUAL, text)
    return step(SetupState.MISSING, "GitHub reviews each pull request", _workflow(wanted))


def _workflow(requirement: str) -> str:
    """Return the workflow that installs a requirement.

    Raises:
        UsageError: The requirement is not one plain word.
    """
    from shlex import quote

    if (
        not requirement.isprintable()
        or requirement.startswith("-")
        or "${{" in requirement
        or len(requirement.split()) != 1
    ):
        raise UsageError(
            f"{requirement[:80]!r} is not a requirement for pip",
            remedy="esper init --install esper-agents==0.2.0",
        )
    shown = quote(requirement).replace(": ", ":")
    return _WORKFLOW.format(requirement=shown)


def _own_requirement() -> str:
    """Return what pip installs this version from: the package index or a repository; empty for a local folder."""
    own = Distribution.from_name("esper-agents")
    try:
        said: dict[str, Any] = loads(own.read_text("direct_url.json") or "{}")
    except JSONDecodeError:
        return ""
    if not said:
        return f"esper-agents=={own.version}"
    vcs = said.get("vcs_info") or {}
    if vcs.get("vcs") == "git" and vcs.get("commit_id") and "@" not in str(said.get("url", "")):
        return f"git+{said['url']}@{vcs['commit_id']}"
    return ""


def _text(file: Path) -> str:
    """Return the beginning of a file that the project brings; empty if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace") if file.is_file() else ""
    except OSError:
        return ""


def _write(step: SetupStep) -> SetupStep:
    if step.file is None:
        return step
    try:
        step.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(step.file, step.content.encode(), mode=0o755 if step.part is SetupPart.HOOK else 0o644)
    except OSError as error:
        problem = f"cannot be written: {(error.strerror or 'unknown error').lower()}"
        raise InputFileError(
            str(step.file), problem, remedy="make its folder writable, or esper init --dry-run"
        ) from error
    return replace(step, state=SetupState.DONE, is_new=True)
