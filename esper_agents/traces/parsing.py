"""Parser for the stack traces and error lines of logs, notebooks, pytest output and requests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from esper_agents.domain.stack_trace import (
    LONGEST_MESSAGE,
    LONGEST_TEXT,
    MOST_CAUSES,
    MOST_FRAMES,
    StackTrace,
    TraceFrame,
)
from esper_agents.traces import ipython_form, pytest_form, rich_form
from esper_agents.traces.log_prefixes import clean_lines, streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.log_prefixes import LogLine

MOST_TRACES = 20
_MOST_MESSAGE_LINES = 60

_HEADER = re.compile(r"(?:Exception Group |Original )?Traceback \(most recent call last\):?\s*$")
_FRAME = re.compile(r'File "(?P<path>[^"\n]{1,500})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,300}))?$')
# A warning of anomaly mode prints where the failing operation ran in the forward pass.
_ANOMALY = re.compile(r"(?P<message>Error detected in \w{1,100}\.\s+Traceback of forward call.*)$")
_TYPE = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?::(?: (?P<message>.*))?)?$")
_CHAIN = re.compile(r"(?:The above exception was the direct cause of|During handling of the above exception, another)")
_CAUGHT = re.compile(r"Caught (?P<type>[\w.]+) in (?P<origin>.{1,80}?)\.?$", re.MULTILINE)
_USER_CODE = re.compile(r"(?:from user code(?: at)?:?|User Stack \(most recent call last\):)\s*$")
_SEPARATOR = re.compile(r"(?:[-=_*~#]{6,}|`{3}.*|\$ .*|</?(?:pre|code|details|summary)>.*)$")
_MARKS = re.compile(r"[\s~^]+$")
_SKIPPED = re.compile(
    r"\s*(?:\(snipped, see stack below for prefix\)|\[Previous line repeated \d+ more times?\]"
    r"|\.\.\.<\d+ lines>\.\.\.|\.\.\.)\s*$"
)
_NATIVE_TAIL = re.compile(
    r"Exception raised from .* \(most recent call first\):|frame #\d+: |#\d+ 0x[0-9a-f]+ |C\+\+ CapturedTraceback:"
)
# Paragraphs after an empty line that belong to the message of torch's longer errors.
_CONTINUED = re.compile(
    r"(?:\s|from user code|Set TORCH|Check the documentation|Parameter (?:indices|s which)|Parameters? |In addition"
    r"|For debugging|Compile with|CUDA kernel|Device-side|The above operation|You can suppress|Developer debug"
    r"|Last error|Explanation|Hint|Please |Below is|The call stack|Do NOT|If you |Note|consider using|Caused by"
    r"|User Stack|For (?:more|extended|C\+\+)|Suggested fixes|The following call"
    r"|-- Process \d+ terminated)"
)
_GROUP_RULE = re.compile(r"\s*\+(?:-\+)?-{4,}")
_MARGIN = re.compile(r"^(\s*)(?:\| (?=\s*\S)|\+ (?=Exception Group))")
_BARE = re.compile(
    r"(?<![\w.])(?P<type>(?:[A-Za-z_]\w{0,60}\.)*[A-Z]\w{0,60}(?:Error|Exception|Failure|Interrupt|Fault)"
    r"|(?:[a-z_]\w{0,60}\.){2,8}[A-Z]\w{2,60}):(?: (?P<message>.*))?$"
)


@dataclass(slots=True)
class _Draft:
    """A trace that is being read."""

    exception: str = ""
    message: list[str] = field(default_factory=list)
    frames: list[TraceFrame] = field(default_factory=list)
    origin: str = ""
    cause: StackTrace | None = None

    def finish(self) -> StackTrace:
        """Return the trace, bounded."""
        message = "\n".join(self.message).strip("\n")
        frames = self.frames
        if len(frames) > MOST_FRAMES:
            frames = [*frames[: MOST_FRAMES // 4], *frames[-(MOST_FRAMES - MOST_FRAMES // 4) :]]
        trace = StackTrace(self.exception, message[:LONGEST_MESSAGE], tuple(frames), self.cause, self.origin)
        return replace(trace, cause=_bounded_cause(trace.cause))


def parse_traces(text: str) -> tuple[StackTrace, ...]:
    """Return the stack traces of a text in order; its error lines if it has no trace.

    Python's own form (chained, exception groups, notes, any indentation or quotation), IPython's, pytest's, and the
    prefixes of torchrun, Ray, containers and log records are read. A trace without its beginning or its end is kept.
    Equal traces of several ranks are returned once.

    Args:
        text: Any text, of any size; the middle of a text above 4 MB is not read.

    Example:
        (trace,) = parse_traces(log)
        print(trace.headline, trace.frames[-1])
    """
    lines = clean_lines(text)
    found: list[tuple[int, StackTrace]] = []
    for origin, stream in streams(lines):
        found += _traces_of(stream, origin)
    found.sort(key=lambda each: each[0])
    traces = _without_repeats([trace for _, trace in found])
    if not traces:
        traces = _without_repeats(list(_error_lines(lines)))
    return tuple(traces[:MOST_TRACES] if len(traces) <= MOST_TRACES else [*traces[:10], *traces[-10:]])


def _traces_of(lines: list[LogLine], origin: str) -> Iterator[tuple[int, StackTrace]]:
    reader = _Reader(lines)
    texts = [line.text for line in lines]
    other_forms = [*ipython_form.read(texts), *pytest_form.read(texts), *rich_form.read(texts)]
    covered = [(first, last) for first, last, _ in other_forms]
    yield from ((lines[first].number, replace(trace, origin=origin)) for first, _, trace in other_forms)
    for first, trace in reader.read():
        if not any(start <= first <= last for start, last in covered):
            yield lines[first].number, replace(trace, origin=trace.origin or origin)


class _Reader:
    """Reads the traces in Python's own form from the lines of one process."""

    def __init__(self, lines: list[LogLine]) -> None:
        self._lines = [_without_margin(line.text) for line in lines]
        self._prefixes = [line.prefix for line in lines]
        self._at = 0

    def read(self) -> list[tuple[int, StackTrace]]:
        """Return the traces with the indices of their first lines."""
        found: list[tuple[int, StackTrace]] = []
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            if _ANOMALY.search(line) or _HEADER.search(line) or _FRAME.match(line):
                first = self._at
                trace = self._trace()
                is_chained = self._skip_chain_phrase()
                found.append((first, trace))
                while is_chained and (later := self._chained(found[-1][1])) is not None:
                    found[-1] = (first, later)
                    is_chained = self._skip_chain_phrase()
            else:
                self._at += 1
        return [(first, trace) for first, trace in found if trace.exception or trace.frames]

    def _chained(self, cause: StackTrace) -> StackTrace | None:
        """Return the trace that follows a chain phrase, caused by the one before it."""
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1
        if self._at == len(self._lines):
            return None
        line = self._lines[self._at].strip()
        if not (_HEADER.search(line) or _FRAME.match(line)):
            return None
        return _with_root_cause(self._trace(), cause)

    def _skip_chain_phrase(self) -> bool:
        ahead = self._at
        while ahead < len(self._lines) and not self._lines[ahead].strip():
            ahead += 1
        if ahead < len(self._lines) and _CHAIN.match(self._lines[ahead].strip()):
            self._at = ahead + 1
            return True
        return False

    def _trace(self) -> StackTrace:
        """Read one trace, from its header or its first frame."""
        draft = _Draft()
        line = self._lines[self._at]
        indent = _indent(line)
        if anomaly := _ANOMALY.search(line):
            draft.exception = "UserWarning"
            draft.message = [anomaly["message"]]
            self._at += 1
            self._frames(draft)
            return draft.finish()
        if _HEADER.search(line.strip()):
            self._at += 1
        else:
            # Without the header, the first frame gives the indentation: two more than that of the exception.
            indent = max(0, indent - 2)
        self._frames(draft)
        self._exception(draft, indent)
        return draft.finish()

    def _frames(self, draft: _Draft) -> None:
        """Read frames and their source lines as far as they go."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            match = _FRAME.match(line.strip())
            if match is None:
                if _SKIPPED.match(line) and draft.frames:
                    self._at += 1
                    continue
                return
            self._at += 1
            text, marked = self._source(_indent(line))
            name = (match["function"] or "").strip()
            draft.frames.append(TraceFrame(match["path"], int(match["line"]), name, text, marked))

    def _source(self, indent: int) -> tuple[str, str]:
        """Read the source lines below a frame; return the first, and the part of it that is underlined."""
        first = self._flat_source() if indent == 0 else ""
        printed = marked = ""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            stripped = line.strip()
            if not stripped or _indent(line) <= indent or _FRAME.match(stripped):
                break
            if not first and not _MARKS.match(line):
                first, printed = stripped[:LONGEST_TEXT], line
            elif _MARKS.match(line) and printed and not marked:
                marked = printed[_indent(line) : len(line.rstrip())].strip()
            self._at += 1
        return first, marked

    def _flat_source(self) -> str:
        """Read the source line below a frame of a trace that lost its indentation; empty if there is none."""
        if self._at + 1 >= len(self._lines):
            return ""
        line, after = self._lines[self._at].strip(), self._lines[self._at + 1].strip()
        match = _TYPE.match(after)
        is_followed = bool(_FRAME.match(after)) or (match is not None and _is_exception_name(match["type"]))
        if not line or _FRAME.match(line) or not is_followed or _indent(self._lines[self._at]):
            return ""
        self._at += 1
        return line[:LONGEST_TEXT]

    def _exception(self, draft: _Draft, indent: int) -> None:
        """Read the exception's type and message, if they follow."""
        if self._at == len(self._lines):
            return
        match = _TYPE.match(self._lines[self._at].strip())
        if match is None or _indent(self._lines[self._at]) > indent + 1 or not _is_exception_name(match["type"]):
            return
        draft.exception, prefix = match["type"], self._prefixes[self._at]
        draft.message.append(match["message"] or "")
        self._at += 1
        self._message(draft, indent, prefix)
        _split_caught(draft)

    def _message(self, draft: _Draft, indent: int, prefix: str) -> None:
        """Read the further lines of a message; frames inside it are read as frames or as the cause."""
        for _ in range(_MOST_MESSAGE_LINES):
            if self._at == len(self._lines):
                return
            line = self._lines[self._at]
            stripped = line.strip()
            if _ends_message(stripped) or bool(self._prefixes[self._at]) != bool(prefix):
                return
            if stripped.startswith("Original Traceback (most recent call last)"):
                draft.cause = self._trace()
                return
            if _HEADER.search(stripped):
                # Compiled regions print the trace of the inner error inside the message.
                if not draft.message[-1].strip().endswith(":"):
                    return
                draft.cause = self._trace()
                return
            if _NATIVE_TAIL.match(stripped):
                self._skip_native_tail()
                continue
            if _USER_CODE.match(stripped) or (_FRAME.match(stripped) and stripped != line):
                self._at += bool(_USER_CODE.match(stripped))
                self._frames(draft)
                continue
            if not stripped and not self._continues():
                return
            draft.message.append(line[indent:] if not line[:indent].strip() else stripped)
            self._at += 1

    def _continues(self) -> bool:
        """Return whether the next paragraph belongs to the message."""
        for line in self._lines[self._at : self._at + 3]:
            if line.strip():
                return bool(_CONTINUED.match(line)) and not _FRAME.match(line.strip())
        return False

    def _skip_native_tail(self) -> None:
        while self._at < len(self._lines) and _NATIVE_TAIL.match(self._lines[self._at].strip()):
            self._at += 1


def _error_lines(lines: list[LogLine]) -> Iterator[StackTrace]:
    """Yield the error lines of a text without traces, with the indented or numbered lines that continue them."""
    for index, line in enumerate(lines):
        if (match := _BARE.search(line.text)) is None:
            continue
        message = [match["message"] or ""]
        for following in lines[index + 1 : index + 12]:
            if not following.text.strip() or _BARE.search(following.text) or _ends_message(following.text.strip()):
                break
            message.append(following.text)
        yield StackTrace(match["type"], "\n".join(message)[:LONGEST_MESSAGE])


def _without_repeats(traces: list[StackTrace]) -> list[StackTrace]:
    """Return traces without those that differ in numbers and origin only."""
    kept: dict[tuple[object, ...], StackTrace] = {}
    for trace in traces:
        frames = tuple((frame.path, frame.line) for frame in trace.frames)
        kept.setdefault((trace.exception, re.sub(r"\d+", "0", trace.message[:300]), frames), trace)
    return list(kept.values())


def _split_caught(draft: _Draft) -> None:
    """Name the process of an error that a worker raised and its parent raised again."""
    if caught := _CAUGHT.match("\n".join(draft.message)):
        origin = caught["origin"]
        if draft.cause is not None:
            draft.cause = replace(draft.cause, origin=origin)


def _with_root_cause(trace: StackTrace, cause: StackTrace) -> StackTrace:
    """Return a trace whose innermost cause has a further cause."""
    if trace.cause is None:
        return replace(trace, cause=_bounded_cause(cause))
    return replace(trace, cause=_with_root_cause(trace.cause, cause))


def _bounded_cause(cause: StackTrace | None, depth: int = MOST_CAUSES) -> StackTrace | None:
    if cause is None or depth == 0:
        return None
    return replace(cause, cause=_bounded_cause(cause.cause, depth - 1))


def _ends_message(line: str) -> bool:
    return bool(_CHAIN.match(line) or _SEPARATOR.match(line))


def _is_exception_name(name: str) -> bool:
    last = name.rpartition(".")[2]
    return bool(last) and (
        last.lstrip("_")[:1].isupper() or name.endswith(("error", "exception", "Empty", "timeout", "herror"))
    )


def _without_margin(text: str) -> str:
    """Return a line without the margin of an exception group."""
    if _GROUP_RULE.match(text):
        return "-" * 10
    return _MARGIN.sub(r"\1", text, count=1)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
