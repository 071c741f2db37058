"""What `from module import *` binds, as far as the file that says it shows."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from esper_agents.review.names import root_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.tables import FileTables

_BUILTINS = frozenset(dir(builtins))
# Names that `from torch import *` binds and that code calls bare.
_OF_TORCH = frozenset(
    {"tensor", "zeros", "ones", "rand", "randn", "arange", "cat", "stack", "no_grad", "manual_seed", "load", "save"}
    | {"softmax", "sigmoid", "relu", "matmul", "mean", "from_numpy", "as_tensor", "empty", "full", "linspace", "nn"}
)


def names_from_stars(file: FileTables, stars: Sequence[str]) -> dict[str, str]:
    """Return the names that a file calls or inherits from and does not define, by the star import they come from.

    Args:
        file: The file, its functions, classes and calls filled in.
        stars: The modules of its star imports, in order.
    """
    defined = {function.name for function in file.functions} | {cls.name for cls in file.classes}
    defined |= set(file.imports) | _BUILTINS
    found: dict[str, str] = {}
    for name in _roots(file):
        if name and name not in defined and (star := _star_of(name, stars)):
            found[name] = f"{star}.{name}"
    return found


def _roots(file: FileTables) -> Iterator[str]:
    for call in file.calls:
        root = root_of(call.path)
        local = (call.function, file.functions[0])
        if not any(root in each.parameters or root in each.assignments for each in local):
            yield root
    for cls in file.classes:
        yield from map(root_of, cls.bases)


def _star_of(name: str, stars: Sequence[str]) -> str:
    """Return the module that a name comes from; empty where several may be meant."""
    if name in _OF_TORCH and "torch" in stars:
        return "torch"
    if name[0].isupper() and "torch.nn" in stars:
        return "torch.nn"
    others = [star for star in stars if star not in {"torch", "torch.nn"}]
    return others[0] if len(others) == 1 else ""
