"""Whether a named tensor is changed in place after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.review.tables import Call


def is_changed_in_place(path: str, call: Call, since: int) -> bool:
    """Return whether what a path holds is changed between a line and a call: `p.clamp_(...)`, `p[p == 0] = 1e-8`.

    Args:
        path: The tensor, as written in the call's function; an empty one holds nothing.
        call: The call that reads it.
        since: The line it was made on.
    """
    function = call.function
    return bool(path) and (
        any(
            each.receiver == path and each.tail.endswith("_") and since <= each.line <= call.line
            for each in function.calls
        )
        or any(since <= each.line < call.line for each in function.assignments.get(f"{path}[]", ()))
    )
