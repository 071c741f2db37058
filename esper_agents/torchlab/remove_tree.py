"""Delete folders that user code could write to, whatever permissions or links it left in them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def remove(folder: Path) -> None:
    """Delete a folder and its contents, following no link; does nothing if it does not exist.

    No process may write to it any more. Handles folders too deep for recursion and folders without owner permissions.
    """
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        path = str(folder)
        for command in (("chmod", "-R", "u+rwx", "--", path), ("rm", "-rf", "--", path)):
            subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)
