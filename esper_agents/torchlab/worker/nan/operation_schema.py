"""Facts about an operation before it runs: the arguments it writes to, the meaning of its outputs."""

from __future__ import annotations

from typing import Any

# What an operation in place overwrites is kept until it has run, if it is not more than this.
_MOST_KEPT_BYTES = 64 << 20
# Optimizers overwrite all parameters at once, many times a step, and what goes wrong in them seldom lies there.
_MOST_KEPT_IN_LISTS_BYTES = 4 << 20
# Operations whose numbers are bounds or orders, and do not come out again.
_BOUNDS = ("norm", "clamp", "dist", "nan_to_num", "hardtanh")
# Operations in place that write a part and read nothing of what was there.
_PARTIAL = ("index", "scatter", "masked", "fill", "copy", "put")
_OVERWRITES = frozenset((
    "fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_", "eye", "arange", "linspace", "set_", "resize_", "_foreach_zero_", "_foreach_copy_",
))  # fmt: skip
# Give a tensor other memory, and compute nothing.
_MEMORY = frozenset(("set_", "resize_", "resize_as_", "_resize_output_"))
# In place, and finite where they are given finite numbers: what they overwrite explains nothing.
_TAME = frozenset((
    "relu_", "leaky_relu_", "hardtanh_", "clamp_", "clamp_min_", "clamp_max_", "neg_", "abs_", "tanh_", "sigmoid_",
    "threshold_",
))  # fmt: skip
_UNINITIALISED = frozenset((
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
))  # fmt: skip


class OperationSchema:
    """What is known of an operation by its schema.

    Attributes:
        name: Such as `aten.div_.Tensor`.
        base: Such as `div_`.
        arguments: Their names.
        writes: Names of those that it writes to.
        overwritten: Names of those whose earlier content it does not read.
        is_ignored: Nothing that it puts out is computed.
        is_read: It takes a Python number out of a tensor.
        is_uninitialised: It hands out memory as it is.
        is_tame: In place, and finite where it is given finite numbers.
        is_partial: In place, and may leave a part of what was there.
        keeps: What it overwrites has to be kept until it has run, up to `most_kept_bytes`.
        most_kept_bytes: See `keeps`.
        puts_numbers_in: Plain numbers among its arguments may come out again as elements.
    """

    def __init__(self, func: Any) -> None:
        """Read the schema of an operation."""
        schema = func._schema  # noqa: SLF001 - operations have no public schema
        self.name = str(func)
        self.base = schema.name.rpartition("::")[2]
        self.arguments = [each.name for each in schema.arguments]
        self.writes = [
            each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write
        ]
        is_whole = self.base in _OVERWRITES
        self.overwritten = {
            each.name for each in schema.arguments if each.name in self.writes and (is_whole or each.is_out)
        }
        returned = [each.alias_info for each in schema.returns]
        has_tensor = any("Tensor" in str(each.type) for each in schema.returns)
        is_view = bool(returned) and all(each is not None and not each.is_write for each in returned)
        self.is_read = self.base in {"_local_scalar_dense", "item"}
        is_nothing_put_out = not self.writes and (not has_tensor or is_view)
        self.is_ignored = self.base in _MEMORY or (is_nothing_put_out and not self.is_read)
        self.is_uninitialised = self.base in _UNINITIALISED
        self.is_tame = self.base in _TAME
        self.keeps = len(self.writes) > len(self.overwritten) and not self.is_tame
        self.most_kept_bytes = _MOST_KEPT_IN_LISTS_BYTES if self.base.startswith("_foreach_") else _MOST_KEPT_BYTES
        self.puts_numbers_in = not any(each in self.base for each in _BOUNDS)
        self.is_partial = bool(self.writes) and any(each in self.base for each in _PARTIAL)

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return arguments by name."""
        return {**dict(zip(self.arguments, args)), **kwargs}  # noqa: B905 - what was left out has its default
