"""ESP903: a pickle is read, so whoever wrote it may run code here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.pickles import opened, reads_a_model
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.untrusted import Source, is_checked, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_PICKLES = (
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "_pickle.load", "_pickle.loads", "cPickle.load"),
    *("cPickle.loads", "pickle5.load", "pickle5.loads", "dill.load", "dill.loads", "cloudpickle.load"),
    *("cloudpickle.loads", "joblib.load", "pandas.read_pickle", "shelve.open", "jsonpickle.decode"),
)
_ARRAYS = ("numpy.load", "numpy.lib.npyio.load")
_YAML = ("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load_all", "yaml.unsafe_load_all")
_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader", "FullLoader")
_WRITES = frozenset({"dump", "dumps", "to_pickle", "save", "savez", "savez_compressed"})


class UnsafePickle(Rule):
    """A `pickle.load`, `numpy.load(allow_pickle=True)` or their like, of a file that others may have written.

    ## Why it costs
    A pickle runs whatever code its author put into it, at once and with the rights of whoever opens it. Files from a
    network or named on a command line are those that others write.

    ## When it is right
    The program wrote the file itself, or its digest is checked first: where the same function or class pickles or
    checks a digest, nothing is reported. Where the code does not show where the file comes from, it is a suggestion.
    Model files are ESP901's.

    ## Sources
    Python documentation of `pickle`, its warning; NumPy documentation of `numpy.load`, the parameter `allow_pickle`;
    PyYAML documentation, on loading YAML.
    """

    code, name = "ESP903", "unsafe-pickle"
    severity, category = Severity.WARNING, Category.SECURITY
    bad = (
        "import pickle\n"
        "\n"
        "import requests\n"
        "import torch\n"
        "\n"
        "\n"
        "def fetch(url):\n"
        "    return torch.as_tensor(pickle.loads(requests.get(url, timeout=10).content))\n"
    )
    good = bad.replace("import pickle\n", "import json\n").replace("pickle.loads", "json.loads")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loads that run what a file says, in projects that use torch."""
        calls = file.calls_to(*_PICKLES, *_ARRAYS, *_YAML)
        if not calls or not index.once("uses torch", lambda: any(each.imports_torch for each in index.files.values())):
            return
        for call in calls:
            source = call.argument(0) or next((keyword.value for keyword in call.node.keywords), None)
            if source is None or not _runs_code(call) or reads_a_model(call) or _is_own(call) or is_checked(call):
                continue
            whence = source_of(source, call, index)
            is_known = whence is not Source.UNKNOWN
            sure = Confidence.HIGH if _is_named(call) else Confidence.MODERATE
            yield self.hit(
                call.node,
                f"`{call.path}` runs whatever code the data holds{f', which comes from {whence}' if is_known else ''}",
                remedy=_remedy(call),
                severity=None if is_known else Severity.SUGGESTION,
                confidence=sure if is_known else Confidence.LOW,
                basis=_basis(call, is_known=is_known),
            )


def _basis(call: Call, *, is_known: bool) -> str:
    if not is_known:
        return f"{INFERRED}: the code does not show who wrote it"
    if not _is_named(call):
        return f"{INFERRED}: that the loader is not a safe one"
    return SEEN if "(" in opened(call) else FOLLOWED


def _loader(call: Call) -> ast.expr | None:
    given = next((keyword.value for keyword in call.node.keywords if keyword.arg == "Loader"), call.argument(1))
    return given if call.name in _YAML else None


def _is_named(call: Call) -> bool:
    """Return whether a load names its loader, if it takes one: `yaml.Loader`, and not the result of a call."""
    loader = _loader(call)
    return loader is None or isinstance(loader, ast.Name | ast.Attribute)


def _runs_code(call: Call) -> bool:
    """Return whether a load runs code as it is called here."""
    said = {keyword.arg: keyword.value for keyword in call.node.keywords}
    if call.name in _ARRAYS:
        allowed = said.get("allow_pickle") or call.argument(2)
        return isinstance(allowed, ast.Constant) and allowed.value is True
    if call.name in {"yaml.load", "yaml.load_all"}:
        loader = said.get("Loader") or call.argument(1)
        # Without a loader, current PyYAML refuses the call.
        return loader is not None and not ast.unparse(loader).endswith(_SAFE_LOADERS)
    return True


def _is_own(call: Call) -> bool:
    """Return whether the function or class around a load also writes such files: a cache of its own, or a copy."""
    owner = call.function.owner
    functions = list(owner.methods.values()) if owner is not None else [call.function]
    roots = {call.name.partition(".")[0]}
    return any(
        each.tail in _WRITES and each.name.partition(".")[0] in roots
        for function in functions
        for each in function.calls
    )


def _remedy(call: Call) -> str:
    if call.name in _ARRAYS:
        return "write `numpy.load(path, allow_pickle=False)`, and keep what is no array in JSON"
    if call.name in _YAML:
        source = call.node.args[0] if call.node.args else None
        if not _is_named(call):
            return "derive the loader from `yaml.SafeLoader`"
        return f"write `yaml.safe_load({ast.unparse(source)[:40] if source is not None else 'file'})`"
    return "keep tensors by `torch.save` and read them by `torch.load(path, weights_only=True)`, the rest in JSON"
