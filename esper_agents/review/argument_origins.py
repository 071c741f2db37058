"""Origins of arguments in words: written in the code, downloaded, from the user of the program, or a parameter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.fact_query import InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call

_FROM_USER = pattern(r"\binput\(|\bsys\.argv\b|\bargparse\b|\bargs\.|\bos\.environ\b|\brequest\.|\bparse_args\(")
_DOWNLOADS = pattern(
    r"https?://|hf_hub_download|snapshot_download|urlretrieve|cached_download|load_state_dict_from_url"
    r"|download_url_to_file|gdown\.|wget\.|requests\.get"
)
_LONGEST = 60
# Keywords that name what is loaded.
_NAMED = (
    "f",
    "file",
    "path",
    "url",
    "repo_id",
    "source",
    "repo",
    "pretrained_model_name_or_path",
    "stream",
    "filename",
)
DOWNLOADED, FROM_USER = "its argument is downloaded", "its argument comes from the caller of the program"
# Others decide what these arguments hold.
FROM_OUTSIDE = (DOWNLOADED, FROM_USER)
WRITTEN_HERE = "the name is written in the code"
# Topic of a request that says that others write the files.
UNTRUSTED = "untrusted files"


def assumed_writer(origin: str, subject: InspectionSubject, what: str = "it") -> str:
    """Return what has to be so for data to be dangerous; empty if its origin or the request says that it is so.

    Args:
        origin: Origin of the data, from `origin_of`.
        subject: What is asked.
        what: The data in the words of the assumption.
    """
    is_given = UNTRUSTED in subject.topics and origin != WRITTEN_HERE
    return "" if origin in FROM_OUTSIDE or is_given else f"others can write {what}"


def origin_of(call: Call, index: ProjectIndex, value: ast.expr | None = None) -> str:
    """Return where an argument of a call comes from, in words.

    Args:
        call: The call.
        index: Facts about all files of the project.
        value: The argument; the first one if omitted.
    """
    given = (value, call.argument(0), *(call.argument(-1, each) for each in _NAMED))
    value = next((each for each in given if each is not None), None)
    if value is None:
        return "its argument is not visible"
    if isinstance(value, ast.Constant):
        is_remote = isinstance(value.value, str) and _DOWNLOADS.search(value.value)
        return DOWNLOADED if is_remote else WRITTEN_HERE
    sources = [ast.unparse(origin.value) for origin in index.origins(value, call.function, call.line)]
    shown = " ".join((ast.unparse(value), *sources))
    if _DOWNLOADS.search(shown):
        return DOWNLOADED
    if _FROM_USER.search(shown):
        return FROM_USER
    name = value.id if isinstance(value, ast.Name) else ""
    if name in call.function.parameters and not call.function.is_module:
        callers = index.callers(call.function)
        called = f", called at {callers[0].function.file.path}:{callers[0].line}" if callers else ""
        return f"its argument is the parameter `{name}` of `{call.function.name}`{called}"
    return f"its argument is `{ast.unparse(value)[:_LONGEST]}`"
