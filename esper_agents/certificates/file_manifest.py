"""File manifest: lists each file of a certificate once if it read more than fifty files."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from esper_agents.certificates.strict_json import refuse

# A certificate that read more files lists them in a manifest; one of fewer lists each with every call that read it.
MOST_LISTED = 50
SUBJECT, MEMBER = "files.sha256", "files"
_MEMBERS = frozenset(("sha256", "count", "list", "lines", "bytes"))
_HEX = 64


def compact(predicate: dict[str, Any]) -> dict[str, Any]:
    """Return the predicate of a certificate with its file lists replaced by a manifest, if they are long.

    The manifest is `sha256  path` in one line for each file, as `sha256sum` writes and checks it, sorted by path and
    digest. Calls refer to its lines by ranges such as `1-3,7`.

    Args:
        predicate: Predicate as JSON, with all files listed.
    """
    files = predicate["examined"]
    known = {(each["path"], each["sha256"]): number for number, each in enumerate(files, 1)}
    read = [(each["path"], each["sha256"]) for call in predicate["evidence"] for each in call["examined"]]
    # `sha256sum` writes names with line ends in another form.
    has_odd_names = any(not file["path"].isprintable() or "\\" in file["path"] for file in files)
    is_sorted = list(known) == sorted(known) and len(known) == len(files)
    if len(files) <= MOST_LISTED or has_odd_names or not is_sorted or not set(read) <= set(known):
        return predicate
    text = "".join(f"{file['sha256']}  {file['path']}\n" for file in files)
    manifest = {
        "sha256": sha256(text.encode()).hexdigest(),
        "count": len(files),
        "list": text,
        "lines": " ".join(str(file["lines"]) for file in files),
        "bytes": " ".join(str(file["size_bytes"]) for file in files),
    }
    evidence = [
        call
        if not call["examined"]
        else {
            **call,
            "examined": [],
            MEMBER: _ranges({known[each["path"], each["sha256"]] for each in call["examined"]}),
        }
        for call in predicate["evidence"]
    ]
    return {**predicate, "examined": [], "evidence": evidence, MEMBER: manifest}


def expand(predicate: Any) -> Any:
    """Return a predicate with the files of its manifest listed again; unchanged if it has none.

    Raises:
        IntegrityError: The manifest does not match its digest or its count, or a reference is not one of its lines.
    """
    if not isinstance(predicate, dict) or MEMBER not in predicate:
        return predicate
    files = _files(predicate[MEMBER])
    evidence = predicate.get("evidence")
    if predicate.get("examined") != [] or not isinstance(evidence, list):
        refuse("it has a file manifest and a list of files")
    calls = [_expanded(call, files) for call in evidence]
    return {name: each for name, each in predicate.items() if name != MEMBER} | {"examined": files, "evidence": calls}


def digest_of_manifest(predicate: dict[str, Any]) -> str:
    """Return the digest of a predicate's file manifest; empty if it has none."""
    return str(predicate[MEMBER]["sha256"]) if MEMBER in predicate else ""


def _expanded(call: Any, files: list[dict[str, Any]]) -> Any:
    if not isinstance(call, dict) or MEMBER not in call:
        return call
    if call.get("examined") != []:
        refuse("a call refers to the file manifest and lists files")
    numbers = _numbers(call[MEMBER], len(files))
    rest = {name: each for name, each in call.items() if name != MEMBER}
    return rest | {"examined": [files[number - 1] for number in numbers]}


def _files(manifest: Any) -> list[dict[str, Any]]:
    if not isinstance(manifest, dict) or set(manifest) != _MEMBERS:
        refuse(f"a file manifest has the members {', '.join(sorted(_MEMBERS))}")
    text = manifest["list"]
    if not isinstance(text, str) or sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != manifest["sha256"]:
        refuse("its file manifest does not match its digest")
    rows = [(line[_HEX + 2 :], line[:_HEX]) for line in text.removesuffix("\n").split("\n")]
    lines, sizes = (_counts(manifest[name]) for name in ("lines", "bytes"))
    is_written_so = "".join(f"{digest}  {path}\n" for path, digest in rows) == text
    if not (is_written_so and rows == sorted(set(rows)) and len(rows) == len(lines) == len(sizes) == manifest["count"]):
        refuse("its file manifest is not a sorted list with one line count and one size for each file")
    return [
        {"path": path, "sha256": digest, "git_blob": "", "lines": count, "size_bytes": size}
        for (path, digest), count, size in zip(rows, lines, sizes, strict=True)
    ]


def _counts(text: object) -> list[int]:
    words = text.split(" ") if isinstance(text, str) else [""]
    if not all(word.isascii() and word.isdecimal() and len(word) <= len(str(2**53)) for word in words):
        refuse("its file manifest has a count that is not a number")
    return [int(word) for word in words]


def _ranges(numbers: set[int]) -> str:
    """Return numbers as ranges in order, such as `1-3,7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _numbers(text: object, most: int) -> list[int]:
    """Return the numbers of ranges; each once and in order, from 1 to `most`."""
    found: list[int] = []
    for part in text.split(",") if isinstance(text, str) else [""]:
        first, _, last = part.partition("-")
        last = last or first
        is_range = all(each.isascii() and each.isdecimal() and len(each) <= len(str(most)) for each in (first, last))
        if not is_range or not max(found[-1:] or [0]) < int(first) <= int(last) <= most:
            refuse("a call refers to lines that its file manifest does not have")
        found += range(int(first), int(last) + 1)
    return found
