"""Remedies for failed Dynamo guards, so that the function is not recompiled for them."""

from __future__ import annotations

import re

_CAUSES = (
    (r"size mismatch", "size"),
    (r"\.size\(\)|\.stride\(\)|\.storage_offset\(\)|\bs\d+\b", "condition on a size"),
    (r"stride mismatch|is_contiguous|memory.format", "layout"),
    (r"dtype mismatch", "dtype"),
    (r"requires_grad mismatch|GRAD_MODE|grad_mode", "gradients"),
    (r"device mismatch", "device"),
    (r"dispatch key|Duplicate tensor|tensor aliasing", "tensor"),
    (r"global_state|___check_global|deterministic|autocast|default_dtype|num_threads", "global state"),
    (r"got deallocated|invalidated", "deallocated"),
    (r"___check_obj_id|ID_MATCH|\bis (not )?", "object"),
    (r"___check_type_id", "type"),
    (r"\blen\(|dict_|keys\(\)|not in |hasattr", "structure"),
    (r"^G\[|\.__globals__|__closure__", "global"),
    (r"_modules\[|^[A-Za-z_]\w*\.[\w.]+ ==|\.training\b", "attribute"),
    (r"==", "constant"),
)
_CHANGES = {
    "size": (
        "The size changed. Dynamo makes it dynamic when it changes for the first time; say so beforehand with "
        "torch._dynamo.mark_dynamic(tensor, dim) or dynamic=True, pad to a few sizes, and keep Python conditions on "
        "sizes out of the function."
    ),
    "condition on a size": (
        "The code, or an operation in it, decides by a size, and each side is compiled by itself. Write it without the "
        "condition, or state with torch._check what always holds."
    ),
    "layout": "Bring inputs into one layout, such as with .contiguous(), before the compiled function.",
    "dtype": "Convert inputs to one dtype before the compiled function.",
    "device": "Move inputs to one device before the compiled function.",
    "gradients": (
        "Call the function with the same gradient mode and the same requires_grad each time; a version for training "
        "and one for evaluation are to be expected."
    ),
    "tensor": "Pass tensors of one kind that do not share storage or stand twice among the arguments.",
    "global state": "Set global switches (autocast, default dtype, determinism, threads) once, before the first call.",
    "object": (
        "Another object was passed than before. Create it once and pass the same: functions, lambdas, classes and "
        "modules count by identity."
    ),
    "deallocated": "An object that the compiled code relied on is gone: make it once, outside, and keep it.",
    "type": "Pass arguments of the same type in each call.",
    "structure": "Pass lists and dictionaries of the same length and keys in each call.",
    "global": (
        "A global or closed-over value changes between calls. Hand it in as an argument, and as a tensor if it is a "
        "number that changes each time."
    ),
    "attribute": (
        "An attribute changes between calls. Keep a counter out of forward, or make it a tensor buffer; "
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True treats integers as dynamic."
    ),
    "constant": (
        "A Python number or string changes between calls and is compiled in. Hand it in as a tensor, or keep it the "
        "same."
    ),
}
_GENERIC = "Keep what this guard checks the same from call to call, or compute it outside the compiled function."


def cause_of(guard: str) -> str:
    """Return the cause of a guard failure, such as `size` or `attribute`; `unknown` if none matches."""
    return next((cause for words, cause in _CAUSES if re.search(words, guard)), "unknown")


def change_for(guard: str) -> str:
    """Return the remedy for a failed guard."""
    return _CHANGES.get(cause_of(guard), _GENERIC)
