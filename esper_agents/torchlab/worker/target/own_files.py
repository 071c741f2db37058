"""Decide which files are the user's own."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import torch

from .. import FOLDER

_LIBRARIES = tuple(
    os.path.realpath(each) + os.sep
    for each in {*sysconfig.get_paths().values(), str(Path(torch.__file__).parent), FOLDER}
    if each
)


def own_file(root: str, filename: str) -> str | None:
    """Return a file's path relative to `root` if it is below it and in no library; None otherwise."""
    if filename.startswith("<"):
        return None
    real = os.path.realpath(filename)
    inside = os.path.realpath(root).rstrip(os.sep) + os.sep
    if not real.startswith(inside) or any(
        real.startswith(library) and len(library) > len(inside) for library in _LIBRARIES
    ):
        return None
    return real[len(inside) :].replace(os.sep, "/")
