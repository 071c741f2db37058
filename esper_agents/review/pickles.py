"""What a pickle is read from, and whether it is a model by its name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.tables import Call

PICKLES = ("pickle.load", "pickle.Unpickler", "cPickle.load", "dill.load", "cloudpickle.load", "joblib.load")
_MODEL_FILE = pattern(r"model|checkpoint|ckpt|weights|state_?dict|\.pth?\b", re.IGNORECASE)


def opened(call: Call) -> str:
    """Return what a pickle is read from, as written: a path, or what was opened under that name."""
    source = call.argument(0, "file")
    if isinstance(source, ast.Name):
        made = call.function.last_assignment(source.id, call.line + 1)
        source = made.value if made is not None else source
    if isinstance(source, ast.Call):
        return " ".join(ast.unparse(arg) for arg in source.args[:1])
    return ast.unparse(source) if source is not None else ""


def reads_a_model(call: Call) -> bool:
    """Return whether a pickle is a model's, by the name of the file."""
    return call.name in PICKLES and _MODEL_FILE.search(opened(call)) is not None
