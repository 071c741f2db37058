"""Strict Jinja environments, whose templates are compiled once for each version of Python."""

from __future__ import annotations

import sys
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.atomic_file import write_atomically
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jinja2 import BytecodeCache, Environment


def strict_environment(
    name: str, finalize: Callable[[Any], object], *, autoescape: bool = False, shared: str = ""
) -> Environment:
    """Return an environment for the templates of a packaged data folder; an undefined name in them is an error.

    Args:
        name: Name of the folder; see `paths.data_folder`.
        finalize: Escapes the value of each expression.
        autoescape: Whether Jinja also escapes values that `finalize` does not mark as escaped.
        shared: Name of a folder with templates that those of the first may import; none if empty.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context

    @pass_context
    def finalized(_context: object, value: Any) -> object:
        return finalize(value)

    return Environment(
        loader=FileSystemLoader([data_folder(each) for each in (name, shared) if each]),
        undefined=StrictUndefined,
        autoescape=autoescape,  # noqa: S701 - finalize escapes every expression for the format
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Nothing of `finalize` and the filters is in the byte code: with these two, Jinja evaluates no constants.
        optimized=False,
        bytecode_cache=_byte_code_cache(data_folder(name) / "__pycache__", f"{autoescape}"),
    )


def _byte_code_cache(folder: Path, options: str) -> BytecodeCache:
    """Return a cache of compiled templates next to the templates, as Python has one next to modules."""
    import jinja2

    class Cache(jinja2.BytecodeCache):
        def load_bytecode(self, bucket: Any) -> None:
            # The bucket compares the digest of the source and the version of Python.
            with suppress(OSError), self._file(bucket).open("rb") as stream:
                bucket.load_bytecode(stream)

        def dump_bytecode(self, bucket: Any) -> None:
            if sys.dont_write_bytecode:
                return
            with suppress(OSError):
                folder.mkdir(exist_ok=True)
                write_atomically(self._file(bucket), bucket.bytecode_to_string(), mode=0o644, is_synced=False)

        def _file(self, bucket: Any) -> Path:
            made_by = f"{jinja2.__version__} {options} {bucket.key}"
            return folder / f"{sha256(made_by.encode()).hexdigest()[:16]}.{sys.implementation.cache_tag}.jinja"

    return Cache()
