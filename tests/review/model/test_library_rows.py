"""Every row about a library is compared with the library, where it is installed."""

from __future__ import annotations

import inspect
import io
import tomllib
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location

import pytest

from esper_agents.review.model.knowledge import GraphEffect, InitialMode, ResultKind
from esper_agents.review.model.libraries import FOLDER, read_library
from esper_agents.review.model.operators import SHAPE_RULES

ROWS = [
    (path, section, row)
    for path in sorted(FOLDER.glob("*.toml"))
    for section in ("call", "method", "attribute")
    for row in tomllib.loads(path.read_text()).get(section, ())
]
FACTS = {
    path: {(row.section, row.name): row.facts for row in read_library(path).rows} for path in FOLDER.glob("*.toml")
}


def names(row):
    prefix = row.get("in", "")
    return [f"{prefix}.{name}" if prefix else name for name in row["names"]]


def title(case):
    return names(case[2])[0] if isinstance(case, tuple) else str(case)


def chosen(texts, name, short):
    """Return the text for a name: one for all, by name, or the default; arguments alone follow the name."""
    text = texts.get(short, texts.get("default", "")) if isinstance(texts, dict) else texts
    return f"{name}{text}" if text.startswith("(") else text.replace("{name}", name).replace("{{}}", "{}")


def names_of_libraries(row):
    roots = {name.partition(".")[0] for name in names(row) if "." in name}
    texts = " ".join(map(str, (row.get("example", ""), row.get("check", ""), row.get("class", ""))))
    known = "numpy torchvision timm transformers diffusers lightning accelerate torchmetrics torch_geometric peft tqdm"
    return roots | {library for library in known.split() if f"{library}." in texts}


def environment(row):
    """Return the names that examples use; skip the test where a library is missing."""
    import torch

    found = {"torch": torch, "inspect": inspect, "io": io}
    for root in names_of_libraries(row):
        if find_spec(root) is None:
            pytest.skip(f"{root} is not installed")
        if root not in {"torch", "numpy"}:
            define_missing_operators(torch)
        found[root] = import_module(root)
    for name in names(row):
        load(name, found)
    for module in ("torch.optim.swa_utils", "torch.nn.utils.parametrizations", "torch.utils.checkpoint"):
        import_module(module)
    return found | {"optimizer": torch.optim.SGD(torch.nn.Linear(3, 4).parameters(), 0.1)}


def load(name, found):
    """Import the modules that a dotted name goes through."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        try:
            found[parts[0]] = found.get(parts[0]) or import_module(parts[0])
            import_module(".".join(parts[:end]))
        except ImportError:
            return


KEPT = []


def define_missing_operators(torch):
    """Let torchvision be imported whose compiled operators were made for another build of torch."""
    if not KEPT and not hasattr(torch.ops.torchvision, "nms"):
        KEPT.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            KEPT[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("path", "section", "row"), ROWS, ids=lambda case: title(("", "", case)) if isinstance(case, dict) else ""
)
@pytest.mark.filterwarnings("ignore")
def test_a_row_says_what_the_library_does(path, section, row):
    space = environment(row)
    import torch

    for short, name in zip(row["names"], names(row), strict=True):
        facts = FACTS[path][section, name]
        if "example" in row:
            made = eval(chosen(row["example"], name, short), space)  # noqa: S307 - the text of a bundled file
            compare(facts, made, torch, name)
            texts = row.get("input")
            text = texts.get(short, texts.get("default")) if isinstance(texts, dict) else texts
            if text is not None:
                value = eval(text, space)  # noqa: S307 - the text of a bundled file
                assert acts_by_mode(made, value, torch) is facts.acts_by_mode, name
        if "check" in row:
            code = row["check"].format(name=name, parameters=list(facts.parameters))
            exec(code, dict(space))  # noqa: S102 - the text of a bundled file


def compare(facts, made, torch, name):
    classes = {
        ResultKind.MODULE: torch.nn.Module,
        ResultKind.TENSOR: torch.Tensor,
        ResultKind.OPTIMIZER: torch.optim.Optimizer,
        ResultKind.SCHEDULER: (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau),
        ResultKind.SCALER: torch.amp.GradScaler,
        ResultKind.LOADER: torch.utils.data.DataLoader,
        ResultKind.DATASET: torch.utils.data.Dataset,
        ResultKind.NUMBER: (bool, int, float),
        ResultKind.METRIC: torch.nn.Module,
        ResultKind.TEXT: str,
    }
    if facts.result in classes:
        assert isinstance(made, classes[facts.result]), name
    if facts.result is ResultKind.MODULE:
        assert made.training is (facts.mode is InitialMode.TRAINING) or facts.mode is InitialMode.UNKNOWN, name
        if facts.has_parameters is not None:
            assert any(each.requires_grad for each in made.parameters()) is facts.has_parameters, name
    if facts.result is ResultKind.TENSOR:
        assert made.requires_grad or facts.graph is not GraphEffect.LEAF, name
        assert not made.requires_grad or facts.graph is not GraphEffect.CUTS, name


def acts_by_mode(module, value, torch):
    """Return whether a module gives or keeps something else in training than in evaluation."""

    def outcome(is_training):
        torch.manual_seed(0)
        result = module.train(is_training)(value)
        tensors = [result] if isinstance(result, torch.Tensor) else [each for each in result if torch.is_tensor(each)]
        return [each.detach().clone() for each in [*tensors, *module.buffers()]]

    with torch.no_grad():
        buffers = [each.clone() for each in module.buffers()]
        trained, evaluated = outcome(True), outcome(False)
    moved = any(not one.equal(other) for one, other in zip(buffers, module.buffers(), strict=True))
    return moved or any(not one.equal(other) for one, other in zip(trained, evaluated, strict=True))


@pytest.mark.parametrize(
    ("path", "section", "row"), ROWS, ids=lambda case: title(("", "", case)) if isinstance(case, dict) else ""
)
def test_a_row_has_a_check_or_a_source(path, section, row):
    assert {"example", "check", "source"} & set(row), names(row)
    assert row.get("source", "https://").startswith("https://"), names(row)


@pytest.mark.parametrize(
    ("path", "section", "row"), ROWS, ids=lambda case: title(("", "", case)) if isinstance(case, dict) else ""
)
def test_the_shape_rule_of_a_row_exists(path, section, row):
    assert row.get("shape", "same") in SHAPE_RULES


def test_the_rows_that_the_review_reads_follow_from_the_files():
    path = FOLDER.parents[3].parent / "checks" / "library_table.py"
    spec = spec_from_file_location("library_table", path)
    table = module_from_spec(spec)
    spec.loader.exec_module(table)
    assert table.text() == table.FILE.read_text(), "run `python checks/library_table.py`"
