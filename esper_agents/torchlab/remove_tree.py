"""Delete folders that user code could write to, whatever permissions or links it left in them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def remove(folder: Path) -> None:
    """Delete a folder with all that is in it, following no link; quietly where it is gone already.

    Nobody may write in it any more. Folders too deep to be walked by recursion and those closed to their owner go too.
    """
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        path = str(folder)
        for command in (("chmod", "-R", "u+rwx", "--", path), ("rm", "-rf", "--", path)):
            subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)
