"""Result of the job `profile`: measurements of a target without conclusions."""

from __future__ import annotations

from dataclasses import dataclass

from ..results import MissingPart, WrittenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRound:
    """Round of calls without a profiler; all counters are totals.

    Attributes:
        calls: Number of calls.
        wall_ns: Wall time.
        thread_ns: Processor time of the calling thread.
        process_ns: Processor time of the process.
        minor_faults: Pages touched for the first time.
        major_faults: Pages read from a file.
        voluntary_switches: Number of waits.
        queued_ns: Time for which the thread was runnable but not running; None if the kernel does not report it.
        read_calls: Calls of the kernel that read; None if the kernel does not report them.
    """

    calls: int
    wall_ns: int
    thread_ns: int
    process_ns: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    queued_ns: int | None = None
    read_calls: int | None = None


@dataclass(frozen=True, slots=True)
class BandwidthSamples:
    """Bandwidths measured with a number of touched bytes."""

    touched_bytes: int
    bytes_per_s: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProductSamples:
    """Rates of matrix products of a dtype."""

    dtype: str
    flops_per_s: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CeilingSamples:
    """Samples of the machine's ceilings.

    Attributes:
        stream: Bandwidths by the bytes that they touch.
        matrix: Rates of matrix products by dtype.
        dispatch_ns: Times of an addition of tensors without elements.
        fresh_page_ns: Times to write to a memory page for the first time.
        known_page_ns: Times to write to it again.
    """

    stream: tuple[BandwidthSamples, ...]
    matrix: tuple[ProductSamples, ...]
    dispatch_ns: tuple[int, ...]
    fresh_page_ns: tuple[int, ...]
    known_page_ns: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class ProfiledCall:
    """Composition of one profiled call.

    Attributes:
        wall_ns: Wall time.
        thread_ns: Processor time of its thread.
        operation_ns: Time in outermost operations.
        input_ns: Time that loads its input.
        backward_ns: Time of backward.
        optimizer_ns: Time of the optimizer.
        waiting_ns: Time that waits for a device.
        events: Number of events.
    """

    wall_ns: int
    thread_ns: int
    operation_ns: int
    input_ns: int
    backward_ns: int
    optimizer_ns: int
    waiting_ns: int
    events: int


@dataclass(frozen=True, slots=True)
class ProfiledCallSet:
    """Profiled calls without attribution.

    Attributes:
        calls: The calls.
        is_compiled: Whether any of it was compiled.
        empty_ns: Profiled time of an operation without elements.
    """

    calls: tuple[ProfiledCall, ...]
    is_compiled: bool
    empty_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """Operation of one line and module, for one call.

    Attributes:
        name: Name of the operation.
        phase: `input`, `forward`, `backward` or `optimizer`.
        file: File of the line; None if unknown.
        line: The line.
        function: Its function.
        module: Module that ran it; empty outside modules.
        shapes: Shapes of its operands.
        dtype: Dtype of its operands.
        count: Number of runs; a fraction if calls differ.
        events: Number of inner events.
        faults: Pages touched for the first time.
        self_ns: Time, with the profiler's cost.
        flops: Floating-point operations, if counted.
        moved_bytes: Bytes read and written, if counted.
        device_ns: Time on the device; None on the CPU.
    """

    name: str
    phase: str
    file: str | None
    line: int | None
    function: str | None
    module: str
    shapes: str
    dtype: str
    count: int | float
    events: int
    faults: int
    self_ns: int
    flops: int | None = None
    moved_bytes: int | None = None
    device_ns: int | None = None


@dataclass(frozen=True, slots=True)
class UnlistedOperations:
    """Totals of the operations beyond those listed."""

    count: int
    events: int
    self_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRows:
    """Operations of one call.

    Attributes:
        operations: Operations by line and module, costliest first.
        rest: Totals of all others; None without attribution.
        views: Number of pure views; None without attribution.
        matched_calls: Number of profiled calls with exactly the same operations; 0 means that the times are those of
            the attributed call.
    """

    operations: tuple[OperationRow, ...]
    rest: UnlistedOperations | None = None
    views: int | None = None
    matched_calls: int = 0


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """Function of the user, by cProfile, for one call.

    Attributes:
        file: Its file.
        line: Its first line.
        name: Its qualified name.
        calls: Number of runs; a fraction if calls differ.
        loads: Whether it loads data: a generator, `__getitem__`, `__next__` and the like.
        own_ns: Time in itself.
        total_ns: Time with everything that it calls.
    """

    file: str
    line: int
    name: str
    calls: int | float
    loads: bool
    own_ns: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class PythonWait:
    """Time in functions that give up the processor: `input` or `synchronisation`."""

    kind: str
    ns: int


@dataclass(frozen=True, slots=True)
class PythonProfile:
    """Result of cProfile, for one call.

    Attributes:
        calls: Number of calls that were profiled.
        total_ns: Time of a call.
        python_calls: Number of functions called, of any kind.
        input_ns: Time of the longest loading function.
        waits: Waiting by kind.
        functions: Functions of the user, longest first.
    """

    calls: int
    total_ns: int
    python_calls: int
    input_ns: int
    waits: tuple[PythonWait, ...]
    functions: tuple[PythonFunction, ...]


@dataclass(slots=True)
class StackFunction:
    """Function of the user, by torch's stacks, for one call.

    Attributes:
        file: Its file.
        line: Its first line.
        name: Its qualified name.
        own_ns: Time down to the next function of the user.
        total_ns: Time with everything that it calls.
    """

    file: str
    line: int
    name: str
    own_ns: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class StackProfile:
    """Result of torch's profiler with Python stacks, for one call.

    Attributes:
        calls: Number of calls that were profiled.
        total_ns: Time of a call.
        functions: Functions of the user, longest first.
    """

    calls: int
    total_ns: int
    functions: tuple[StackFunction, ...]


@dataclass(frozen=True, slots=True)
class HostWait:
    """Line at which the host would wait for an accelerator, with the operation and its number in a call."""

    file: str
    line: int
    what: str
    count: int


@dataclass(frozen=True, slots=True)
class ProfiledMemory:
    """Allocations of a profiled call, on the device with the most.

    Attributes:
        device: The device.
        peak_bytes: Largest size at once.
        peak_operation: Operation that reached it.
        allocated_bytes: Total of all allocations.
        allocations: Their number.
        kept_bytes: Size at the end of the call.
    """

    device: str
    peak_bytes: int
    peak_operation: str
    allocated_bytes: int
    allocations: int
    kept_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledTarget:
    """Measurements of a target.

    Attributes:
        kind: Kind of the target.
        train: Whether the backward pass is included.
        device: Device of the target.
        threads: Number of threads of torch.
        is_training_mode: Whether the module is in training mode; None for a function.
        mutates_inputs: Whether a call changes its inputs.
        first_call_ns: Time of the first call.
        call_ns: Time of a call after it.
        inputs_ns: Times to make the inputs.
        rounds: Clocks and counters without a profiler.
        ceilings: Samples of the machine's best rates.
        profiled: Profiled calls.
        operations: Operations by line and module.
        python: Result of cProfile.
        stacks: Time by torch's stacks; None if there are too many calls.
        waits: Lines at which the host would wait for an accelerator.
        memory: Allocations; None without any.
        missing: Parts that were not measured.
        rest: Operations beyond those listed.
        views: Number of views.
        matched_calls: Number of profiled calls whose operations have lines.
        artifacts: Files that the job left.
    """

    kind: str
    train: bool
    device: str
    threads: int
    is_training_mode: bool | None
    mutates_inputs: bool
    first_call_ns: int
    call_ns: int
    inputs_ns: tuple[int, ...]
    rounds: tuple[TimingRound, ...]
    ceilings: CeilingSamples
    profiled: ProfiledCallSet
    operations: tuple[OperationRow, ...]
    python: PythonProfile
    stacks: StackProfile | None
    waits: tuple[HostWait, ...]
    memory: ProfiledMemory | None
    missing: tuple[MissingPart, ...]
    rest: UnlistedOperations | None = None
    views: int | None = None
    matched_calls: int | None = None
    artifacts: tuple[WrittenFile, ...] = ()
