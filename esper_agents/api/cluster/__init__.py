"""Queue workers on a Ray cluster.

Ray only places processes. Sessions, leases and results are in the database, as without Ray, so that a lost process,
node or head loses nothing. Start reading at `worker_group`; `connection` checks a cluster before it is used.
"""

from __future__ import annotations
