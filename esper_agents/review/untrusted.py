"""Where files and bytes come from: a network, a command line, or somewhere that the code does not show."""

from __future__ import annotations

import ast
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.review.index import Origin, resolve
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.sample_loops import annotation_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call

_NETWORK = pattern(
    r"requests\.\w+|httpx\.\w+|urllib\.request\.\w+|urlopen|urlretrieve|hf_hub_download|snapshot_download|cached_download"
    r"|download_url(?:_to_file)?|download_file(?:_from_google_drive)?|gdown\.\w+|wget\.\w+|recv|aiohttp\.\w+|boto3\.\w+"
    r"|get_object|download_blob|b64decode"
)
_COMMAND_LINE = pattern(r"(?:^|\.)(?:sys\.argv|args|opts|cli_args|parsed_args|cmd_args)(?:\.|\[|$)")
_REQUEST = pattern(r"^(?:flask\.)?request\.(?:data|get_data|files|json|form|args)|^await request")
_CHECKED = pattern(r"sha256|sha1|sha512|md5|blake2|hmac|check_integrity|checksum|compare_digest|verify")
# What a web server hands to the function that answers.
_SENT = pattern(r"\b(?:UploadFile|Request|WebSocket)\b")
_STEPS = 6


class Source(StrEnum):
    """Where data comes from."""

    NETWORK = "the network"
    COMMAND_LINE = "the command line"
    UNKNOWN = "somewhere else"


def source_of(value: ast.expr, call: Call, index: ProjectIndex) -> Source:
    """Return where what a call reads comes from, through names, opened files and joined paths."""
    for root in _roots(Origin(value, call.function, call.line + 1), index, _STEPS):
        text = dotted(root.value)
        named = resolve(text, root.function)
        if _REQUEST.search(text) or any(_NETWORK.fullmatch(part) for part in _called(root)):
            return Source.NETWORK
        if _SENT.search(annotation_of(root_of(text), root.function)):
            return Source.NETWORK
        if _COMMAND_LINE.search(named) or any(_COMMAND_LINE.search(path) for path in _read(root)):
            return Source.COMMAND_LINE
    return Source.UNKNOWN


def is_checked(call: Call) -> bool:
    """Return whether the function around a call, or its class, checks a digest or a signature."""
    owner = call.function.owner
    node = owner.node if owner is not None else call.function.node
    first, last = (0, None) if isinstance(node, ast.Module) else (node.lineno - 1, node.end_lineno)
    return any(_CHECKED.search(line) for line in call.function.file.lines[first:last])


def _read(origin: Origin) -> Iterator[str]:
    """Yield the attributes of imported modules that an expression reads, by their paths."""
    for each in walk(origin.value):
        if isinstance(each, ast.Attribute) and root_of(dotted(each)) in origin.function.file.imports:
            yield resolve(dotted(each), origin.function)


def _called(origin: Origin) -> Iterator[str]:
    """Yield the functions called in an expression, by their paths and last names."""
    for each in walk(origin.value):
        if isinstance(each, ast.Call):
            path = resolve(dotted(each.func), origin.function)
            yield path
            yield path.rpartition(".")[2]


def _roots(origin: Origin, index: ProjectIndex, steps: int) -> Iterator[Origin]:
    """Yield the expressions that a value is made of, names followed."""
    yield origin
    if not steps:
        return
    parts = {dotted(each): each for each in walk(origin.value) if isinstance(each, ast.Name | ast.Attribute)}
    for path, each in parts.items():
        if root_of(path) in origin.function.file.imports or not path:
            continue
        for found in index.origins(each, origin.function, origin.line):
            if found.value is each:
                yield found
            elif found.value is not origin.value:
                yield from _roots(found, index, steps - 1)
