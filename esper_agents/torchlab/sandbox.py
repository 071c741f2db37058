"""Select the sandbox for user code on this machine and the files that the code may see."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.interpreter import PythonInterpreter, interpreter
from esper_agents.torchlab.worker.process import landlock, seccomp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from esper_agents.domain.codec import JsonObject

__all__ = [
    "PythonInterpreter",
    "Sandbox",
    "SandboxChoice",
    "SandboxMounts",
    "available_sandboxes",
    "bound_paths",
    "choose",
    "command",
    "environment",
    "grants",
    "interpreter",
]

_TRIAL_S = 60
# Creates PID and mount namespaces, and leaves the first again, as the fork server does for each process.
_WALLS = """
import ctypes, os
libc = ctypes.CDLL(None)
home = os.open("/proc/self/ns/pid", os.O_RDONLY)
print("held" if libc.unshare(0x20020000) == 0 and libc.setns(home, 0x20000000) == 0 else "")
"""
_NETWORK_SETTINGS = ("/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates", "/etc/pki")
_DEVICES = ("nvidia*", "dri", "kfd", "dxg")
_PASSED_ON = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|CC|CXX|CUDA_HOME|CUDA_PATH|CONDA_PREFIX|LD_LIBRARY_PATH|LD_PRELOAD|GLIBC_TUNABLES|"
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|ATEN|DNNL|ONEDNN|MALLOC|CUDA|CUBLAS|CUDNN|NVIDIA|HIP|ROCR|NCCL|GLOO|"
    r"TORCH|TORCHDYNAMO|TORCHINDUCTOR|PYTORCH|TRITON)_\w+"
)
# Secret files under fixed names, and folders that do not exist inside.
_KEPT_BACK = re.compile(
    r".*(TOKEN|SECRET|PASSWORD|CREDENTIAL|_KEY|APIKEY)|TORCH_HOME|TORCH_TRACE|TORCH_LOGS_OUT|.*_CACHE_(DIR|PATH)|"
    r"TORCH_COMPILE_DEBUG_DIR|CUDA_MPS_\w+",
    re.IGNORECASE,
)


class Sandbox(StrEnum):
    """Sandbox of user code."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SandboxMounts:
    """Files that user code may see, and the one folder that it may write.

    Attributes:
        interpreter: Its interpreter.
        roots: Folders of the project, read-only.
        worker_folder: Our own code that runs there, read-only.
        scratch: The writable folder.
        hidden: Files and folders hidden even inside the others, such as signing keys.
        withheld: Hidden files of the project: secrets, and ignored files.
        has_network: Whether the user allowed the machine's network.
    """

    interpreter: PythonInterpreter
    roots: tuple[Path, ...]
    worker_folder: Path
    scratch: Path
    hidden: tuple[Path, ...] = ()
    withheld: tuple[Path, ...] = ()
    has_network: bool = False


@dataclass(frozen=True, slots=True)
class SandboxChoice:
    """Selected sandbox, and the reasons that stronger ones do not work.

    Attributes:
        sandbox: Sandbox that was tested and works here.
        landlock: Landlock version of the kernel; 0 for none. It confines each process, also inside bubblewrap.
        can_wall: Whether each process can have its own namespaces inside bubblewrap.
        why_not: Stronger sandboxes that do not work here, with the reasons.
    """

    sandbox: Sandbox
    landlock: int = 0
    can_wall: bool = False
    why_not: tuple[str, ...] = ()

    @property
    def has_own_network(self) -> bool:
        """Whether there is an isolated, empty network namespace."""
        return self.sandbox is Sandbox.BUBBLEWRAP

    def described(self) -> JsonObject:
        """Return the choice as stored in reports."""
        return {
            "sandbox": self.sandbox.value,
            "landlock": self.landlock,
            "walls": self.can_wall,
            "why_not": list(self.why_not),
        }

    @classmethod
    def from_described(cls, described: JsonObject) -> SandboxChoice:
        """Return the choice that `described` returned."""
        return cls(
            Sandbox(described["sandbox"]),
            int(described["landlock"]),
            bool(described["walls"]),
            tuple(map(str, described["why_not"])),
        )


def available_sandboxes() -> str:
    """Return the names of the sandboxes that are installed, strongest first; `choose` tests whether they work."""
    if sys.platform != "linux":
        return "none; bubblewrap and Landlock need Linux, so only --no-sandbox runs code"
    abi = landlock.version()
    found = [Sandbox.BUBBLEWRAP.value] if bubblewrap.find() else []
    if abi and seccomp.is_supported():
        found.append(f"{Sandbox.LANDLOCK.value} (version {abi})")
    return ", ".join(found) or "none; install bubblewrap"


def choose(view: SandboxMounts, *, is_waived: bool) -> SandboxChoice:
    """Select the strongest working sandbox on this machine.

    Args:
        view: Visible files; bubblewrap is tested with exactly these.
        is_waived: Whether the user passed `--no-sandbox`. Code under review must not be able to set this.

    Raises:
        EvidenceError: No sandbox works here, and the user did not waive it.
        UsageError: A visible path does not exist, or cannot be shown without a hidden one.
    """
    _refuse_what_cannot_be_shown(view)
    if is_waived:
        return SandboxChoice(Sandbox.NONE, why_not=("a person said --no-sandbox",))
    abi = landlock.version()
    problem = ""
    for can_wall in (True, False):
        problem = _try_bubblewrap(view, can_wall=can_wall)
        if not problem:
            return SandboxChoice(Sandbox.BUBBLEWRAP, abi, can_wall)
    if view.interpreter.is_projects:
        raise EvidenceError(
            f"no sandbox works here for {view.interpreter.executable} (bubblewrap: {problem})",
            remedy="install bubblewrap, or activate the environment if you trust it",
        )
    if abi and seccomp.is_supported():
        return SandboxChoice(Sandbox.LANDLOCK, abi, why_not=(f"bubblewrap: {problem}",))
    lacking = "this kernel has no Landlock" if not abi else "this machine has no system call filter"
    raise EvidenceError(
        f"no sandbox works here (bubblewrap: {problem}; {lacking})",
        remedy="install bubblewrap, or use --no-sandbox if you trust the code",
    )


def _refuse_what_cannot_be_shown(view: SandboxMounts) -> None:
    for root in view.roots:
        if not (root.is_dir() if root == view.roots[0] else root.exists()):
            raise UsageError(f"there is no folder {str(root)!r}", remedy="name the folder that the code is in")
        if root == Path(root.anchor):
            raise UsageError("the project is the root of the file system", remedy="move it into a folder of its own")
        if root in view.hidden:
            raise UsageError(
                f"the project {str(root)!r} contains the keys of esper-agents", remedy="set ESPER_HOME elsewhere"
            )


def _try_bubblewrap(view: SandboxMounts, *, can_wall: bool) -> str:
    """Return the reason bubblewrap does not work here; empty if it works."""
    program = bubblewrap.find()
    if program is None:
        return "it is not installed"
    argv = ["-I", "-S", "-c", _WALLS if can_wall else "print('held')"]
    trial = bubblewrap.command(program, _arrangement(view, can_wall=can_wall), argv)
    try:
        done = subprocess.run(
            trial,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TRIAL_S,
            check=False,
            env=environment(view.scratch),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not run: {error}"
    if done.returncode == 0 and done.stdout.strip() == b"held":
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1][:300] if said else f"it exited with {done.returncode}"


def command(choice: SandboxChoice, view: SandboxMounts, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs the interpreter with these arguments.

    Run it with `env=environment(view.scratch)` and `pass_fds`: open descriptors stay open. Start it from a thread that
    outlives it: bubblewrap ends with the thread that started it.

    Args:
        choice: The sandbox.
        view: Visible files.
        argv: The interpreter's arguments.
    """
    match choice.sandbox:
        case Sandbox.BUBBLEWRAP:
            return bubblewrap.command(bubblewrap.find() or "bwrap", _arrangement(view, can_wall=choice.can_wall), argv)
        case Sandbox.LANDLOCK | Sandbox.NONE:
            return [view.interpreter.executable, *argv]


def bound_paths(view: SandboxMounts) -> list[str]:
    """Return the words that bind and cover paths in the command line of bubblewrap."""
    return bubblewrap.command("", _arrangement(view, can_wall=True), [])


def grants(view: SandboxMounts) -> JsonObject:
    """Return the Landlock grants of each process: arguments of `confine.confine`, except for its scratch folder."""
    # Names, not paths: there may be thousands.
    covered = {str(each) for each in (*_hidden(view), *view.withheld, view.scratch)}
    around: set[str] = set()
    for place in covered:
        above = os.path.dirname(place)  # noqa: PTH120 - the argument's name
        while above not in around:
            around.add(above)
            above = os.path.dirname(above)  # noqa: PTH120 - same reason
    readable: dict[str, None] = {}
    listable: dict[str, None] = {}
    for place in map(str, (*view.roots, *view.interpreter.places, view.worker_folder, *_resolving(view))):
        _grant(place, covered, around, readable, listable)
    if gadgets := devices():
        # GPU drivers search for their devices there.
        readable["/sys"] = None
    return {"readable": list(readable), "listable": list(listable), "devices": gadgets}


def _grant(
    place: str, covered: Collection[str], around: Collection[str], readable: dict[str, None], listable: dict[str, None]
) -> None:
    """Grant a folder without the covered paths in it: Landlock cannot exclude paths."""
    if place in covered:
        return
    if place not in around:
        readable[place] = None
        return
    listable[place] = None
    # A link grants nothing; its target must be granted.
    with os.scandir(place) as entries:
        inner = sorted(each.path for each in entries if not each.is_symlink())
    for entry in inner:
        _grant(entry, covered, around, readable, listable)


def devices() -> list[str]:
    """Return the device files of the available graphics processors."""
    return sorted(str(path) for pattern in _DEVICES for path in Path("/dev").glob(pattern))


def environment(scratch: Path) -> dict[str, str]:
    """Return the environment of user code: library settings, no secrets, and a home in the scratch folder."""
    kept = {
        name: text for name, text in os.environ.items() if _PASSED_ON.fullmatch(name) and not _KEPT_BACK.match(name)
    }
    place = str(scratch)
    return kept | {"HOME": place, "TMPDIR": place, "USER": "worker", "LOGNAME": "worker", "PYTHONNOUSERSITE": "1"}


def _hidden(view: SandboxMounts) -> list[Path]:
    """Return the paths to cover; if the project is a home directory, its settings and keys too."""
    covered = [each for hidden in view.hidden for each in dict.fromkeys((hidden.absolute(), hidden.resolve()))]
    home = Path.home().resolve()
    if any(root == home or root in home.parents for root in view.roots):
        covered += [path for path in sorted(home.iterdir()) if path.name.startswith(".") and not path.is_symlink()]
    return covered


def _arrangement(view: SandboxMounts, *, can_wall: bool) -> bubblewrap.BubblewrapMounts:
    # Landlock withholds paths that change while the sandbox runs; thousands of covers would slow each process down.
    withheld = () if landlock.version() else view.withheld
    return bubblewrap.BubblewrapMounts(
        python=view.interpreter.executable,
        readable=(*view.interpreter.places, *view.roots, view.worker_folder, *_resolving(view)),
        scratch=view.scratch,
        hidden=(*_hidden(view), *withheld),
        devices=tuple(map(Path, devices())),
        can_wall=can_wall,
        has_network=view.has_network,
    )


def _resolving(view: SandboxMounts) -> tuple[Path, ...]:
    """Return the files for name resolution and certificate checks, if the network may be used."""
    named = map(Path, _NETWORK_SETTINGS) if view.has_network else ()
    return tuple(each for each in named if each.exists())
