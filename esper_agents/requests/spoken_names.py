"""Find the identifiers of a project that a request means by ordinary words, such as `replay buffer`."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from esper_agents.requests.vocabulary import request_words
from esper_agents.review.discover import python_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_FILES = 20_000
MOST_BYTES = 32_000_000
_LARGEST_FILE = 2_000_000
# Words in a row that mean a part of an identifier, and identifiers that the same words may mean.
_LEAST_WORDS, _MOST_WORDS, _MOST_MEANT = 3, 6, 3
_SHORTEST_WORD = 3
_DEFINED = re.compile(rb"^[ \t]*(class|(?:async )?def)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_IDENTIFIER_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PROSE_WORD = re.compile(r"[A-Za-z]+(?:[ _-][A-Za-z]+)+")


@cache
def _after_question() -> re.Pattern[str]:
    """Return the pattern of two or three words that an explanation is asked of: `how does the replay buffer`."""
    words = "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in request_words()["files"]["about"])
    mine = "|".join(map(re.escape, request_words()["files"]["mine"]))
    return re.compile(rf"\b(?:{words})\s+(?:(?:{mine})\s+)?([A-Za-z]\w+(?:[ -][A-Za-z]\w+){{1,2}})", re.IGNORECASE)


@cache
def _training_of() -> re.Pattern[str]:
    """Return the pattern of what is trained: `my encoder training`, `the encoder trainer`."""
    words = request_words()["files"]
    mine, training = ("|".join(map(re.escape, words[name])) for name in ("mine", "training"))
    return re.compile(rf"\b(?:{mine})\s+(?P<name>[A-Za-z]\w+(?:[ -][A-Za-z]\w+)?)[ -]+(?:{training})\b", re.IGNORECASE)


def spoken_names(root: Path, prose: str) -> dict[str, str]:
    """Return the identifiers of the project that words mean, with the words.

    `replay buffer` means `ReplayBuffer`, `my encoder training` means `EncoderTrainer` or `train_encoder`, and `rational
    quadratic coupling` means `RationalQuadraticCouplingTransform`.

    Args:
        root: The project's folder.
        prose: Words of the request, without paths.
    """
    mentions = dict(_asked_about(prose))
    runs = dict(_runs(prose))
    if not mentions and not runs:
        return {}
    found: dict[str, str] = {}
    parts: dict[str, tuple[int, str]] = {}
    for kind, name in _identifiers(root):
        # Letters in a row may stand for words: no identifier is spelled in two ways by underscores in one project.
        if mention := mentions.get(name.replace("_", "").lower()):
            found.setdefault(name, mention)
        words = tuple(word.lower() for word in _IDENTIFIER_WORD.findall(name))
        if len(words) > 1 and name not in parts:
            length, mention = _longest_run(words, runs, is_class=kind == "class")
            if length:
                parts[name] = (length, mention)
    # The longest words that name something, as the others are a part of them.
    longest = max(map(len, found.values()), default=0)
    known = {name: words for name, words in found.items() if len(words) == longest}
    most = max((length for length, _ in parts.values()), default=0)
    meant = {name: mention for name, (length, mention) in parts.items() if length == most and name not in known}
    return {**known, **(meant if len(meant) <= _MOST_MEANT else {})}


def _asked_about(prose: str) -> Iterator[tuple[str, str]]:
    """Yield names without underscores that a question is about, with its words."""
    for match in _training_of().finditer(prose):
        for form in ("{}trainer", "{}training", "train{}"):
            yield form.format(re.sub(r"[_ -]", "", match["name"]).lower()), match.group()
    for match in _after_question().finditer(prose):
        words = re.split(r"[ -]", match.group(1))
        for count in range(len(words), 1, -1):
            mention = match.group(1)[: sum(map(len, words[:count])) + count - 1]
            yield "".join(words[:count]).replace("_", "").lower(), mention


def _runs(prose: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield runs of two to six words that neither begin nor end with a word that any sentence may have."""
    common = frozenset(request_words()["languages"]["en"]) | frozenset(request_words()["languages"]["de"])
    for match in _PROSE_WORD.finditer(prose):
        words = re.split(r"[ _-]", match.group())
        for begin in range(len(words)):
            for end in range(begin + 2, min(begin + _MOST_WORDS, len(words)) + 1):
                run = tuple(word.lower() for word in words[begin:end])
                if not {run[0], run[-1]} & common and min(map(len, run)) >= _SHORTEST_WORD:
                    yield run, " ".join(words[begin:end])


def _longest_run(words: tuple[str, ...], runs: dict[tuple[str, ...], str], *, is_class: bool) -> tuple[int, str]:
    """Return the number of words of the longest run that means an identifier, and the run; 0 if none does.

    Three words in a row may be a part of it. Two must be the whole name of a class.
    """
    for length in range(min(len(words), _MOST_WORDS), _LEAST_WORDS - 1, -1):
        for begin in range(len(words) - length + 1):
            if mention := runs.get(words[begin : begin + length]):
                return length, mention
    mention = runs.get(words, "") if is_class and len(words) < _LEAST_WORDS else ""
    return (len(words), mention) if mention else (0, "")


def _identifiers(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the kind, `class` or `def`, and the name of each definition of a project."""
    for _, data in project_texts(root):
        for match in _DEFINED.finditer(data):
            yield match[1].decode(), match[2].decode()


def project_texts(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the text of each Python file of a project, as far as the limits allow."""
    read = 0
    for path in python_files(root, most=MOST_FILES):
        if read > MOST_BYTES:
            break
        try:
            data = (root / path).read_bytes() if path.endswith(".py") else b""
        except OSError:
            continue
        read += len(data)
        yield path, data[:_LARGEST_FILE]
