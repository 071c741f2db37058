"""Reservation of devices at Ray for single measurements, on the node of the process that measures."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import local
from typing import TYPE_CHECKING, Any

from esper_agents.errors import EvidenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LOOK_S = 0.1


class DeviceHolder:
    """Ray actor that has the resources of a measurement for as long as it lives."""

    def visible(self) -> str:
        """Return the GPUs that Ray gave it, as CUDA_VISIBLE_DEVICES."""
        import ray

        return ",".join(str(number) for number in ray.get_gpu_ids())


class RayDevices:
    """Devices of one node, which measurements of its processes ask Ray for."""

    def __init__(self, gpus: int, resources: Mapping[str, float]) -> None:
        """Reserve nothing yet.

        Args:
            gpus: GPUs of one measurement.
            resources: Amounts of Ray's custom resources for it.
        """
        self._gpus, self._resources = gpus, dict(resources)
        self._held = local()

    @contextmanager
    def reserve(self, wait: Callable[[], None]) -> Iterator[str | None]:
        """Yield once Ray has reserved the devices: the GPUs that processes may see, as CUDA_VISIBLE_DEVICES.

        A second device of one measurement is among those of the first. If this node never has them, no GPU is visible,
        and the measurement says so.

        Args:
            wait: Waits for a moment, or raises an error if the measurement waits no longer.

        Raises:
            EvidenceError: Ray lost the reservation.
        """
        if getattr(self._held, "is_reserved", False):
            yield self._held.visible
            return
        with self._reserved(wait) as visible:
            self._held.is_reserved, self._held.visible = True, visible
            try:
                yield visible
            finally:
                self._held.is_reserved = False

    @contextmanager
    def _reserved(self, wait: Callable[[], None]) -> Iterator[str | None]:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = ray.get_runtime_context().get_node_id()
        if not self._is_here(node):
            yield ""
            return
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        holder: Any = ray.remote(DeviceHolder).options(
            num_cpus=0, num_gpus=self._gpus, resources=self._resources, max_restarts=0, scheduling_strategy=where
        )
        holder = holder.remote()
        try:
            asked = holder.visible.remote()
            while not ray.wait([asked], timeout=_LOOK_S)[0]:
                wait()
            visible = str(ray.get(asked))
            yield visible if self._gpus else None
        except RayError as error:
            problem = f"Ray gave no device for the measurement: {type(error).__name__}"
            raise EvidenceError(problem, remedy="ray status") from error
        finally:
            with suppress(RayError):
                ray.kill(holder)

    def _is_here(self, node_id: str) -> bool:
        import ray

        wanted = {"GPU": float(self._gpus), **self._resources}
        nodes = ray.nodes()  # type: ignore[no-untyped-call] # as Ray has it
        (resources,) = [node["Resources"] for node in nodes if node["NodeID"] == node_id]
        return all(resources.get(name, 0.0) >= amount for name, amount in wanted.items())
