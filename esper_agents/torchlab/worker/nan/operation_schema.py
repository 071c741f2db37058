"""Facts about an operation before it runs: the arguments it writes to, the meaning of its outputs."""

from __future__ import annotations

from typing import Any

# Maximum bytes of overwritten arguments that are copied before an in-place operation.
_MOST_KEPT_BYTES = 64 << 20
# Optimizers overwrite all parameters at once, many times a step, and seldom cause the problem.
_MOST_KEPT_IN_LISTS_BYTES = 4 << 20
# Operations whose numbers are bounds or orders, and do not occur in the result.
_BOUNDS = ("norm", "clamp", "dist", "nan_to_num", "hardtanh")
# In-place operations that write a part and do not read the previous content.
_PARTIAL = ("index", "scatter", "masked", "fill", "copy", "put")
_OVERWRITES = frozenset((
    "fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_", "eye", "arange", "linspace", "set_", "resize_", "_foreach_zero_", "_foreach_copy_",
))  # fmt: skip
# Operations that replace a tensor's memory, and compute nothing.
_MEMORY = frozenset(("set_", "resize_", "resize_as_", "_resize_output_"))
# In-place operations with finite results for finite inputs: their overwritten content explains nothing.
_TAME = frozenset((
    "relu_", "leaky_relu_", "hardtanh_", "clamp_", "clamp_min_", "clamp_max_", "neg_", "abs_", "tanh_", "sigmoid_",
    "threshold_",
))  # fmt: skip
_UNINITIALISED = frozenset((
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
))  # fmt: skip


class OperationSchema:
    """Facts about an operation from its schema.

    Attributes:
        name: Full name, such as `aten.div_.Tensor`.
        base: Base name, such as `div_`.
        arguments: Names of its arguments.
        writes: Names of the arguments that it writes to.
        overwritten: Names of the arguments whose previous content it does not read.
        is_ignored: Whether none of its outputs is computed.
        is_read: Whether it reads a Python number from a tensor.
        is_uninitialised: Whether it returns uninitialised memory.
        is_tame: Whether it is in place, with finite results for finite inputs.
        is_partial: Whether it is in place, and may keep a part of the previous content.
        keeps: Whether overwritten content must be copied before it runs, up to `most_kept_bytes`.
        most_kept_bytes: See `keeps`.
        puts_numbers_in: Whether plain numbers among its arguments may occur as result elements.
    """

    def __init__(self, func: Any) -> None:
        """Read the schema of an operation."""
        schema = func._schema  # noqa: SLF001 - operations have no public schema
        self.name = str(func)
        self.base = schema.name.rpartition("::")[2]
        self.arguments = [argument.name for argument in schema.arguments]
        self.writes = [
            argument.name
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        is_whole = self.base in _OVERWRITES
        self.overwritten = {
            argument.name
            for argument in schema.arguments
            if argument.name in self.writes and (is_whole or argument.is_out)
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
        self.puts_numbers_in = not any(bound in self.base for bound in _BOUNDS)
        self.is_partial = bool(self.writes) and any(each in self.base for each in _PARTIAL)

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return arguments by name."""
        return {**dict(zip(self.arguments, args)), **kwargs}  # noqa: B905 - omitted arguments have their defaults
