"""Tool class: a typed function with its risk, its repeatability and a schema from its signature."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

from esper_agents.domain.agent_action import ToolUse
from esper_agents.domain.change import CHANGE_DIGEST
from esper_agents.domain.codec import JsonObject  # noqa: TC001 - read at run time
from esper_agents.domain.evidence import Artifact, SourceFile  # noqa: TC001 - read at run time
from esper_agents.domain.finding import Diagnostic  # noqa: TC001 - read at run time
from esper_agents.errors import DefinitionError, EvidenceError, UsageError
from esper_agents.extras import Extra, require_extra
from esper_agents.tools.model_output import with_whole_kept
from esper_agents.tools.output_comparison import Comparer, compare_exactly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from pydantic import BaseModel

    from esper_agents.domain.change import TaskChange
    from esper_agents.domain.evidence import Evidence, Risk
    from esper_agents.domain.skill import SkillText
    from esper_agents.memory.agent_files import OwnFiles
    from esper_agents.review.companion import CompanionRule
    from esper_agents.tools.lab_pool import LabPool

# At the end of a command that repeats a call, it is replaced by the ID of the session.
THIS_SESSION = "{session}"
# Maximum size of a file that a tool reads as a whole.
LARGEST_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Resources that a tool may use.

    Attributes:
        root: The project's folder.
        rules: Modules with lint rules besides the installed ones.
        home: Data directory of the project; None if nothing is to be stored.
        bench: Lab for measurements of the project's code; None creates one for each call.
        companions: Companion changes, as declared by the project's skills.
        records: Returns the issued bytes of a certificate of the project; None without an archive.
        tools: Callable tools, by name.
        skills: Returns a text of the available skills, by the names of skill and sheet; None without skills.
        memory: Memory files of the active agent; None outside a session.
        named: Paths of the task: files that the user named may be read even if git ignores them.
        change: Change that the task is about; None if there is none.
        checkout: The user's folder, if `root` is a private copy of a commit of it; its environment runs the code.
        evidence: Returns the evidence of the session by its identifier, or None; None outside a session.
        overlay: Contents of a drafted change, by path; copies of the project have them.
    """

    root: Path
    rules: tuple[ModuleType, ...] = ()
    home: Path | None = None
    bench: LabPool | None = None
    companions: tuple[CompanionRule, ...] = ()
    records: Callable[[str], bytes] | None = None
    tools: Mapping[str, Tool] = field(default_factory=dict)
    skills: Callable[[str, str], SkillText] | None = None
    memory: OwnFiles | None = None
    named: tuple[str, ...] = ()
    change: TaskChange | None = None
    evidence: Callable[[str], Evidence | None] | None = None
    overlay: Mapping[str, bytes] = field(default_factory=dict)
    checkout: Path | None = None

    @property
    def installed(self) -> Path:
        """Folder with the project's environment: the user's, also if `root` is a private copy."""
        return self.checkout or self.root

    def change_now(self, since: str) -> JsonObject:
        """Return what a tool that judges a change records: its digest now, if it is the change of the task."""
        from esper_agents.review.task_change import digest_now

        if self.change is None or since != self.change.since:
            return {}
        return {CHANGE_DIGEST: digest_now(self.root.resolve(), self.change)}

    def read(self, path: str, *, largest: int = LARGEST_BYTES) -> bytes:
        """Return the content of a project file, if agents may read it.

        Args:
            path: The file, relative to the project.
            largest: Maximum size in bytes.

        Raises:
            EvidenceError: It does not exist, lies outside the project, is too large, or is withheld: it is a secret,
                belongs to git, or git ignores it and the user did not name it.
        """
        from esper_agents.tools.file_access import readable_bytes

        return readable_bytes(self, path, largest=largest)

    def files(self, path: str = ".") -> tuple[str, ...]:
        """Return the files in a folder that agents may read, relative to the project and sorted.

        Args:
            path: The folder, relative to the project; a file is listed alone.

        Raises:
            EvidenceError: It does not exist, lies outside the project, is withheld, or contains too many files.
        """
        from esper_agents.tools.project_files import project_files

        return project_files(self, path)

    def inside(self, path: str) -> Path:
        """Return the absolute path of an existing item in the project, which agents may not be allowed to read.

        Raises:
            EvidenceError: It does not exist, or lies outside the project, symbolic links followed.
        """
        target = self.within(path)
        if not target.exists():
            raise EvidenceError(f"there is no {path!r} in the project", remedy="name a path that exists")
        return target

    def within(self, path: str) -> Path:
        """Return the absolute path of an item in the project, existing or not.

        Raises:
            EvidenceError: It lies outside the project, symbolic links followed.
        """
        try:
            target = (self.root / PurePosixPath(path)).resolve()
            # A name that is too long fails only when the file system is accessed.
            target.exists()
        except (OSError, RuntimeError, ValueError) as error:  # too long, a cycle of links, a null byte
            raise EvidenceError(f"{path[:200]!r} is not a valid path", remedy="name a path that exists") from error
        if not target.is_relative_to(self.root.resolve()):
            raise EvidenceError(f"{path!r} lies outside the project", remedy="name a path inside the project")
        return target


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a tool.

    Attributes:
        summary: Result in one line.
        output: Result as JSON.
        claims: Diagnostics.
        examined: Files that were read.
        artifacts: Files that were produced.
        refutes: Fingerprints of diagnostics that it refuted.
    """

    summary: str
    output: JsonObject
    claims: tuple[Diagnostic, ...] = ()
    examined: tuple[SourceFile, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    refutes: tuple[str, ...] = ()


ToolFunction: TypeAlias = Callable[..., Awaitable[ToolResult]]


@dataclass(frozen=True)
class Tool:
    """Tool that an agent can call.

    Attributes:
        name: Name of the tool.
        risk: Risk of a call.
        is_repeatable: Whether repeating a call changes nothing, so that an interrupted call may be repeated.
        function: Takes a `ToolContext` and the arguments.
        rerun: Returns a command line that repeats a call outside esper-agents.
        provider: Distribution and version of the tool.
        comparing: Compares the output of a call with that of a repeated call.
        exceptions: Exceptions from the sandbox that a call may request, each with a permission name, by the argument
            that requests it: a `bool`, or a list whose items replace the `*` of the name.
        upgrading: Converts the arguments of a call that an earlier version recorded.
        is_stoppable: Whether a request to stop ends a call at once. Such a call works on a copy of the project.
        is_concurrent: Whether calls of one turn may run at the same time: they only read, and measure no time.
    """

    name: str
    risk: Risk
    is_repeatable: bool
    function: ToolFunction
    rerun: Callable[[JsonObject], str]
    provider: str = field(default="")
    comparing: Comparer = field(default=compare_exactly)
    exceptions: Mapping[str, str] = field(default_factory=dict)
    upgrading: Callable[[JsonObject], JsonObject] = dict
    is_stoppable: bool = False
    is_concurrent: bool = False

    def may_repeat(self, arguments: JsonObject) -> bool:
        """Return whether a call without a result may run again: it changes nothing, or had changed only a copy."""
        return self.is_repeatable or (self.is_stoppable and not self.exceptions_of(arguments))

    def exceptions_of(self, arguments: JsonObject) -> tuple[str, ...]:
        """Return the names of the exceptions that a call requests, such as `run-tests:network`."""
        wanted: list[str] = []
        for argument, name in self.exceptions.items():
            match arguments.get(argument):
                case True:
                    wanted.append(f"{self.name}:{name}")
                case list() | tuple() as each:
                    wanted += [f"{self.name}:{name.replace('*', str(one))}" for one in each]
                case _:
                    continue
        return tuple(wanted)

    @cached_property
    def _arguments(self) -> type[BaseModel]:
        from pydantic import ConfigDict, Field, create_model

        documented = _documented(self.function)
        hints = get_type_hints(self.function)
        fields: dict[str, Any] = {}
        for parameter in list(inspect.signature(self.function).parameters.values())[1:]:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            described = Field(default, description=documented.get(parameter.name))
            fields[parameter.name] = (hints[parameter.name], described)
        return create_model(self.name, __config__=ConfigDict(extra="forbid", strict=True), **fields)

    @cached_property
    def use(self) -> ToolUse:
        """Description of the tool for a reasoner; its docstring and annotations are its schema."""
        description = inspect.cleandoc(self.function.__doc__ or "").split("\nArgs:")[0].strip()
        schema: JsonObject = _untitled(self._arguments.model_json_schema())
        return ToolUse(self.name, description, schema, self.risk, self.is_repeatable)

    def validate(self, arguments: JsonObject) -> dict[str, Any]:
        """Return the arguments in the function's types, with defaults.

        Raises:
            UsageError: The arguments do not match the schema.
        """
        from pydantic import ValidationError

        try:
            return dict(self._arguments.model_validate(self.upgrading(arguments)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(each) for each in first["loc"]) or "arguments"
            raise UsageError(
                f"{where} of tool {self.name!r}: {first['msg'].lower()}",
                remedy="call it with arguments that match its schema",
            ) from error

    async def run(self, context: ToolContext, arguments: JsonObject) -> ToolResult:
        """Run the tool.

        Raises:
            UsageError: The arguments do not match the schema.
            EvidenceError: The tool could not produce its result.
        """
        return with_whole_kept(context, await self.function(context, **self.validate(arguments)))


def _untitled(schema: Any) -> Any:
    """Return a schema without pydantic's generated titles, which would cost tokens."""
    match schema:
        case dict():
            return {name: _untitled(each) for name, each in schema.items() if name != "title" or isinstance(each, dict)}
        case list():
            return [_untitled(each) for each in schema]
        case _:
            return schema


def _documented(function: ToolFunction) -> dict[str, str]:
    require_extra(Extra.AGENTS)
    from docstring_parser import DocstringStyle, parse

    text = function.__doc__ or ""
    # To try every style takes ten times as long.
    found = parse(text, DocstringStyle.GOOGLE).params or parse(text).params
    return {param.arg_name: param.description or "" for param in found}


def tool(
    name: str,
    *,
    risk: Risk | None = None,
    repeatable: bool | None = None,
    rerun: Callable[[JsonObject], str] | None = None,
    comparing: Comparer = compare_exactly,
    exceptions: Mapping[str, str] | None = None,
    stoppable: bool = False,
    concurrent: bool = False,
) -> Callable[[ToolFunction], Tool]:
    """Create a tool from an async function whose first parameter is a `ToolContext`.

    Args:
        name: Name of the tool, such as `static-review`.
        risk: Risk of a call. Required.
        repeatable: Whether repeating a call changes nothing. Required.
        rerun: Returns a command line that repeats a call, from its arguments. Required. If it ends in
            `THIS_SESSION`, that is replaced by the session's ID.
        comparing: Compares the output of a call with that of a repeated call.
        exceptions: As in `Tool`.
        stoppable: Whether a request to stop ends a call at once.
        concurrent: Whether it only reads, so that calls of one turn may run at the same time.

    Raises:
        DefinitionError: A required part is missing; it names the file and the line of the function.
    """

    def make(function: ToolFunction) -> Tool:
        if risk is None:
            raise _unusable(name, function, "has no `risk`", "add risk=Risk.LOW, MEDIUM or HIGH to @tool")
        if repeatable is None:
            raise _unusable(name, function, "does not say whether it is `repeatable`", "add repeatable=True if so")
        if not callable(rerun):
            remedy = "add rerun=lambda arguments: '...' to @tool, the command line that repeats a call"
            raise _unusable(name, function, "has no `rerun`", remedy)
        _check_function(name, function)
        made = Tool(name, risk, repeatable, function, rerun, comparing=comparing, exceptions=exceptions or {})
        return replace(made, is_stoppable=stoppable, is_concurrent=concurrent)

    return make


def _check_function(name: str, function: ToolFunction) -> None:
    if not inspect.iscoroutinefunction(function):
        raise _unusable(name, function, "is not an async function", "write `async def`")
    if not inspect.signature(function).parameters:
        raise _unusable(name, function, "takes no `ToolContext`", "add the parameter `context: ToolContext`")
    if not (function.__doc__ or "").strip():
        raise _unusable(
            name, function, "has no docstring", "describe in it what the tool does, and each argument under Args"
        )


def _unusable(name: str, function: object, problem: str, remedy: str) -> DefinitionError:
    code = getattr(function, "__code__", None)
    where = code.co_filename if code else repr(function)
    line = code.co_firstlineno if code else None
    return DefinitionError(where, f"tool {name!r} {problem}", remedy=remedy, line=line)
