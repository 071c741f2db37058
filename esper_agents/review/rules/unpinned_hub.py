"""ESP902: code is fetched from a branch that may change."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import Hit
    from esper_agents.review.tables import Call, FileTables


# What a reference names that moves with every push; none at all means the default branch.
_BRANCHES = frozenset({"", "main", "master"})
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

    def look(self, file: FileTables) -> Iterator[Hit]:
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

    def _trusted(self, file: FileTables) -> Iterator[Hit]:
        for call in file.calls_ending(*_TRUSTING):
            said = {each.arg: each.value for each in call.node.keywords}
            trusts = said.get("trust_remote_code")
            if (
                isinstance(trusts, ast.Constant)
                and trusts.value is True
                and not said.keys() & {"revision", None, "code_revision"}
            ):
                first = call.argument(0)
                is_remote = (
                    isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.count("/") == 1
                )
                if is_remote and not str(first.value if isinstance(first, ast.Constant) else "").startswith(
                    (".", "/", "~")
                ):
                    yield self.hit(
                        call.node,
                        "`trust_remote_code=True` runs the code of a branch that may change",
                        remedy='name a commit: `revision="<commit>"`',
                    )


def _text(repository: ast.expr | None, call: Call) -> object:
    """Return the name of a repository, written in place or held by a name that is bound once."""
    for function in (call.function, call.function.file.functions[0]):
        bound = function.assignments.get(repository.id, []) if isinstance(repository, ast.Name) else []
        if len(bound) == 1:
            repository = bound[0].value
    return repository.value if isinstance(repository, ast.Constant) else None


def _is_unpinned(repository: str) -> bool:
    name, _, reference = repository.partition(":")
    return name.count("/") == 1 and reference in _BRANCHES


def _is_local(call: Call) -> bool:
    return any(each.arg == "source" and ast.unparse(each.value).strip("'\"") == "local" for each in call.node.keywords)
