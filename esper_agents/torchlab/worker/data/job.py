"""Job: time an input pipeline against a step, with other settings of the loader, and by line."""

from __future__ import annotations

import ctypes
import hashlib
import os
import warnings
from contextlib import suppress
from itertools import islice
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from ..process.devices import bound, wait
from ..results import MissingPart
from ..target.input_spec import TargetError
from ..target.lookup import find
from ..target.target import as_callable, definition_of, put_on_path, seed_all
from .line_costs import LineClock, line_rows
from .pipeline import Setting, load_pipeline
from .result import DatasetLines, DataTimes, LoaderRound, LoaderVariant, StepPlace
from .timed_pass import END, TimedPass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORKERS = (0, 1, 2, 4)
_PREFETCH = 4
_ROUNDS = 3
_MOST_BATCHES = 2_000
_MOST_LINES = 20
_MOST_TEXT = 500
_MOST_TRACED_NS = 10_000_000_000
# Shares of the time for the numbers of workers, for other settings, and for the lines.
_FIRST, _SECOND, _THIRD = 0.6, 0.3, 0.1


def run(_target: object, request: dict[str, Any], tell: Callable[[str, float], None]) -> DataTimes:
    """Measure an input pipeline.

    Args:
        _target: Not used: a pipeline is no callable target.
        request: `root`; `name`, the pipeline; `step`, a callable that takes a batch, or empty; `batch_size` for
            datasets; `seconds` for all timings; `device` of the step; `memory_bytes`, `seed`.
        tell: Progress callback.

    Raises:
        TargetError: The pipeline or the step cannot be used.
        Exception: Any exception of the pipeline in this process, or of the step.
    """
    return _Measurement(request, tell).result()


class _Measurement:
    def __init__(self, request: dict[str, Any], tell: Callable[[str, float], None]) -> None:
        self.root, self.device = str(request["root"]), str(request["device"])
        self.seconds, self.seed = float(request["seconds"]), int(request["seed"])
        self.cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.missing: list[MissingPart] = []
        self._tell = tell
        bound(self.device, int(request["memory_bytes"]))
        put_on_path(self.root)
        # The step first: workers that do not fork import the module that was imported last.
        self.step = self._load_step(str(request["step"]))
        batch_size = int(request["batch_size"])
        self.pipeline = load_pipeline(self.root, str(request["name"]), batch_size=batch_size, seed=self.seed)
        if self.pipeline.others:
            self._miss("other loaders", f"the target returns {self.pipeline.others + 1}, and the first is measured")
        self.variants: list[LoaderVariant] = []

    def _load_step(self, name: str) -> Callable[[Any], Any]:
        self.step_place: StepPlace | None = None
        if not name:
            return lambda _batch: None
        seed_all(self.seed)
        _, found = find(self.root, name)
        kind, step = as_callable(name, found, has_inputs=True)
        if kind == "module":
            step.to(self.device)  # type: ignore[attr-defined] # a module has it
        file, line = definition_of(self.root, found)
        self.step_place = StepPlace(name, file or "", line or 0)
        return step

    def result(self) -> DataTimes:
        self._tell("loading the first batch", 0.0)
        probe_ns = self._probe()
        self._choose_workers()
        self._choose_more()
        lines = self._lines(probe_ns)
        return DataTimes(
            self.device,
            self.cores,
            self.pipeline.facts(self.root),
            self.step_place,
            tuple(self.variants),
            lines,
            tuple(self.missing),
        )

    def _probe(self) -> int:
        """Return the time of the second batch without workers, or of the only one.

        An exception of the dataset is raised here with the user's frames, which workers would hide.
        """
        setting = self.pipeline.setting
        batches = self.pipeline.batches(setting and setting.with_workers(0))
        took_ns = 0
        for _ in range(2):
            begun = perf_counter_ns()
            batch = next(batches, END)
            if batch is END:
                break
            took_ns = perf_counter_ns() - begun
            self.step(batch)
        wait(self.device)
        if not took_ns:
            raise TargetError("the input pipeline has no batch", "name one that has data")
        return took_ns

    def _choose_workers(self) -> None:
        own = self.pipeline.setting
        self._add(own, is_own=True)
        if own is None:
            self._miss("other settings", "the pipeline is not a DataLoader")
        else:
            for number in _WORKERS:
                if number > max(self.cores, own.num_workers):
                    self._miss(f"num_workers={number}", f"more workers than the {self.cores} usable cores")
                elif number != own.num_workers:
                    self._add(own.with_workers(number))
        self._rounds(self.variants, _FIRST, "numbers of workers", 0.05)

    def _choose_more(self) -> None:
        """Measure other settings for the fastest number of workers, in turns with it and the loader's own."""
        if self.pipeline.setting is None:
            return
        with_workers = [
            variant for variant in self.variants if variant.num_workers and variant.rounds and not variant.error
        ]
        best = min(with_workers, key=lambda each: each.typical_ns, default=None)
        again = [self.variants[0]]
        if self.device == "cpu":
            self._miss("pin_memory", "page-locked memory speeds up copies to a GPU only, and the device is the CPU")
        elif best is None:
            again.append(self._add(Setting(0, None, not self.variants[0].pin_memory)))
        if best is not None:
            number, prefetch, is_pinned = (best.num_workers, best.prefetch_factor, best.pin_memory)
            again += [best] if best is not self.variants[0] else []
            again.append(self._add(Setting(number, _PREFETCH if prefetch != _PREFETCH else 2, is_pinned)))
            if self.device != "cpu":
                again.append(self._add(Setting(number, prefetch, not is_pinned)))
        if len(again) > 1:
            self._rounds(again, _SECOND, "other settings", 0.65)

    def _add(self, setting: Setting | None, *, is_own: bool = False) -> LoaderVariant:
        made = LoaderVariant(
            num_workers=setting.num_workers if setting else 0,
            prefetch_factor=setting.prefetch_factor if setting else None,
            pin_memory=bool(setting and setting.pin_memory),
            is_own=is_own,
            repeats_data=None,
            error="",
            rounds=(),
        )
        self.variants.append(made)
        return made

    def _rounds(self, variants: list[LoaderVariant], share: float, what: str, fraction: float) -> None:
        """Measure variants in turns, so that a change of the machine's speed affects all of them."""
        most_s = share * self.seconds / (len(variants) * _ROUNDS)
        until = monotonic() + share * self.seconds * 2
        runs = [each for _ in range(_ROUNDS) for each in variants]
        for number, variant in enumerate(runs):
            if variant.error:
                continue
            if monotonic() > until and not (variant.is_own and not variant.rounds):
                self._miss("some rounds", f"no time was left for {len(runs) - number} of {len(runs)} ({what})")
                return
            self._tell(f"timing {what}", fraction + share * number / len(runs))
            self._one_round(variant, most_s)

    def _one_round(self, variant: LoaderVariant, most_s: float) -> None:
        own = self.pipeline.setting
        setting = own and Setting(variant.num_workers, variant.prefetch_factor, variant.pin_memory)
        seed_all(self.seed + len(variant.rounds))
        if setting is not None and self.pipeline.kind == "iterable" and setting.num_workers > 1:
            variant.repeats_data = variant.repeats_data or self._repeats_data(setting)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                variant.rounds = (*variant.rounds, self._timed(setting, most_s))
        except Exception as error:
            if variant.is_own:
                raise
            # Of an exception in a worker, the message is its traceback, whose last line is the exception.
            last = str(error).strip().rpartition("\n")[2].strip()
            is_from_worker = str(error).startswith("Caught ")
            variant.error = (last if is_from_worker else f"{type(error).__name__}: {last}")[:_MOST_TEXT]

    def _timed(self, setting: Setting | None, most_s: float) -> LoaderRound:
        ahead = setting.num_workers * (setting.prefetch_factor or 0) if setting else 0
        count = self.pipeline.facts(self.root).batches
        skipped = max(1, ahead if count is None else min(ahead, count // 2))
        timed = TimedPass(self.step, self.device, self.step_place is not None, skipped, int(most_s * 1e9))
        return timed.run(lambda: self.pipeline.batches(setting))

    def _repeats_data(self, setting: Setting) -> bool | None:
        """Return whether each worker loads all of the data; None if random data hides it."""
        with suppress(Exception):
            alone, again = (self._first_two(setting.with_workers(0), seed) for seed in (0, 1))
            first, second = self._first_two(setting, 0)
            if first == second and alone[0] != alone[1]:
                return True
            # Data that do not depend on the seed differ between workers only if the workers divide them.
            if alone == again and alone[0] != alone[1]:
                return False
        return False if self.pipeline.is_sharded else None

    def _first_two(self, setting: Setting, seed: int) -> list[str]:
        seed_all(self.seed + seed)
        return [_digest(each) for each in islice(self.pipeline.batches(setting), 2)]

    def _lines(self, probe_ns: int) -> DatasetLines | None:
        if probe_ns > _MOST_TRACED_NS:
            self._miss("lines", f"a batch takes {probe_ns / 1e9:.0f} s, which is too long to trace")
            return None
        self._tell("timing lines", 0.95)
        setting = self.pipeline.setting
        alone = setting and setting.with_workers(0)
        seed_all(self.seed)
        plain_ns, count = self._loaded(self.pipeline.batches(alone), _THIRD * self.seconds / 2, _MOST_BATCHES)
        clock = LineClock(self.root)
        seed_all(self.seed)
        batches = self.pipeline.batches(alone)
        with clock.running():
            traced_ns, count = self._loaded(batches, _THIRD * self.seconds, count)
        rows = line_rows(self.root, clock, count, _MOST_LINES)
        if not rows:
            self._miss("lines", "no line of the project runs while a batch is loaded")
            return None
        samples = None if self.pipeline.samples is None else count * self.pipeline.samples
        return DatasetLines(count, samples, plain_ns, traced_ns, rows)

    def _loaded(self, batches: Iterator[Any], seconds: float, most: int) -> tuple[int, int]:
        """Load batches for a while; return the mean time of one, and their number."""
        begun, count = perf_counter_ns(), 0
        while count < most and next(batches, END) is not END:
            count += 1
            if perf_counter_ns() - begun > seconds * 1e9:
                break
        return (perf_counter_ns() - begun) // max(count, 1), max(count, 1)

    def _miss(self, what: str, why: str) -> None:
        self.missing.append(MissingPart(what, why))


def _digest(batch: Any) -> str:
    """Return a digest of the tensors, numbers and texts of a batch."""
    made = hashlib.sha256()
    for leaf in tree_leaves(batch):
        if isinstance(leaf, torch.Tensor):
            held = leaf.detach().cpu().contiguous()
            made.update(ctypes.string_at(held.data_ptr(), held.numel() * held.element_size()))
        else:
            made.update(repr(leaf).encode())
    return made.hexdigest()
