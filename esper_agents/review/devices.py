"""Whether the code under review runs on a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex

_GPU = re.compile(r"""["']cuda(?::\d+)?["']|\.cuda\(|\btorch\.cuda\.is_available\(""")


def uses_gpu(index: ProjectIndex) -> bool:
    """Return whether some file that is no test or benchmark puts something on a CUDA device, or asks for one."""
    return index.once(
        "uses a gpu",
        lambda: any(
            file.purpose in {Purpose.CODE, Purpose.EXAMPLE} and _GPU.search(file.text) is not None
            for file in index.files.values()
        ),
    )
