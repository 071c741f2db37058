"""Load the input pipeline of a target, and copies of it with other settings."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import DataLoader, Dataset, IterableDataset

from ..target.input_spec import TargetError
from ..target.lookup import find, refuse_required
from ..target.target import definition_of, seed_all
from .result import LoaderFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEFAULT_PREFETCH = 2


@dataclass(frozen=True)
class Setting:
    """Settings of a loader that decide how it loads, not what it loads.

    Attributes:
        num_workers: Number of worker processes.
        prefetch_factor: Batches that each worker prepares ahead; None without workers.
        pin_memory: Whether batches are copied into page-locked memory.
    """

    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool

    def with_workers(self, number: int) -> Setting:
        """Return this setting with another number of workers."""
        prefetch = (self.prefetch_factor or _DEFAULT_PREFETCH) if number else None
        return Setting(number, prefetch, self.pin_memory)


class Pipeline:
    """Input pipeline of the user: a loader, or any iterable of batches.

    Attributes:
        kind: `map` or `iterable` by the type of the dataset, or `other` for an iterable that is no DataLoader.
        loader: The DataLoader; None for `other`.
        is_wrapped: Whether the target was a dataset, for which a DataLoader was created.
        setting: The loader's own settings; None for `other`.
        others: Number of further loaders that the target returned, which are not used.
    """

    def __init__(self, source: Any, batch_size: int, again: Callable[[], Any]) -> None:
        """Inspect what the target returned.

        Args:
            source: A DataLoader, a dataset, or an iterable of batches.
            batch_size: Batch size for a dataset.
            again: Returns a new source, for iterators, which can be used once only.

        Raises:
            TargetError: It is none of these.
        """
        self.others = 0
        if isinstance(source, (tuple, list)) and source and isinstance(source[0], DataLoader):
            # Often a function returns the loaders of training and of validation, in this order.
            self.others, source = len(source) - 1, source[0]
        self.is_wrapped = not isinstance(source, DataLoader) and _is_dataset(source)
        self._source, self._again = source, again
        self.loader: DataLoader[Any] | None = None
        self.setting: Setting | None = None
        self.kind: Literal["map", "iterable", "other"] = "other"
        if self.is_wrapped:
            source = DataLoader(source, batch_size=batch_size)
        if isinstance(source, DataLoader):
            self.loader = source
            self.kind = "iterable" if isinstance(source.dataset, IterableDataset) else "map"
            self.setting = Setting(source.num_workers, source.prefetch_factor, bool(source.pin_memory))
        elif isinstance(source, (str, bytes, dict)) or not hasattr(source, "__iter__"):
            raise TargetError(
                f"the target gives a {type(source).__name__}, which is no input pipeline",
                "name a DataLoader, a dataset, or a function without arguments that returns one",
            )

    def batches(self, setting: Setting | None) -> Iterator[Any]:
        """Return a new pass over the data.

        Args:
            setting: Settings that replace those of the loader; without effect for `other`.
        """
        if self.loader is None or setting is None:
            source = self._source
            self._source = self._again() if iter(source) is source else source
            return iter(source)
        # A shallow copy keeps the class, the sampler and the collate function of the user.
        loader = copy.copy(self.loader)
        vars(loader).update(
            num_workers=setting.num_workers,
            prefetch_factor=setting.prefetch_factor,
            pin_memory=setting.pin_memory,
            persistent_workers=False,
            _iterator=None,
        )
        return iter(loader)

    @property
    def samples(self) -> int | None:
        """The number of samples in a batch; None if unknown."""
        return None if self.loader is None else self.loader.batch_size

    @property
    def is_sharded(self) -> bool:
        """Whether the code of an iterable dataset divides the data among workers."""
        dataset: Any = None if self.loader is None else self.loader.dataset
        if self.loader is not None and self.loader.worker_init_fn is not None:
            return True
        functions = (thing for each in type(dataset).__mro__ for thing in vars(each).values())
        return any(
            "get_worker_info" in _names(function.__code__) for function in functions if inspect.isfunction(function)
        )

    def facts(self, root: str) -> LoaderFacts:
        """Return the type and the settings of the pipeline, and the location of the dataset's class."""
        loader = self.loader
        subject: Any = self._source if loader is None else loader.dataset
        file, line = definition_of(root, type(subject))
        try:
            count = None if loader is None else len(loader)
        except TypeError:
            count = None
        return LoaderFacts(
            type=type(self._source if loader is None else loader).__name__,
            dataset=type(subject).__name__,
            kind=self.kind,
            is_wrapped=self.is_wrapped,
            batch_size=self.samples,
            batches=count,
            persistent_workers=bool(loader is not None and loader.persistent_workers),
            file=file or "",
            line=line or 0,
        )


def load_pipeline(root: str, name: str, *, batch_size: int, seed: int) -> Pipeline:
    """Import a target, and return its input pipeline.

    Args:
        root: The project's folder.
        name: `FILE.py:NAME` of a DataLoader, a dataset, or a callable without arguments that returns one.
        batch_size: Batch size for a dataset.
        seed: Seed of the generators before the pipeline is built.

    Raises:
        TargetError: There is no such target, or it is not an input pipeline.
    """
    seed_all(seed)
    _, found = find(root, name)
    if isinstance(found, (DataLoader, Dataset)) or not callable(found):
        return Pipeline(found, batch_size, lambda: found)
    refuse_required(repr(name), found, "name a function without arguments that returns the loader")
    return Pipeline(found(), batch_size, found)


def _is_dataset(source: Any) -> bool:
    has_items = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    return isinstance(source, Dataset) or (has_items and not isinstance(source, (str, bytes, dict)))


def _names(code: Any) -> set[str]:
    """Return the names that a function and the functions inside it use."""
    inner = [constant for constant in code.co_consts if hasattr(constant, "co_names")]
    return {*code.co_names, *code.co_freevars, *(name for each in inner for name in _names(each))}
