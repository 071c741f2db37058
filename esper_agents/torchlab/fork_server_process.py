"""Start the fork server of a command, and plan the warm parent that may fork it."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.torchlab import bubblewrap, sandbox
from esper_agents.torchlab.warm_parent import DESCRIPTOR, LaunchPlan, WarmParentPlan
from esper_agents.torchlab.worker.process import landlock
from esper_agents.torchlab.worker.process.channel import Channel

if TYPE_CHECKING:
    from esper_agents.torchlab.sandbox import SandboxChoice, SandboxMounts

WORKER = Path(__file__).parent / "worker"
_BOOTSTRAP = (
    "import importlib.util as u, sys; p = sys.argv[1]; "
    "s = u.spec_from_file_location('esper_worker', p + '/__init__.py', submodule_search_locations=[p]); "
    "m = u.module_from_spec(s); sys.modules['esper_worker'] = m; s.loader.exec_module(m); "
    "from esper_worker.process.{module} import main; main(int(sys.argv[2]))"
)
# A thread pool started by an import would make every fork of the process hang.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
# Stands for the scratch folder where a parent is identified, which each has another.
_ANY_SCRATCH = Path("/esper-scratch")


class OwnProcess:
    """Fork server that this command started, and that ends with it.

    Attributes:
        channel: Channel to it.
        scratch: Folder for the processes of this command.
        covered: Folder that no process sees, except for its own part of it.
        choice: Their sandbox.
    """

    def __init__(self, view: SandboxMounts, choice: SandboxChoice) -> None:
        """Start it."""
        self.scratch = self.covered = view.scratch
        self.choice = choice
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.channel = Channel(ours)
        with ExitStack() as failed, theirs:
            failed.callback(self.channel.close)
            self._complaint = failed.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                sandbox.command(choice, view, _words("fork_server", str(theirs.fileno()))),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaint,
                env=sandbox.environment(view.scratch) | _ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd=view.scratch,
            )
            failed.pop_all()

    def remember(self, job: str) -> None:
        """Do nothing: there is no next command."""

    def why(self) -> str:
        """Return the last line of its complaints, in parentheses; empty if there is none."""
        self._complaint.seek(0)
        said = self._complaint.read().decode("utf-8", "replace").strip().splitlines()
        return f" ({said[-1][:300]})" if said else ""

    def close(self) -> None:
        """End it, and every measurement process with it."""
        self.channel.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._complaint.close()


def warm_parent_plan(view: SandboxMounts) -> WarmParentPlan | None:
    """Return the plan of a warm parent for a view; None if none may be kept for it.

    An environment of the project runs no code longer than a command. Bubblewrap binds folders at the start of the
    parent, so that the further folders of one command, such as another revision, are not there for it.

    Args:
        view: Visible files of the command.
    """
    program = bubblewrap.find()
    if view.interpreter.is_projects or view.has_network or (program and len(view.roots) > 1):
        return None

    def launch(scratch: Path) -> LaunchPlan:
        at = replace(view, scratch=scratch)
        choice = sandbox.choose(at, is_waived=False)
        command = sandbox.command(choice, at, _words("warm_parent", DESCRIPTOR))
        about = {"project": str(view.roots[0]), "python": view.interpreter.executable, "choice": choice.described()}
        return LaunchPlan(command, sandbox.environment(scratch) | _ENVIRONMENT, about)

    anywhere = replace(view, scratch=_ANY_SCRATCH)
    mounts = sandbox.bound_paths(anywhere) if program else []
    identity = {
        "project": str(view.roots[0]),
        "python": [view.interpreter.executable, *view.interpreter.version],
        "sandbox": [program, landlock.version(), sandbox.devices(), mounts],
        "environment": sandbox.environment(_ANY_SCRATCH),
    }
    return WarmParentPlan(identity, (*view.roots[:1], *view.interpreter.places, WORKER), launch)


def _words(module: str, descriptor: str) -> list[str]:
    return ["-I", "-c", _BOOTSTRAP.replace("{module}", module), str(WORKER), descriptor]
