"""What a `setup.py` requires, as far as literals say it; the script is read and never run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ASKING = frozenset({"install_requires", "extras_require", "setup_requires"})


def required_by(text: str) -> Iterator[str]:
    """Yield the requirements that stand in a `setup.py` as literals, in place or under a name.

    Raises:
        ValueError: The script does not parse.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ValueError(str(error)) from error
    bound: dict[str, ast.expr] = {}
    asked: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            bound[node.targets[0].id] = node.value
        elif isinstance(node, ast.keyword) and node.arg in _ASKING:
            asked.append(node.value)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            asked += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value in _ASKING]
    for each in asked:
        value = bound.get(each.id, each) if isinstance(each, ast.Name) else each
        yield from _texts(value)


def _texts(value: ast.expr) -> Iterator[str]:
    """Yield the texts in a literal list, a sum of such, or the values of a literal dictionary."""
    match value:
        case ast.Constant(value=str(text)):
            yield from text.splitlines()
        case ast.List() | ast.Tuple() | ast.Set():
            for each in value.elts:
                yield from _texts(each)
        case ast.Dict():
            for each in value.values:
                yield from _texts(each)
        case ast.BinOp():
            yield from _texts(value.left)
            yield from _texts(value.right)
        case _:
            return
