"""What `make demo` shows: a real review of a small PyTorch project, killed in the middle, resumed, certified, checked.

Everything happens in `.demo/` beside the checkout's files; the project there is a copy of `examples/digits` under git.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / ".demo"
PROJECT = DEMO / "digits"
ESPER = str(Path(sys.executable).with_name("esper"))
ENVIRONMENT = {**os.environ, "ESPER_HOME": str(DEMO / "home")}


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def run(*arguments: str, expected: tuple[int, ...] = (0,)) -> None:
    say("$ esper " + shlex.join(arguments))
    done = subprocess.run([ESPER, *arguments], cwd=PROJECT, env=ENVIRONMENT, check=False)
    if done.returncode not in expected:
        sys.exit(f"exit code {done.returncode}, where {expected} was expected")


def killed_in_the_middle(*arguments: str) -> None:
    """Run a command and kill it, as a power cut would, as soon as it has told of its second tool."""
    say("$ esper " + shlex.join(arguments) + "    # and kill -9 in the middle")
    process = subprocess.Popen([ESPER, *arguments], cwd=PROJECT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    told = 0
    for line in process.stdout or ():
        print(line, end="", flush=True)
        told += line.startswith("tool")
        if told == 2:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    print("Killed")


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
    subprocess.run(["git", *identity, *arguments], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    shutil.rmtree(DEMO, ignore_errors=True)
    shutil.copytree(HERE / "digits", PROJECT, ignore=shutil.ignore_patterns("__pycache__"))
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "a small PyTorch project")
    request = "review this training code before we merge it"
    run("submit", "--dry-run", request)
    killed_in_the_middle("submit", request)
    run("sessions", "list")
    run("resume", expected=(3,))
    run("why", "latest")
    run("certificates", "verify", "latest")
    run("memory", "show", "--kind", "next-actions")
    say(f"The certificate and the agents' memory stand in {PROJECT / 'docs/ai/agents'}.")


if __name__ == "__main__":
    main()
