"""Evaluation: run the tasks of a suite in projects of their own, and score the answers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import time
import tomllib
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from esper_agents.domain.codec import decode
from esper_agents.domain.evaluation import EvalRun, EvalSuite, EvalTask, ExpectedStatement, TaskScore, score
from esper_agents.domain.reasoner_names import PLAYBOOK
from esper_agents.domain.session import SessionState
from esper_agents.domain.usage import Expense
from esper_agents.errors import EsperError, InputFileError, NotFoundError, UsageError
from esper_agents.paths import data_folder, project_home

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from esper_agents.api.project import OpenProject
    from esper_agents.api.session import SessionResult

_SUITES = "suites"
_NO = "deny"
_UNKNOWN = "I do not know"
_MOST_QUESTIONS = 40
_TASK_MEMBERS = frozenset(("name", "request", "files", "paths", "agent", "facts", "false", "is_clean"))
_STATEMENT_MEMBERS = frozenset(("text", "any", "place"))
_PLACE = re.compile(r"(?P<path>[^:]+)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")
_AUTHOR = ("-c", "user.name=Evaluation", "-c", "user.email=evaluation@localhost", "-c", "commit.gpgsign=false")


def suite_names() -> tuple[str, ...]:
    """Return the names of the included suites."""
    return tuple(sorted(path.name for path in (data_folder("prompts") / _SUITES).iterdir() if path.is_dir()))


def load_suite(named: str) -> EvalSuite:
    """Return a suite.

    Args:
        named: Name of an included suite, a TOML file, or a folder of TOML files.

    Raises:
        NotFoundError: There is no such suite.
        InputFileError: A file cannot be read, or does not describe tasks.
    """
    place = Path(named)
    if not place.exists():
        if named not in suite_names():
            raise NotFoundError("suite", named, suite_names(), listing="esper eval --list")
        place = data_folder("prompts") / _SUITES / named
    files = sorted(place.glob("*.toml")) if place.is_dir() else [place]
    if not files:
        raise InputFileError(str(place), "contains no TOML file", remedy="name a folder with suite files")
    texts = {file: _text(file) for file in files}
    tasks = [task for file, text in texts.items() for task in _tasks(file, text)]
    twice = {each.name for each in tasks if sum(one.name == each.name for one in tasks) > 1}
    if twice:
        raise InputFileError(str(place), f"two tasks are named {min(twice)!r}", remedy="rename one of them")
    digest = sha256("\0".join(texts.values()).encode()).hexdigest()
    return EvalSuite(place.stem, tuple(tasks), digest)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(str(file), "cannot be read", remedy="name a TOML file in UTF-8") from error


def _tasks(file: Path, text: str) -> Iterator[EvalTask]:
    try:
        given = tomllib.loads(text).get("task", [])
    except tomllib.TOMLDecodeError as error:
        raise InputFileError(str(file), f"is not TOML: {error}", remedy="correct the file") from error
    if not isinstance(given, list) or not given:
        raise InputFileError(str(file), "contains no [[task]]", remedy="see docs/eval.md for the form of a suite")
    for number, each in enumerate(given, 1):
        try:
            yield _task(each)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            name = each.get("name", number) if isinstance(each, dict) else number
            raise InputFileError(str(file), f"task {name!r}: {what}", remedy="see docs/eval.md") from error


def _task(given: Mapping[str, Any]) -> EvalTask:
    _refuse_unknown(given, _TASK_MEMBERS)
    files = {str(path): str(text) for path, text in given["files"].items()}
    for path in files:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ValueError(f"file {path!r} lies outside the project")
    task = EvalTask(
        name=str(given["name"]),
        request=str(given["request"]),
        files=files,
        paths=tuple(map(str, given.get("paths", ()))),
        agent=str(given.get("agent", "")),
        facts=tuple(map(_statement, given.get("facts", ()))),
        false_statements=tuple(map(_statement, given.get("false", ()))),
        is_clean=bool(given.get("is_clean", False)),
    )
    if not (task.facts or task.false_statements or task.is_clean):
        raise ValueError("it expects nothing: give facts, false or is_clean")
    return task


def _statement(given: Mapping[str, Any]) -> ExpectedStatement:
    _refuse_unknown(given, _STATEMENT_MEMBERS)
    patterns = tuple(map(str, given.get("any", ())))
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"invalid regular expression {pattern!r}: {error}") from error
    place = _PLACE.fullmatch(str(given.get("place", ""))) if given.get("place") else None
    if not patterns and place is None:
        raise ValueError(f"{given['text']!r} has neither `any` nor `place`")
    first = int(place["first"] or 0) if place else 0
    last = int(place["last"] or first) if place else 0
    return ExpectedStatement(str(given["text"]), patterns, place["path"] if place else "", first, last)


def _refuse_unknown(given: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise ValueError(f"unknown key {unknown[0]!r}; keys are {', '.join(sorted(known))}")


def chosen_tasks(suite: EvalSuite, names: Sequence[str]) -> EvalSuite:
    """Return a suite with the named tasks only; the whole suite without names.

    Raises:
        NotFoundError: A task does not exist.
    """
    known = [task.name for task in suite.tasks]
    for name in names:
        if name not in known:
            raise NotFoundError("task", name, known, listing=f"esper eval {suite.name} --list")
    tasks = tuple(task for task in suite.tasks if not names or task.name in names)
    return EvalSuite(suite.name, tasks, suite.sha256)


async def run_suite(
    suite: EvalSuite, *, reasoner: str = PLAYBOOK, on_score: Callable[[TaskScore], None] = lambda _: None
) -> EvalRun:
    """Run the tasks of a suite one after the other, each in a temporary project that is deleted afterwards.

    No approval is given: a call that needs one is denied, and a question of an agent is declined.

    Args:
        suite: The suite.
        reasoner: `playbook`, or `claude` for a model, to which the files of the suite are sent.
        on_score: Called with each score.

    Raises:
        UsageError: A model is requested, and there is no API key.
    """
    scores, model = [], ""
    for task in suite.tasks:
        async with _project_of(task) as project:
            if reasoner != PLAYBOOK:
                model = project.models.table.resolve("").name
                # The files are those of the suite, which the user named together with the model.
                project.models.allow(project.services.server.host)
            began = time.monotonic()
            try:
                made = await _scored(project, task, reasoner)
            except EsperError as error:
                made = _failed(task, error.problem)
        made = replace(made, seconds=time.monotonic() - began)
        scores.append(made)
        on_score(made)
    return EvalRun(
        suite=suite.name,
        suite_sha256=suite.sha256,
        prompts_sha256=prompts_digest(),
        reasoner=reasoner,
        model=model,
        version=version("esper-agents"),
        scores=tuple(scores),
    )


def _submitted(project: OpenProject, task: EvalTask) -> Any:
    paths = [project.root / path for path in task.paths or task.files]
    return project.tasks.create(task.request, paths, agent=task.agent)


async def _scored(project: OpenProject, task: EvalTask, reasoner: str) -> TaskScore:
    """Return the score of a task that runs in its project."""
    from esper_agents.certificates.answer import answer_of

    asked = project.models.with_reasoner(_submitted(project, task), reasoner)
    session = await project.tasks.submit(asked)
    outcome = await _settled(project, await session.run())
    if outcome.certificate is None:
        return _failed(task, f"the session ended {outcome.state}")
    certificate = await project.certificates.read(outcome.certificate.id)
    expense = sum((each.expense for each in await project.models.usage()), Expense())
    return score(task, answer_of(certificate), agent=certificate.agent, expense=expense)


async def _settled(project: OpenProject, outcome: SessionResult) -> SessionResult:
    """Return the outcome after every question was declined."""
    for _ in range(_MOST_QUESTIONS):
        if outcome.state is not SessionState.WAITING or not outcome.questions:
            break
        first = outcome.questions[0]
        answer = _NO if first.tool or _NO in first.options else (first.options or (_UNKNOWN,))[-1]
        outcome = await (await project.approvals.answer(first.id, answer)).run()
    return outcome


def _failed(task: EvalTask, problem: str) -> TaskScore:
    missing = tuple(fact.text for fact in task.facts)
    return TaskScore(task.name, "", "", (), missing, (), 0.0, Expense(), problem)


@asynccontextmanager
async def _project_of(task: EvalTask) -> AsyncIterator[OpenProject]:
    """Yield a task's project in a temporary folder; it and its data are deleted afterwards."""
    from esper_agents.api.project import open_project

    with tempfile.TemporaryDirectory(prefix="esper-eval-", ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve() / "project"
        await asyncio.to_thread(_write, root, task.files)
        key = ""
        try:
            async with open_project(root, publish=False) as project:
                key = project.services.project.key
                yield project
        finally:
            if key:
                await asyncio.to_thread(shutil.rmtree, project_home(key), ignore_errors=True)


def _write(root: Path, files: Mapping[str, str]) -> None:
    from esper_agents.git.process import git

    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for arguments in (("init", "-q", "--template="), ("add", "-A"), (*_AUTHOR, "commit", "-q", "-m", "first")):
        if git(root, *arguments) is None:
            raise UsageError("git cannot create a repository", remedy="run `git --version`; 2.31 will do")


def prompts_digest() -> str:
    """Return the digest of all packaged prompts except the suites: agents, skills, instructions and tables."""
    root = data_folder("prompts")
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] != _SUITES)
    parts = (f"{file.relative_to(root).as_posix()}\0{sha256(file.read_bytes()).hexdigest()}\n" for file in files)
    return sha256("".join(parts).encode()).hexdigest()


def run_text(run: EvalRun) -> str:
    """Return a run as JSON text, as `read_run` reads it."""
    return json.dumps(asdict(run), ensure_ascii=False, indent=2) + "\n"


def read_run(file: Path) -> EvalRun:
    """Return a stored run.

    Raises:
        InputFileError: It is not the result of `esper eval --output`.
    """
    try:
        return decode(EvalRun, file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        remedy = "name a file that `esper eval SUITE --output FILE` wrote"
        raise InputFileError(str(file), "is not the result of a run", remedy=remedy) from error
