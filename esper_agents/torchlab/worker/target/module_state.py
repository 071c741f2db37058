"""Parameters and buffers of a module: read, set as users set them, and matched between two modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..compare.float64_reference import widen
from ..compare.tensor_bundle import Piece, capture

# torch.compile wraps a module and adds this prefix to every name.
_WRAPPED = "_orig_mod."


@dataclass
class Matching:
    """Matching of a candidate's parameters and buffers with the baseline's.

    Attributes:
        names: Candidate's name for each matched name of the baseline.
        how: `by name`, `by position`, `by its own loading` (its `load_state_dict` took all), or `not at all`.
        unmatched: Names of the baseline without a counterpart.
        extra: Names of the candidate without a counterpart; they keep the candidate's values.
        saved: Names in the baseline's `state_dict`.
    """

    names: dict[str, str] = field(default_factory=dict)
    how: str = "by name"
    unmatched: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    saved: frozenset[str] = frozenset()

    def described(self) -> dict[str, Any]:
        """Return the matching as stored in results."""
        moved = sorted(self.saved - set(self.names)) if self.how == "by its own loading" else []
        return {
            "matched": len(self.names) + len(moved),
            "how": self.how,
            "unmatched": self.unmatched,
            "moved": moved,
            "extra": self.extra,
        }


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name, including those that are never saved."""
    named: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    named.update(module.named_buffers(remove_duplicate=False))
    return {name.replace(_WRAPPED, ""): tensor for name, tensor in named.items()}


def saved_names(module: torch.nn.Module) -> list[str]:
    """Return the names in a module's `state_dict`."""
    return [name.replace(_WRAPPED, "") for name in module.state_dict()]


def match(module: torch.nn.Module, baseline: dict[str, torch.Tensor], saved: frozenset[str]) -> Matching:
    """Load a baseline's state into a candidate as far as possible, and return the matching.

    Args:
        module: The candidate.
        baseline: The baseline's state.
        saved: Names of that state in the baseline's `state_dict`.
    """
    own = state_of(module)
    names = {name: name for name, tensor in baseline.items() if name in own and own[name].shape == tensor.shape}
    how = "by name"
    if len(names) < len(baseline):
        if _loads_itself(module, {name: each for name, each in baseline.items() if name in saved}):
            extra = sorted(set(own) - set(baseline))
            return Matching(names, "by its own loading", sorted(set(baseline) - saved - set(names)), extra, saved)
        if [each.shape for each in baseline.values()] == [each.shape for each in own.values()]:
            names, how = dict(zip(baseline, own, strict=True)), "by position"
    unmatched = [name for name in baseline if name not in names]
    extra = sorted(set(own) - set(names.values()))
    matching = Matching(names, how if names or not baseline else "not at all", unmatched, extra, saved)
    write(module, matching, baseline)
    return matching


def _loads_itself(module: torch.nn.Module, baseline: dict[str, torch.Tensor]) -> bool:
    """Try the module's own `load_state_dict`: its hooks may convert weights, such as fusing three into one."""
    before = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    try:
        module.load_state_dict(baseline, strict=True)
    except (RuntimeError, KeyError, TypeError, ValueError, AttributeError):
        module.load_state_dict(before, strict=False)
        return False
    return True


def write(module: torch.nn.Module, matching: Matching, values: dict[str, torch.Tensor], how: str = "copy") -> None:
    """Write the values of a state into a module.

    Args:
        module: The module.
        matching: Matching of names.
        values: Values by the baseline's names.
        how: `copy` writes into the parameters as an optimizer does; `load` goes through `load_state_dict`; `assign`
            replaces them with new tensors.
    """
    if matching.how == "by its own loading":
        module.load_state_dict({name: values[name] for name in matching.saved}, strict=True)
        return
    if how == "copy":
        own = state_of(module)
        with torch.no_grad():
            for theirs, ours in matching.names.items():
                if not _is_same(own[ours], values[theirs]):
                    own[ours].copy_(values[theirs])
        return
    kept = {name.replace(_WRAPPED, ""): name for name in module.state_dict()}
    given = {kept[ours]: values[theirs] for theirs, ours in matching.names.items() if ours in kept}
    module.load_state_dict(given, strict=False, assign=how == "assign")


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and bool(torch.equal(one, other.to(one.device)))


def changed(state: Piece, seed: int) -> Piece:
    """Return another state of the same module, as a training step could produce it.

    Parameters change by about a tenth of their magnitude; buffers are only scaled, so that variances stay positive.

    Args:
        state: A state as returned by `capture(state_of(module))`.
        seed: Seed of its random numbers.
    """
    chance = torch.Generator().manual_seed(seed)

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        wide = tensor.detach().to("cpu", torch.float64)
        factor = 1 + 0.25 * torch.rand(wide.shape, generator=chance, dtype=torch.float64)
        if not tensor.requires_grad:
            return (wide * factor).to(tensor.device, tensor.dtype)
        size = wide.square().mean().sqrt().item() if wide.numel() else 0.0
        noise = torch.randn(wide.shape, generator=chance, dtype=torch.float64) * (0.1 * size or 0.05)
        return (wide * factor + noise).to(tensor.device, tensor.dtype).requires_grad_()

    return capture({name: moved(each) for name, each in state.restore().items()})


def prepared(values: dict[str, torch.Tensor], *, is_wide: bool) -> dict[str, torch.Tensor]:
    """Return values in the form that a module accepts: detached, and in float64 for a module that runs in it."""
    plain = {name: each.detach() for name, each in values.items()}
    wide: dict[str, torch.Tensor] = widen(plain) if is_wide else plain
    return wide
