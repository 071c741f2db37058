"""Program that reports whether a Ray cluster answers a client; run in a process of its own.

A process reads its token once, so that the question without a token needs another process. Prints one word:
`answered`, `refused` (a token is missing or wrong) or `silent`, and the address.
"""

from __future__ import annotations

import sys


def main(address: str) -> str:
    """Return the word and the address of the cluster.

    Args:
        address: `HOST:PORT`, or `auto` for the cluster of this machine.
    """
    from ray._private.services import canonicalize_bootstrap_address_or_die
    from ray._raylet import GcsClient  # type: ignore[attr-defined] # compiled
    from ray.exceptions import AuthenticationError, RayError

    try:
        found = canonicalize_bootstrap_address_or_die(address)
    except (ConnectionError, ValueError):
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
