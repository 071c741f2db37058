"""Statistics of CUDA's caching allocator for a run: peaks, reserved memory, snapshot."""

from __future__ import annotations

from pathlib import Path

import torch

from ..results import WrittenFile

_MOST_ENTRIES = 100_000
_SNAPSHOT = "memory_snapshot.pickle"
_STATISTICS = {
    "allocated_peak_bytes": "allocated_bytes.all.peak",
    "reserved_peak_bytes": "reserved_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.current",
    "allocated_bytes": "allocated_bytes.all.current",
    "split_unused_peak_bytes": "inactive_split_bytes.all.peak",
    "retries": "num_alloc_retries",
    "failures": "num_ooms",
}


class Allocator:
    """Recorder of a GPU allocator's activity while entered.

    Attributes:
        artifacts: The snapshot, for https://pytorch.org/memory_viz.
    """

    def __init__(self, device: str, scratch: str) -> None:
        """Prepare the recorder.

        Args:
            device: Device, such as `cuda:0`.
            scratch: Folder for the snapshot.
        """
        self._device = torch.device(device)
        self._path = str(Path(scratch) / _SNAPSHOT)
        self.artifacts: list[WrittenFile] = []

    def __enter__(self) -> Allocator:  # noqa: PYI034 - Python 3.10 has no Self
        """Start recording."""
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        torch.cuda.memory._record_memory_history(max_entries=_MOST_ENTRIES)  # noqa: SLF001 - the documented way
        return self

    def __exit__(self, *_: object) -> None:
        """Write the snapshot and stop recording."""
        torch.cuda.memory._dump_snapshot(self._path)  # noqa: SLF001 - same reason
        torch.cuda.memory._record_memory_history(enabled=None)  # noqa: SLF001 - same reason
        self.artifacts.append(WrittenFile(_SNAPSHOT, "application/octet-stream"))

    def statistics(self) -> dict[str, int]:
        """Return the allocator's statistics since it was entered."""
        known = torch.cuda.memory_stats(self._device)
        free, total = torch.cuda.mem_get_info(self._device)
        return {name: known[key] for name, key in _STATISTICS.items() if key in known} | {
            "device_free_bytes": free,
            "device_total_bytes": total,
        }
