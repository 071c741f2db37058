"""What counts as having run out of memory, and how much was asked for, in the words of torch and of CUDA."""

from __future__ import annotations

import pytest

from esper_agents.torchlab.worker.process.out_of_memory import ran_out, wanted_bytes

CPU = (
    "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."
)
CUDA = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1 GiB is free."


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(CPU),
        RuntimeError(CUDA),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
)
def test_an_allocator_a_driver_or_a_library_without_memory_is_out_of_memory(error):
    assert ran_out(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        RuntimeError("out of resource: shared memory, Required: 262144, Hardware limit: 232448"),
    ],
)
def test_other_errors_are_not(error):
    assert not ran_out(error)


@pytest.mark.parametrize(
    ("message", "size"),
    [(CPU, 4096), (CUDA, 5 << 29), ("Tried to allocate 512 bytes.", 512), ("CUDA error: out of memory", None)],
)
def test_what_was_asked_for_is_read_from_the_message(message, size):
    assert wanted_bytes(message) == size
