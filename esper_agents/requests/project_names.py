"""Find the files and definitions of a project that a request names.

Text is searched first; a file is parsed only if it contains the definition of a name. Both are bounded.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.request import FileReference, SymbolReference
from esper_agents.requests.spoken_names import MOST_BYTES, MOST_FILES, spoken_names
from esper_agents.requests.vocabulary import plain, request_words
from esper_agents.review.discover import python_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_LARGEST_FILE = 2_000_000
_MOST_PARSED = 40
_MOST_NAMES = 24
_MOST_REFERENCES = 12
_MOST_AMBIGUOUS = 6
_MOST_CHOICES = 4
_SHORTEST_OWNER = 4
# A path with slashes of either kind, with a drive or without, and the line that may follow it.
_PATH = re.compile(
    r"(?<![\w/\\.~:-])(?:[A-Za-z]:[\\/]|~/|\.{1,2}/|/)?(?:[\w.@+-]+[\\/])*[\w@+-][\w.@+-]*\.(?:py|ipynb)(?!\w)"
    r"(?:\"?, line (?P<python>\d{1,7})|:(?P<colon>\d{1,7}))?"
)
# Frames of installed packages are not about a file of the project that has the same name.
_INSTALLED = re.compile(r"(?:site|dist)-packages|[\\/]lib[\\/]python\d|<frozen ")
_FOLDER = re.compile(r"(?<![\w/\\.~:-])(?:\./)?(?:[\w.@+-]+/)+[\w.@+-]*(?![\w.]*\.(?:py|ipynb))")
_MODULE = re.compile(r"(?<![\w./\\])[A-Za-z_]\w*(?:\.[a-z_]\w*)+(?![\w./(])")
_QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\([^`]{0,80}\))?`")
_CALLED = re.compile(r"(?<![\w./\\])([A-Za-z_]\w*(?:\.\w+)*)\(")
# An identifier that cannot be an ordinary word: with an inner underscore or capital letter, or the member of a class.
# In `batch_size=16` it is the name of an argument.
_BARE = re.compile(
    r"(?<![\w./\\`-])((?:[A-Za-z]\w*_\w+|[A-Z]+[a-z0-9]+[A-Z]\w*)(?:\.\w+)*|[A-Z]\w*(?:\.[A-Za-z_]\w*)+)(?![\w/\\`-])(?!\s?=[^=])"
)
# Words of any sentence that methods are called, too.
_PARTICLES = frozenset(
    ("to", "all", "any", "as", "at", "by", "is", "it", "of", "on", "or", "not", "in", "for", "with", "from")
)
# A capitalized word inside a sentence, which may be the name of a class.
_CAPITALIZED = re.compile(r"(?<=[a-z,] )([A-Z][A-Za-z0-9]{2,})(?![\w/\\`-]|\.\w)")


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """Names of a request that a project defines.

    Attributes:
        files: Files, in the order of the words.
        symbols: Definitions with a unique name.
        ambiguous: Definitions of names that are not unique.
        is_choice: Whether the request asks to choose between two of them.
        mentions: Words of the request that name the definitions.
    """

    files: tuple[FileReference, ...] = ()
    symbols: tuple[SymbolReference, ...] = ()
    ambiguous: tuple[SymbolReference, ...] = ()
    is_choice: bool = False
    mentions: tuple[str, ...] = ()


def without_paths(text: str) -> str:
    """Return a text of the same length in which spaces replace paths."""
    return _PATH.sub(lambda match: " " * len(match.group()), text)


def find_project_names(root: Path, prose: str, whole: str) -> ProjectNames:
    """Return the files and definitions that a request names.

    Args:
        root: The project's folder; nothing outside it is read.
        prose: Words of the request, without code and traces.
        whole: The request with them.
    """
    choices = _choices(prose)
    spoken = spoken_names(root, without_paths(prose))
    names = tuple(dict.fromkeys((*_names(prose), *(name for choice in choices for name in choice), *spoken)))
    if not (names or _PATH.search(whole) or _FOLDER.search(prose) or _MODULE.search(prose) or _has_file_word(prose)):
        return ProjectNames()
    known = python_files(root, most=MOST_FILES)
    files = _files(root, prose, whole, known)
    found = _chosen(definitions(root, names, known), choices, (*_names(prose), *spoken))
    found = {name: _meant_definitions(root, name, places, known) for name, places in found.items()}
    unique = tuple(places[0] for places in found.values() if len(places) == 1)
    unique += tuple(_methods(root, unique, prose))
    several = tuple(place for places in found.values() if len(places) > 1 for place in places[:_MOST_AMBIGUOUS])
    is_choice = any(all(side in found for side in choice) for choice in choices)
    mentions = tuple(dict.fromkeys(spoken.get(name, name) for name in found))
    return ProjectNames(files, unique[:_MOST_REFERENCES], several[:_MOST_REFERENCES], is_choice, mentions)


def _files(root: Path, prose: str, whole: str, known: Sequence[str]) -> tuple[FileReference, ...]:
    found: dict[str, FileReference] = {}
    by_name: dict[str, list[str]] = {}
    for path in known:
        by_name.setdefault(PurePosixPath(path).name, []).append(path)
    for match in _PATH.finditer(whole):
        line = match["python"] or match["colon"]
        end = min((start for start in (match.start("python"), match.start("colon")) if start > 0), default=match.end())
        written = match.group()[: end - match.start()].partition('"')[0].rstrip(":").rstrip(", line")
        if _INSTALLED.search(written):
            continue
        if path := _existing(root, written) or _common_tail(written, by_name):
            found.setdefault(path, FileReference(written, path, int(line or 0)))
    named = [*_folders(prose, known), *_modules(prose, known)]
    for words, path in named if found else (*named, *_worded(prose, known)):
        found.setdefault(path, FileReference(words, path))
    return tuple(found.values())[:_MOST_REFERENCES]


def _existing(root: Path, written: str) -> str:
    """Return a path as written if it is a file of the project."""
    file = root / written
    if PurePosixPath(written).is_absolute() or "\\" in written or not file.is_file():
        return ""
    return PurePosixPath(written).as_posix() if file.resolve().is_relative_to(root.resolve()) else ""


def _common_tail(written: str, by_name: Mapping[str, Sequence[str]]) -> str:
    """Return the only file with the longest common tail; empty if there is none or more than one."""
    parts = PurePosixPath(written.replace("\\", "/")).parts
    candidates = by_name.get(parts[-1], ())
    lengths = {path: _tail_length(parts, PurePosixPath(path).parts) for path in candidates}
    longest = [path for path, length in lengths.items() if length == max(lengths.values())]
    return longest[0] if len(longest) == 1 else ""


def _tail_length(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _folders(prose: str, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    for match in _FOLDER.finditer(prose):
        path = PurePosixPath(match.group().rstrip(".")).as_posix()
        if any(file.startswith(f"{path}/") for file in known):
            yield match.group(), path


def _modules(prose: str, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield dotted names that are modules of the project: `pkg.net` for `pkg/net.py` or `src/pkg/net.py`."""
    for match in _MODULE.finditer(prose):
        tail = match.group().replace(".", "/") + ".py"
        found = [path for path in known if path == tail or path.endswith(f"/{tail}")]
        if len(found) == 1:
            yield match.group(), found[0]


@cache
def _file_word() -> re.Pattern[str]:
    words = request_words()["files"]
    mine, kinds = ("|".join(map(re.escape, words[name])) for name in ("mine", "files"))
    return re.compile(rf"\b(?P<mine>{mine})\s+(?P<name>\w+(?:[ -]\w+)??)(?:[ -]+(?P<kind>{kinds}))?\b", re.IGNORECASE)


def _has_file_word(prose: str) -> bool:
    return _file_word().search(prose) is not None


def _worded(prose: str, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield files named in words, such as `the trainer` and `my train file`, if exactly one file matches."""
    by_stem: dict[str, list[str]] = {}
    for path in known:
        by_stem.setdefault(_squeezed(PurePosixPath(path).stem), []).append(path)
    general = {_squeezed(name) for name in request_words()["files"]["general"]}
    kinds = {_squeezed(name) for name in request_words()["files"]["files"]}
    for match in _file_word().finditer(prose):
        following = prose[match.end() : match.end() + 40].split()
        names = [(match["name"], bool(match["kind"]))]
        if following and not match["kind"]:
            word = following[0].rstrip(".,;:!?")
            # The second of two words, as in "the data loader", or the word for a file.
            names = [(match["name"], _squeezed(word) in kinds), (f"{match['name']} {word}", False)]
        for name, is_file in names:
            stem = _squeezed(name)
            paths = by_stem.get(stem, [])
            if len(paths) == 1 and (is_file or stem not in general):
                yield f"{match['mine']} {name}", paths[0]


def _squeezed(name: str) -> str:
    return re.sub(r"[\s_-]", "", plain(name))


@cache
def _after_keyword() -> re.Pattern[str]:
    words = "|".join(map(re.escape, request_words()["files"]["definitions"]))
    return re.compile(rf"\b(?:{words})\s+([A-Za-z_]\w*)", re.IGNORECASE)


@cache
def _before_keyword() -> re.Pattern[str]:
    """Return the pattern of a name between an article and the word for a definition: `the train function`."""
    words = request_words()["files"]
    mine, kinds = ("|".join(map(re.escape, words[name])) for name in ("mine", "definitions"))
    return re.compile(rf"\b(?:{mine})\s+([A-Za-z_]\w*)[\s-]+(?:{kinds})\b", re.IGNORECASE)


@cache
def _after_request() -> re.Pattern[str]:
    """Return the pattern of a name after words that ask for one: `a test for FSQ`, `what does Net do`."""
    words = "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in request_words()["files"]["about"])
    mine = "|".join(map(re.escape, request_words()["files"]["mine"]))
    return re.compile(rf"\b(?:{words})\s+(?:(?:{mine})\s+)?([A-Za-z_]\w*)", re.IGNORECASE)


def _names(prose: str) -> tuple[str, ...]:
    """Return the identifiers of a request, those in backticks first."""
    text = without_paths(prose)
    found = [
        match.group(1)
        for pattern in (_QUOTED, _before_keyword(), _after_keyword(), _after_request(), _CALLED, _BARE, _CAPITALIZED)
        for match in pattern.finditer(text)
    ]
    return tuple(dict.fromkeys(name for name in found if not name.startswith(("torch.", "nn.", "np."))))[:_MOST_NAMES]


@cache
def _choice() -> re.Pattern[str]:
    """Return the pattern of two names to choose from: `a or b`, `is a faster than b`, `compare a with b`."""
    table = request_words()["connectors"]
    either, than, between, comparing = (
        "|".join(map(re.escape, table[name])) for name in ("or", "than", "between", "comparing")
    )
    name = r"([A-Za-z_][\w.]*\w)"
    forms = (
        rf"{name}(?:\(\))?,?\s+(?:{either})\s+{name}",
        rf"\b(?:{comparing})\s+{name}\s+(?:{between})\s+{name}",
        rf"((?:[\w.]+\s+){{2,5}})(?:{than})\s+{name}",
    )
    return re.compile("|".join(rf"(?<![\w./\\]){form}" for form in forms), re.IGNORECASE)


def _choices(prose: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of words that a request asks to choose from; most of them are no names of the project."""
    text = without_paths(prose).replace("`", " ")
    sides = [[group for group in match.groups() if group] for match in _choice().finditer(text)]
    return tuple((first, second) for words, second in sides[:_MOST_CHOICES] for first in words.split())


def _chosen(
    found: Mapping[str, list[SymbolReference]], choices: Sequence[tuple[str, str]], names: Sequence[str]
) -> dict[str, list[SymbolReference]]:
    """Return the definitions, those of a choice only if the project defines both sides of it."""
    both = {name for choice in choices if all(side in found for side in choice) for name in choice}
    return {name: places for name, places in found.items() if name in names or name in both}


def definitions(root: Path, names: Sequence[str], known: Sequence[str]) -> dict[str, list[SymbolReference]]:
    """Return the definitions of each name, in the order of the files."""
    if not names:
        return {}
    last = {name: name.rpartition(".")[2] for name in names}
    wanted = "|".join(sorted({re.escape(word) for word in last.values()}, key=len, reverse=True))
    pattern = re.compile(rf"(?:\b(?:def|class)\s+(?:{wanted})\b|^(?:{wanted})\s*[:=])".encode(), re.MULTILINE)
    words = tuple({word.encode() for word in last.values()})
    found: dict[str, list[SymbolReference]] = {}
    read = parsed = 0
    for path in known:
        if read > MOST_BYTES or parsed >= _MOST_PARSED:
            break
        try:
            data = (root / path).read_bytes() if path.endswith(".py") else b""
        except OSError:
            continue
        read += len(data)
        # A search for plain words is many times faster than one for definitions.
        if len(data) > _LARGEST_FILE or not any(word in data for word in words) or not pattern.search(data):
            continue
        parsed += 1
        for name, place in _defined(path, data, last):
            found.setdefault(name, []).append(place)
    return {name: found[name] for name in names if name in found}


def _meant_definitions(
    root: Path, name: str, places: list[SymbolReference], known: Sequence[str]
) -> list[SymbolReference]:
    """Return the definition of a name that its package exports, if there are several of one kind."""
    if len(places) < 2 or any("." in each.name for each in places):  # noqa: PLR2004 - several
        return places
    packages = sorted((path for path in known if path.endswith("__init__.py")), key=lambda path: path.count("/"))
    for package in packages[:_MOST_PARSED]:
        try:
            data = (root / package).read_bytes()
            tree = ast.parse(data) if name.encode() in data and len(data) <= _LARGEST_FILE else ast.Module([], [])
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
                module = (node.module or "").replace(".", "/")
                exported = [each for each in places if f"/{each.path.removesuffix('.py')}".endswith(f"/{module}")]
                if len(exported) == 1:
                    return exported
    return places


def _methods(root: Path, named: Sequence[SymbolReference], prose: str) -> Iterator[SymbolReference]:
    """Yield the methods of a named class that a word of the request means: `when does EMA update` is `EMA.update`."""
    words = {each.lower() for each in re.findall(r"[A-Za-z]\w+", prose)} - _PARTICLES
    words |= {word.removesuffix(end) for word in words for end in ("s", "d", "ed", "ing") if word.endswith(end)}
    owners = {each.name: each for each in named}
    for owner in owners.values():
        try:
            data = (root / owner.path).read_bytes()
            tree = ast.parse(data)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for qualified, node in _walk(tree.body, ""):
            outer, _, name = qualified.rpartition(".")
            if outer == owner.name and name in words and not name.startswith("_") and qualified not in owners:
                yield SymbolReference(name, qualified, owner.path, node.lineno, node.end_lineno or node.lineno)


def _defined(path: str, data: bytes, last: Mapping[str, str]) -> Iterator[tuple[str, SymbolReference]]:
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for qualified, node in _walk(tree.body, ""):
        for name, word in last.items():
            if qualified.rpartition(".")[2] == word and _is_meant(name, qualified, path):
                yield name, SymbolReference(name, qualified, path, node.lineno, node.end_lineno or node.lineno)


def _is_meant(name: str, qualified: str, path: str) -> bool:
    """Return whether a definition has the owner that a name gives: a class, an object named like it, or the module."""
    owner = plain(name.rpartition(".")[0].rpartition(".")[2])
    if not owner or owner in {"self", "cls"}:
        return True
    own = plain(qualified.rpartition(".")[0].rpartition(".")[2])
    # An object is often named by the end of its class's name: `diffusion.sample` for `GaussianDiffusion.sample`.
    return owner in {own, plain(PurePosixPath(path).stem)} or (len(owner) >= _SHORTEST_OWNER and own.endswith(owner))


def _walk(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the definitions of a module and of its classes, and the names that the module assigns."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield prefix + name, node
                yield from _walk(node.body, f"{prefix}{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not prefix:
                yield name, node
            case ast.If(body=inner) | ast.Try(body=inner):
                yield from _walk(inner, prefix)
            case _:
                pass
