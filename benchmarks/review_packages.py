"""Released packages of PyPI as folders of source, for the benchmarks that review them.

Only wheels are taken: pip would run a source archive's own code to learn its name.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_READ = (".py", ".ipynb")


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where released packages are taken from.

    Attributes:
        scratch: A folder to download to and to unpack in.
        given: A folder of wheels or unpacked wheels; with it nothing is downloaded.
    """

    scratch: Path
    given: Path | None = None

    def folder(self, name: str, version: str) -> Path:
        """Return the folder that holds the Python source of a release.

        Raises:
            SystemExit: There is no wheel of it, or it is not in the given folder.
        """
        stem = f"{_normal(name)}-{version}"
        unpacked = self.scratch / stem
        if unpacked.is_dir():
            return unpacked
        if self.given is None:
            return _unpack(self._download(name, version), unpacked)
        for path in sorted(self.given.iterdir()):
            if _stem(path) == stem:
                return path if path.is_dir() else _unpack(path, unpacked)
        raise SystemExit(f"{name}=={version} is not in {self.given}: put its wheel there")

    def _download(self, name: str, version: str) -> Path:
        target = self.scratch / f"{_normal(name)}-{version}.download"
        quietly = ("--quiet", "--disable-pip-version-check", "--no-input")
        only = ("--no-deps", "--only-binary=:all:", "--ignore-requires-python")
        pip = (sys.executable, "-m", "pip", "download", *quietly, *only, "--dest", str(target), f"{name}=={version}")
        done = subprocess.run(pip, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"pip cannot download {name}=={version}: {done.stderr.strip().splitlines()[-1]}")
        return next(target.glob("*.whl"))


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [each for each in archive.namelist() if each.endswith(_READ)])
    return folder


def _stem(path: Path) -> str:
    """Return the name and version that a wheel or an unpacked wheel says it holds."""
    name, _, rest = path.name.removesuffix(".whl").partition("-")
    return f"{_normal(name)}-{rest.partition('-')[0]}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
