"""Share of public modules and functions of packages from PyPI for which the lab finds arguments.

Packages, and those after `--needs`, are downloaded into the folder without their dependencies. The
targets are a seeded sample of the classes derived from `nn.Module` and of the functions that mention torch. A target
counts if its harness runs; one that cannot be imported, because a package is missing or broken, is listed apart.

Tried while building: pytorch-metric-learning, vector-quantize-pytorch, snntorch, gpytorch, diffusers, geoopt,
pyro-ppl and, earlier, kornia, torchmetrics, monai, x-transformers, performer-pytorch, linformer. Run once, without
looking at what failed: zuko, pypose, opacus, nflows, reformer-pytorch, torch-hd, e3nn, botorch, pytorch-tcn,
asteroid-filterbanks, perceiver-pytorch, conformer, local-attention.

python benchmarks/harnesses.py FOLDER NAME... [--needs NAME...]
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EsperError
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements.scaffold import ScaffoldOptions, search
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

_SKIPPED = frozenset(("test", "tests", "testing", "example", "examples", "benchmarks", "scripts"))


def main() -> None:
    """Download, sample, search and print one row for each package and kind."""
    parser = argparse.ArgumentParser(description="Measure the search for arguments on packages from PyPI.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--needs", nargs="*", default=[], help="other packages to download")
    parser.add_argument("--modules", type=int, default=12)
    parser.add_argument("--functions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.needs:
        _install(asked.folder, *asked.needs, "--no-deps")
    totals: dict[str, list[int]] = {"module": [0, 0], "function": [0, 0]}
    for package in asked.packages:
        before = set(asked.folder.iterdir())
        _install(asked.folder, package, "--no-deps")
        new = [path for path in asked.folder.iterdir() if path not in before and (path / "__init__.py").is_file()]
        targets = sorted(target for folder in new for target in _targets(asked.folder, folder))
        with Lab(asked.folder, LabSettings(timeout_s=40)) as lab:
            lab.warm("scaffold")
            for kind, most in (("module", asked.modules), ("function", asked.functions)):
                names = [target for each, target in targets if each == kind]
                chosen = random.Random(asked.seed).sample(names, min(most, len(names)))  # noqa: S311 - a sample
                began = time.monotonic()
                outcomes = [found for target in chosen if (found := _runs(lab, target)) is not None]
                each_s = (time.monotonic() - began) / max(len(chosen), 1)
                totals[kind][0] += sum(outcomes)
                totals[kind][1] += len(outcomes)
                print(
                    f"{package:32} {kind:9} {sum(outcomes):3} of {len(outcomes):3}  {each_s:5.1f} s each"
                    f"{f', {len(chosen) - len(outcomes)} not importable' if len(outcomes) < len(chosen) else ''}",
                    flush=True,
                )
    for kind, (run, number) in totals.items():
        print(f"{'total':32} {kind:9} {run:3} of {number:3}  {run / max(number, 1):.0%}")


def _install(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *words]
    subprocess.run([*command, "--disable-pip-version-check"], check=True)


def _targets(root: Path, package: Path) -> Iterator[tuple[str, str]]:
    trees = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(root).parts
        if not any(each.startswith(("_", "test")) or each in _SKIPPED for each in (*parts[:-1], path.stem)):
            trees[path] = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    classes = [node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    modules = {"nn.Module", "torch.nn.Module", "Module"}
    for _ in range(5):
        modules |= {node.name for node in classes if modules & {ast.unparse(base) for base in node.bases}}
    for path, tree in trees.items():
        for node in tree.body:
            target = f"{path.relative_to(root).as_posix()}:{getattr(node, 'name', '')}"
            match node:
                case ast.ClassDef(name=name) if name in modules and not name.startswith("_"):
                    # A base class without forward cannot be called.
                    if _has_forward(node, classes, modules):
                        yield "module", target
                case ast.FunctionDef(name=name) if not name.startswith("_"):
                    text = ast.unparse(node)
                    if "torch" in text or "Tensor" in text:
                        yield "function", target
                case _:
                    continue


def _has_forward(node: ast.ClassDef, classes: list[ast.ClassDef], modules: set[str]) -> bool:
    own = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "forward"]
    if own:
        steps = [each for each in own[-1].body if not isinstance(each, ast.Expr)]
        if len(steps) == 1 and isinstance(steps[0], ast.Raise):
            return False
        return not any("abstractmethod" in ast.unparse(each) for each in node.body if isinstance(each, ast.FunctionDef))
    bases = {ast.unparse(base) for base in node.bases} & modules
    return any(cls.name in bases and cls is not node and _has_forward(cls, classes, modules) for cls in classes)


def _runs(lab: Lab, target: str) -> bool | None:
    """Return whether arguments were found; None if importing the target raises, as without a package."""
    try:
        found = search(lab, TargetSpec(target), ScaffoldOptions(seconds=10), None)
    except EsperError as error:
        print(f"  {target}: {error.problem[:160]}", file=sys.stderr, flush=True)
        return None if error.problem.startswith(f"{target} raised ") else False
    is_run = bool(found.harness) or found.ended == "direct"
    if not is_run:
        print(
            f"  {target}: {found.runs[-1].error[:160] if found.runs else ''}",
            file=sys.stderr,
            flush=True,
        )
    return is_run


if __name__ == "__main__":
    main()
