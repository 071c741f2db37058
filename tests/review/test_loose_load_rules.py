"""ESP203 on loose loads, by where the weights come from and what is done with the report."""

from __future__ import annotations

import pytest

HEAD = """
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

FOUND = {
    "two under": """
def f(model, ckpt):
    _, _ = model.load_state_dict(torch.load(ckpt, weights_only=True)["model"], strict=False)
""",
    "unused msg": """
def f(model, path):
    sd = torch.load(path, map_location="cpu")
    sd = {k.replace("module.", ""): v for k, v in sd.items()}
    msg = model.load_state_dict(sd, strict=False)
    return model
""",
    "hub url": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(2, 2)
        self.backbone.load_state_dict(torch.hub.load_state_dict_from_url(URL), strict=False)
""",
    "safetensors": """
from safetensors.torch import load_file, load_model
def f(model, p):
    load_model(model, p, strict=False)
""",
    "const strict": """
def f(model, checkpoint):
    strict = False
    model.load_state_dict(checkpoint["state_dict"], strict=strict)
""",
}
CLEAN = {
    "literal": """
m.load_state_dict({"mu": mu}, strict=False)
""",
    "live": """
def f(a, b):
    a.blocks.load_state_dict(b.blocks.state_dict(), strict=False)
""",
    "checked": """
def f(model, path):
    sd = torch.load(path)
    missing_keys = set(model.state_dict()) - set(sd)
    if missing_keys:
        raise KeyError(missing_keys)
    model.load_state_dict(sd, strict=False)
""",
}


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_a_loose_load_that_nobody_checks_is_found(found, source):
    assert found("ESP203", HEAD + source)


@pytest.mark.parametrize("source", CLEAN.values(), ids=CLEAN)
def test_a_loose_load_that_is_meant_is_left_alone(found, source):
    assert found("ESP203", HEAD + source) == []
