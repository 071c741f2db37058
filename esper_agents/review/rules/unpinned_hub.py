"""ESP902: code is fetched from a branch that may change."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function


# What a reference names that moves with every push; none at all means the default branch.
_BRANCHES = frozenset({"", "main", "master"})
# Under which a call is told what to load.
_NAMING = ("model", "pretrained_model_name_or_path", "repo_id", "path")
_PLACES = {"pipeline": 1}
# What a folder of one's own is called.
_FOLDER = pattern(r"(?<!or_)path|dir(?![a-z])|directory|folder|local|file|cache|output|saved", re.IGNORECASE)
_JOINING = ("os.path.", "pathlib.", "Path(")
_TRUSTING = ("from_pretrained", "load_dataset", "pipeline", "from_config")


class UnpinnedHub(FileRule):
    """A `torch.hub.load` of a repository without a tag or commit, or `trust_remote_code=True` without a revision.

    ## Why it costs
    It downloads the default branch and runs its code (`hubconf.py`, or the module beside the weights): what runs is
    decided by whoever can push there, today and in every later run, and results cannot be repeated.

    ## When it is right
    `source="local"`, or a repository of one's own. A tag can be moved, too: a full commit cannot.

    ## Sources
    PyTorch documentation of `torch.hub.load`: `repo_owner/repo_name[:ref]`, and `trust_repo`. Transformers
    documentation, on custom models: `trust_remote_code` with a `revision`.
    """

    code, name = "ESP902", "unpinned-hub"
    severity, category = Severity.WARNING, Category.SECURITY
    bad = 'import torch\n\nmodel = torch.hub.load("pytorch/vision", "resnet18")\n'
    good = 'import torch\n\nmodel = torch.hub.load("pytorch/vision:v0.24.0", "resnet18")\n'

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the loads of an unpinned repository."""
        yield from self._trusted(file)
        for call in file.calls_to("torch.hub.load", "torch.hub.help", "torch.hub.list"):
            repository = call.argument(0, "repo_or_dir") or call.argument(0, "github")
            name = _text(repository, call)
            if isinstance(name, str) and _is_unpinned(name) and not _is_local(call):
                yield self.hit(
                    call.node,
                    f"the code of {name!r} is fetched from a branch that may change",
                    remedy=f"name a tag or commit: `{name.partition(':')[0]}:<ref>`",
                )

    def _trusted(self, file: FileTables) -> Iterator[RuleMatch]:
        for call in file.calls_ending(*_TRUSTING):
            said = {keyword.arg: keyword.value for keyword in call.node.keywords}
            trusts = said.get("trust_remote_code")
            if (
                isinstance(trusts, ast.Constant)
                and trusts.value is True
                and not said.keys() & {"revision", None, "code_revision"}
            ):
                first = next((said[each] for each in _NAMING if each in said), None) or call.argument(
                    _PLACES.get(call.tail, 0)
                )
                name = _text(first, call)
                is_known = isinstance(name, str)
                if _may_be_repository(name) if is_known else _is_asked_for(first, call):
                    yield self.hit(
                        call.node,
                        "`trust_remote_code=True` runs the code of a branch that may change",
                        remedy='name a commit: `revision="<commit>"`',
                        confidence=Confidence.HIGH if is_known else Confidence.MODERATE,
                        basis=SEEN if is_known else f"{INFERRED}: that it is the name of a repository, and no folder",
                        severity=None if is_known else Severity.SUGGESTION,
                    )


def _may_be_repository(name: object) -> bool:
    return isinstance(name, str) and name.count("/") == 1 and not name.startswith((".", "/", "~"))


def _is_asked_for(given: ast.expr | None, call: Call) -> bool:
    """Return whether what is loaded is named by a variable, as `checkpoint` or `args.model`, that is no folder."""
    if not isinstance(given, ast.Name | ast.Attribute | ast.Subscript):
        return False
    if _FOLDER.search(ast.unparse(given)):
        return False
    made = call.function.assignments.get(dotted(given), ())
    return not any(
        ast.unparse(each.value).startswith(_JOINING) or _FOLDER.search(ast.unparse(each.value)) for each in made
    )


def _text(repository: ast.expr | None, call: Call) -> object:
    """Return the name of a repository, written in place or held by a name that is bound once."""
    for function in (call.function, call.function.file.functions[0]):
        bound = function.assignments.get(repository.id, []) if isinstance(repository, ast.Name) else []
        if len(bound) == 1:
            repository = bound[0].value
    if isinstance(repository, ast.Name) and repository.id in call.function.parameters:
        repository = _default(repository.id, call.function)
    return repository.value if isinstance(repository, ast.Constant) else None


def _default(parameter: str, function: Function) -> ast.expr | None:
    """Return what a parameter is where nobody hands anything over."""
    arguments = getattr(function.node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return None
    listed = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip((each.arg for each in reversed(listed)), reversed(arguments.defaults), strict=False))
    defaults |= {
        each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value
    }
    return defaults.get(parameter)


def _is_unpinned(repository: str) -> bool:
    name, _, reference = repository.partition(":")
    return name.count("/") == 1 and reference in _BRANCHES


def _is_local(call: Call) -> bool:
    return any(
        keyword.arg == "source" and ast.unparse(keyword.value).strip("'\"") == "local" for keyword in call.node.keywords
    )
