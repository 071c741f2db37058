"""ESP512: a name that torch has deprecated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import Rewrite, Rule
from esper_agents.review.symbols import uses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.symbols import TorchSymbol
    from esper_agents.review.tables import Call, FileTables
    from esper_agents.review.versions import TorchRange

# Where no settings say which torch is meant, what replaces a name must have been there since this version.
_USUAL = (2, 9)
# Names whose replacement takes the same arguments in the same places.
_SAME = {
    "torch.ger": "torch.outer",
    "torch.cuda.memory_cached": "torch.cuda.memory_reserved",
    "torch.cuda.max_memory_cached": "torch.cuda.max_memory_reserved",
    "torch.cuda.reset_max_memory_allocated": "torch.cuda.reset_peak_memory_stats",
    "torch.cuda.reset_max_memory_cached": "torch.cuda.reset_peak_memory_stats",
    "torch.library.impl_abstract": "torch.library.register_fake",
    "torch.nn.functional.upsample": "torch.nn.functional.interpolate",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "torch._utils.is_compiling": "torch.compiler.is_compiling",
    "torch._dynamo.external_utils.is_compiling": "torch.compiler.is_compiling",
}
# The same with one argument, which is all that most calls give.
_SAME_WITH_ONE = {"torch.qr": "torch.linalg.qr", "torch.cholesky": "torch.linalg.cholesky"}
_OF_DEVICE = {
    "torch.get_autocast_gpu_dtype": Rewrite("torch.get_autocast_dtype", first='"cuda"'),
    "torch.get_autocast_cpu_dtype": Rewrite("torch.get_autocast_dtype", first='"cpu"'),
    "torch.is_autocast_cpu_enabled": Rewrite("torch.is_autocast_enabled", first='"cpu"'),
    "torch.set_autocast_cpu_enabled": Rewrite("torch.set_autocast_enabled", first='"cpu"'),
    "torch.set_autocast_gpu_dtype": Rewrite("torch.set_autocast_dtype", first='"cuda"'),
    "torch.meshgrid": Rewrite(arguments={"indexing": '"ij"'}),
}
_FUNCTORCH = {f"functorch.{name}": f"torch.func.{name}" for name in ("vmap", "grad", "grad_and_value", "vjp", "jvp")}


class DeprecatedSymbol(Rule):
    """A function, module or argument that torch has deprecated and still has.

    ## Why it costs
    It warns at every use or is documented as no longer maintained, and a later version removes it. What replaces it is
    usually faster, safer, or says what it does.

    ## When it is right
    The code must run with a torch that does not have the replacement: then nothing is reported, if
    `pyproject.toml`, `setup.cfg`, `setup.py`, `requirements.txt` or `environment.yml` say so. Uses under a test of the
    version, under `hasattr` and in a `try` are left alone, and so are uses of a name that an import there binds
    (`except ImportError: from functorch import vmap`). The old names of mixed precision are ESP502's.

    ## Sources
    The sources of torch 2.13, where each of these warns or is documented so; each name's own is in
    `review/symbols.toml`.
    """

    code, name = "ESP512", "deprecated-symbol"
    severity, category = Severity.SUGGESTION, Category.COMPILE
    bad = "from torch import nn\n\nlayer = nn.Linear(8, 8)\nnn.init.xavier_uniform(layer.weight)\n"
    good = "from torch import nn\n\nlayer = nn.Linear(8, 8)\nnn.init.xavier_uniform_(layer.weight)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the uses of deprecated names."""
        found = [
            each for each in index.once(("symbols", file.path), lambda: uses(file, index)) if not each.symbol.removed
        ]
        asked = index.torch_asked_by(file) if found else None
        for use in found:
            if _counts(use.symbol, asked):
                argument = f"`{use.symbol.keyword}` of " if use.symbol.keyword else ""
                missing = f" without `{use.symbol.absent}`" if use.symbol.absent else ""
                yield self.hit(
                    use.node,
                    f"{argument}`{use.name}`{missing} is deprecated since torch {use.symbol.deprecated}",
                    remedy=f"{use.symbol.replacement(use.name)} (torch {use.symbol.replaced_from} and later)",
                )

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - whatever it says
        """Return the call by the name that replaces its own, where that takes the same arguments."""
        if call.name.startswith("torch.nn.init.") and not call.name.endswith("_"):
            return Rewrite(f"{call.name}_")
        if call.name in _SAME_WITH_ONE:
            is_plain = len(call.node.args) == 1 and not call.node.keywords and not call.has_splat()
            return Rewrite(_SAME_WITH_ONE[call.name]) if is_plain else None
        same = _SAME.get(call.name) or _FUNCTORCH.get(call.name)
        return Rewrite(same) if same else _OF_DEVICE.get(call.name)


def _counts(symbol: TorchSymbol, asked: TorchRange | None) -> bool:
    """Return whether the versions in question deprecate a name, and all of them have what replaces it."""
    if asked is None:
        return tuple(int(part) for part in symbol.replaced_from.split(".")) <= _USUAL
    return asked.reaches(symbol.deprecated) and asked.starts_at(symbol.replaced_from)
