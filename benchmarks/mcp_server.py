"""Cost of the MCP server: CPU to the first answer and for a review, sizes of results, many calls at once.

python benchmarks/mcp_server.py                  # a repository of 200,000 lines; some minutes
python benchmarks/mcp_server.py --lines 20000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

LOOP = """def train_{number}(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss
    return total


"""
LOOPS = 25
CALLS = 100
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}


class ServerRun:
    """A server process and its pipes."""

    def __init__(self, project: Path, home: Path) -> None:
        self.began = time.monotonic()
        command = ["esper", "mcp", "--project", str(project)]
        given = {**os.environ, "ESPER_HOME": str(home)}
        self.process = subprocess.Popen(command, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.send(id=0, method="initialize", params=HELLO)
        self.answers(1)
        self.send(method="notifications/initialized")

    def send(self, **message: Any) -> None:
        """Send a message."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, number: int, name: str, **arguments: Any) -> None:
        """Call a tool, without waiting for the answer."""
        self.send(id=number, method="tools/call", params={"name": name, "arguments": arguments})

    def answers(self, count: int) -> list[Any]:
        """Return the next answers, without progress."""
        assert self.process.stdout
        found: list[Any] = []
        while len(found) < count:
            message = json.loads(self.process.stdout.readline())
            found += [message] if "id" in message else []
        return found

    def close(self) -> tuple[float, float]:
        """Return the CPU and the wall seconds of the process."""
        wall = time.monotonic() - self.began
        assert self.process.stdin
        self.process.stdin.close()
        _, _, used = os.wait4(self.process.pid, 0)
        return used.ru_utime + used.ru_stime, wall


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000)
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as folder:
        project, home = Path(folder, "project"), Path(folder, "home")
        small = Path(folder, "small")
        for root, count in ((small, 1), (project, lines // (LOOPS * 10))):
            root.mkdir()
            subprocess.run(["git", "init", "-q", root], check=True)
            for number in range(count):
                text = "".join(LOOP.format(number=each) for each in range(1 if root == small else LOOPS))
                (root / f"part_{number:05}.py").write_text(text)
        for _ in range(3):
            first = ServerRun(small, home)
            first.send(id=1, method="tools/list")
            first.answers(1)
            cpu, wall = first.close()
            reviewed = ServerRun(small, home)
            reviewed.call(1, "review", paths=["part_00000.py"])
            reviewed.answers(1)
            more = reviewed.close()[0] - cpu
            print(f"first answer: {cpu:.2f} s of CPU, {wall:.2f} s; review of one file: {more:+.2f} s of CPU")
        many = ServerRun(small, home)
        for number in range(CALLS):
            many.call(number + 1, "review", paths=["part_00000.py"])
        errors = sum(bool(each["result"].get("isError")) for each in many.answers(CALLS))
        print(f"{CALLS} reviews at once: {errors} errors, {many.close()[1]:.1f} s")
        large = ServerRun(project, home)
        for number, (name, arguments) in enumerate(
            (("review", {"limit": 100}), ("review", {"limit": 20}), ("gate", {"limit": 100})), 1
        ):
            began = time.monotonic()
            large.call(number, name, **arguments)
            (answer,) = large.answers(1)
            size = len(answer["result"]["content"][0]["text"].encode())
            print(f"{name} {arguments} of {lines} lines: {size} bytes in {time.monotonic() - began:.1f} s")
        large.close()


if __name__ == "__main__":
    main()
