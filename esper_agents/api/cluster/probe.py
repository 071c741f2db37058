"""Program that reports whether a Ray cluster answers a client; run in a process of its own.

A process reads its token once, so that the question without a token needs another process. Prints one word:
`answered`, `refused` (a token is missing or wrong) or `silent`, and the address; or `foreign` and a file.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from esper_agents.certificates.signing.regular_file import read_plain

_MOST_BYTES = 300
_ADDRESS = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,255}:[0-9]{1,5}")


def own_head(file: Path) -> str:
    """Return the address of the cluster that this user started last on this machine.

    Ray would also take any head process that it finds: on a shared machine that of another user, who would get the
    token.

    Args:
        file: File in which `ray start` writes the address.

    Raises:
        FileNotFoundError: There is no such file.
        PermissionError: Another user owns it or can write it, or it is a link or not a regular file.
        ValueError: It does not contain an address.
    """
    try:
        found = read_plain(file, _MOST_BYTES, follow=False)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(file)) from error
    except OSError as error:
        raise PermissionError(str(file)) from error
    if found is None or found.status.st_uid != os.geteuid() or found.status.st_nlink != 1:
        raise PermissionError(str(file))
    if found.status.st_mode & 0o002:
        raise PermissionError(str(file))
    address = found.data.decode("ascii", "replace").strip()
    if not _ADDRESS.fullmatch(address):
        raise ValueError(address)
    return address


def main(address: str) -> str:
    """Return the word and the address of the cluster.

    Args:
        address: `HOST:PORT`, or `auto` for the cluster that this user started on this machine.
    """
    from ray._common.utils import get_ray_address_file
    from ray._private.services import canonicalize_bootstrap_address_or_die
    from ray._raylet import GcsClient  # type: ignore[attr-defined] # compiled
    from ray.exceptions import AuthenticationError, RayError

    file = Path(get_ray_address_file(None))
    try:
        found = canonicalize_bootstrap_address_or_die(own_head(file) if address == "auto" else address)
    except PermissionError:
        return f"foreign {file}"
    except (ConnectionError, FileNotFoundError, ValueError):
        return "silent "
    try:
        # Reads the identifier of the cluster, which needs a token if the cluster has one.
        _ = GcsClient(address=found).cluster_id
    except AuthenticationError:
        return f"refused {found}"
    except (RayError, ConnectionError, RuntimeError):
        return f"silent {found}"
    return f"answered {found}"


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1]))
