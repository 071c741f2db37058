"""Descriptions of side effects of a candidate; each function returns nothing without a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .plan_step import ObservedEnd, ObservedProcess

_Json = dict[str, Any]
# In a pause of 4 ms: processor time that other threads may use.
_IDLE_NS = 1_000_000
# In consecutive calls: processor time that other threads may use.
_OTHERS_NS = 200_000
_OTHERS_SHARE = 0.1
_MOST_TEXTS = 3


def of_process(one: ObservedProcess, other: ObservedProcess, *, is_one_file: bool) -> Iterator[tuple[str, str]]:
    """Yield checks of the process state, with the differences.

    Args:
        one: Observations of the baseline.
        other: Observations of the candidate.
        is_one_file: Whether both are in one file, so that both have its import side effects.
    """
    starts = other.end.has_children and not one.end.has_children
    yield "processes", "it starts processes" if starts else ""
    yield "threads", "" if pool_of(one, other) else _threads_text(one.end, other.end)
    yield "global-state", state_text(one.after, other.after)
    # Replacements by libraries occur in both arms; those in a file of both arms are the user's.
    suspects = set(other.replaced_by_user) if is_one_file else set()
    known, found = one.replaced, other.replaced
    names = sorted(name for name in found if name in suspects or found[name] != known.get(name))
    yield "patched", "; ".join(f"{name} is now {found[name]}" for name in names[:_MOST_TEXTS])


def _threads_text(one: ObservedEnd, other: ObservedEnd) -> str:
    others_ns, own = other.others_ns, other.others_ns / max(other.own_ns, 1)
    baseline = one.others_ns / max(one.own_ns, 1)
    if others_ns < _OTHERS_NS or own < max(_OTHERS_SHARE, 2 * baseline):
        return ""
    return f"threads of its own compute for {others_ns / 1e6:.3g} ms in calls of {other.own_ns / 1e6:.3g} ms"


def pool_of(one: ObservedProcess, other: ObservedProcess) -> int:
    """Return the number of torch's own threads that the user allowed; they spin for a while after each operation."""
    return int(other.after.get("num_threads", 1)) - 1 if one.after == other.after else 0


def idle_text(idle_ns: int, own_ns: int) -> str:
    """Return a description if threads of the candidate keep working while it is idle.

    Args:
        idle_ns: Processor time of other threads in a pause of 4 ms.
        own_ns: The same of the baseline.
    """
    if idle_ns <= max(_IDLE_NS, 2 * own_ns):
        return ""
    return f"after it returned, other threads of it work: {idle_ns / 1e6:.2g} of 4 ms"


def generators_text(one: dict[str, str], other: dict[str, str]) -> str:
    """Return the random generators whose state differs from that after the baseline."""
    names = [name for name in one if one[name] != other.get(name)]
    return f"it leaves the random generator of {', '.join(names)} in another state" if names else ""


def relations_text(one: list[Any], other: list[Any], steps: Sequence[str]) -> str:
    """Return the differences in memory that outputs share with other tensors.

    Args:
        one: Baseline's relations: leaf of the output, kind of tensor, its index.
        other: Relations of the candidate.
        steps: Names of the steps, for outputs of earlier ones.
    """
    ours, theirs = ({tuple(relation) for relation in relations} for relations in (one, other))
    texts = []
    for leaf, what, which in sorted(theirs - ours, key=str):
        where = f"what it returned for {steps[which]}" if what == "earlier output" else f"{what} {which}"
        texts.append(f"tensor {leaf} of what it returns shares memory with {where}")
    texts += [
        f"tensor {leaf} of what it returns no longer shares memory with {what} {which}"
        for leaf, what, which in sorted(ours - theirs, key=str)
        if what != "earlier output"
    ]
    return "; ".join(texts[:_MOST_TEXTS])


def state_text(one: _Json, other: _Json) -> str:
    """Return the global settings that differ from those after the baseline."""
    ours, theirs = _flat(one), _flat(other)
    names = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    texts = [f"{name} is {theirs.get(name)!r:.60}, and {ours.get(name)!r:.60} after the baseline" for name in names]
    return "; ".join(texts[:_MOST_TEXTS])


def _flat(state: Any, path: str = "") -> dict[str, Any]:
    """Return a nested JSON value as one level, with paths as names."""
    if not isinstance(state, dict) or not state:
        return {path: state}
    parts = (_flat(part, f"{path}.{key}".lstrip(".")) for key, part in state.items())
    return {name: each for part in parts for name, each in part.items()}
