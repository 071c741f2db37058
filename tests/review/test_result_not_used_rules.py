"""Cases of ESP236: statements whose new tensor goes nowhere."""

from __future__ import annotations

import pytest

STATEMENT = """
    import torch
    import torch.nn.functional as F

    def predict(model, x, scores: torch.Tensor, config, device):
        made = torch.zeros(3)
        {line}
        return model(x), scores, made
    """


@pytest.mark.parametrize(
    "line",
    [
        "scores.to(device)",
        "scores.squeeze(0)",
        "scores.float()",
        "made.cuda()",
        "made.view(3, 1)",
        "made.clamp(min=0)",
        "torch.clamp(made, 0, 1)",
        "scores.masked_fill(scores < 0, 0.0)",
        "if config: made.unsqueeze(0)",
    ],
)
def test_a_new_tensor_that_is_dropped_is_reported(found, line):
    assert found("ESP236", STATEMENT.format(line=line)) == [line]


def test_an_input_of_a_model_that_is_moved_in_vain_is_reported(found):
    assert found("ESP236", STATEMENT.format(line="x.to(device)")) == ["x.to(device)"]


@pytest.mark.parametrize(
    "line",
    [
        "scores = scores.to(device)",
        "scores.clamp_(min=0)",
        "model.to(device)",
        "model.eval().to(device)",
        "config.to(device)",
        "config.add(1)",
        "torch.clamp(made, 0, 1, out=made)",
        "print(made.view(3, 1))",
        "with torch.profiler.profile(): made.clamp(min=0)",
        "made.backward()",
    ],
)
def test_what_changes_its_object_or_is_used_is_not_reported(found, line):
    assert found("ESP236", STATEMENT.format(line=line)) == []


def test_an_object_that_is_called_as_a_module_is_not_reported(found):
    assert found("ESP236", STATEMENT.format(line="x.to(device); x(scores)")) == []


def test_batches_that_move_themselves_are_not_reported(found):
    source = STATEMENT.format(line="x.to(device)").replace(
        "import torch\n", "import torch\n    from torch_geometric.loader import DataLoader\n", 1
    )
    assert found("ESP236", source) == []


def test_what_a_try_probes_is_not_reported(found):
    source = """
        import torch

        def can_view(x: torch.Tensor):
            try:
                x.view(-1)
            except RuntimeError:
                return False
            return True
        """
    assert found("ESP236", source) == []


def test_tests_are_not_reported(found):
    source = {"tests/test_moves.py": STATEMENT.format(line="scores.to(device)")}
    assert found("ESP236", source) == []
