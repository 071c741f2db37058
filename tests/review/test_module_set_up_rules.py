"""Cases of ESP115, ESP136, ESP235 and ESP237: how modules are set up, repeated and frozen."""

from __future__ import annotations

import pytest

MODULE = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width):
            {lines}
    """


@pytest.mark.parametrize(
    "first",
    [
        "self.fc = nn.Linear(width, 2)",
        "self.register_buffer('mean', nn.Parameter(None))",
        "self.scale = nn.Parameter(width)",
    ],
)
@pytest.mark.parametrize("then", ["pass", "super().__init__()", "nn.Module.__init__(self)"])
def test_a_part_set_before_the_base_begins_is_reported(found, first, then):
    assert found("ESP115", MODULE.format(lines=f"{first}; {then}")) == [f"{first}; {then}"]


def test_a_part_that_is_a_module_of_the_project_is_reported(found):
    source = MODULE.format(lines="self.head = Head(); super().__init__()") + (
        "\n    class Head(nn.Module):\n        def forward(self, x):\n            return x\n"
    )
    assert len(found("ESP115", source)) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "super().__init__(); self.fc = nn.Linear(width, 2)",
        "self.width = width; super().__init__(); self.fc = nn.Linear(width, 2)",
        "nn.Module.__init__(self); self.fc = nn.Linear(width, 2)",
        "self._begin(); self.fc = nn.Linear(width, 2)",
        "begin(self); self.fc = nn.Linear(width, 2)",
    ],
)
def test_a_module_that_begins_with_its_base_is_not_reported(found, lines):
    assert found("ESP115", MODULE.format(lines=lines)) == []


def test_a_class_whose_metaclass_calls_the_base_is_not_reported(found):
    source = MODULE.format(lines="self.fc = nn.Linear(width, 2)").replace("nn.Module)", "nn.Module, metaclass=Begin)")
    assert found("ESP115", source) == []


def test_a_base_of_another_library_is_not_reported(found):
    source = MODULE.format(lines="self.fc = nn.Linear(width, 2)").replace("nn.Module)", "Module)")
    assert found("ESP115", "    from fastai.torch_core import Module\n" + source) == []


REPEATED = """
    from torch import nn
    from copy import deepcopy

    class Encoder(nn.Module):
        def __init__(self, depth, width):
            super().__init__()
            block = nn.TransformerEncoderLayer(width, 4)
            self.layers = {layers}
    """


@pytest.mark.parametrize(
    "layers",
    [
        "nn.ModuleList([block] * depth)",
        "nn.ModuleList(depth * [block])",
        "nn.ModuleList([block for _ in range(depth)])",
        "nn.Sequential(*[block] * depth)",
        "nn.Sequential(*([nn.Flatten()] + [nn.Linear(width, width)] * 3))",
        "nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.ReLU())] * depth)",
    ],
)
def test_one_layer_that_stands_several_times_is_reported(found, layers):
    assert found("ESP235", REPEATED.format(layers=layers)) == [f"self.layers = {layers}"]


@pytest.mark.parametrize(
    "layers",
    [
        "nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])",
        "nn.ModuleList([deepcopy(block) for _ in range(depth)])",
        "nn.Sequential(*[nn.ReLU()] * depth)",
        "nn.ModuleList([block])",
        "nn.ModuleList([block for block in self.make(depth)])",
        "nn.ModuleList([nn.Linear(a, b) for a, b in zip([width] * depth, [width] * depth)])",
    ],
)
def test_layers_of_their_own_and_those_without_weights_are_not_reported(found, layers):
    assert found("ESP235", REPEATED.format(layers=layers)) == []


def test_a_layer_that_callers_give_is_a_suggestion(found):
    source = REPEATED.format(layers="nn.ModuleList([layer] * depth)").replace("depth, width", "layer, depth, width")
    assert len(found("ESP235", source)) == 1


FROZEN = """
    import torchvision
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, 8)
            self.scale = nn.Parameter(nn.init.zeros_(self.encoder.weight))
            self.head = Head()
            {line}

    class Head(nn.Module):
        def forward(self, x):
            return x

    resnet = torchvision.models.resnet18()
    {after}
    """


@pytest.mark.parametrize(
    "after",
    [
        "for p in resnet.parameters(): p.require_grad = False",
        "for name, p in resnet.named_parameters(): p.requires_grads = False",
        "resnet.fc.weight.required_grad = True",
        "resnet.requires_grad = False",
        "resnet.layer4.requires_grad = True",
        "for child in resnet.children(): child.requires_grad = False",
    ],
)
def test_a_flag_that_nothing_reads_is_reported(found, after):
    assert found("ESP237", FROZEN.format(line="pass", after=after)) == [after]


@pytest.mark.parametrize("line", ["self.encoder.requires_grad = False", "self.head.requires_grad = False"])
def test_a_part_of_a_module_frozen_as_a_tensor_is_reported(found, line):
    assert found("ESP237", FROZEN.format(line=line, after="")) == [line]


@pytest.mark.parametrize(
    "after",
    [
        "for p in resnet.parameters(): p.requires_grad = False",
        "resnet.requires_grad_(False)",
        "resnet.fc.weight.requires_grad = False",
        "config.require_grad = False",
        "for p in config.entries(): p.require_grad = False",
    ],
)
def test_parameters_frozen_by_the_right_name_are_not_reported(found, after):
    assert found("ESP237", FROZEN.format(line="self.scale.requires_grad = False", after=after)) == []


def test_a_module_that_defines_the_attribute_is_not_reported(found):
    source = FROZEN.format(line="self.head.requires_grad = False", after="")
    source = source.replace("def forward(self, x)", "@property\n        def requires_grad(self)")
    assert found("ESP237", source) == []


PARAMETER = """
    import torch
    from torch import nn

    class Scale(nn.Module):
        def __init__(self, device):
            super().__init__()
            self.scale = {value}
    """


@pytest.mark.parametrize(
    "value",
    [
        "nn.Parameter(torch.ones(3)) * 0.1",
        "0.1 * nn.Parameter(torch.ones(3))",
        "-nn.Parameter(torch.ones(3))",
        "nn.Parameter(torch.ones(3)).to(device)",
        "nn.Parameter(torch.ones(3)).cuda()",
        "torch.nn.parameter.Parameter(torch.ones(3)).unsqueeze(0)",
    ],
)
def test_an_operation_on_a_new_parameter_is_reported(found, value):
    assert found("ESP136", PARAMETER.format(value=value)) == [f"self.scale = {value}"]


@pytest.mark.parametrize(
    "value",
    [
        "nn.Parameter(0.1 * torch.ones(3))",
        "nn.Parameter(torch.ones(3).to(device))",
        "nn.Parameter(torch.ones(3)).requires_grad_(False)",
        "nn.Linear(3, 3).to(device)",
    ],
)
def test_a_parameter_of_computed_values_is_not_reported(found, value):
    assert found("ESP136", PARAMETER.format(value=value)) == []


def test_a_tensor_of_an_object_that_is_no_module_is_not_reported(found):
    source = PARAMETER.format(value="nn.Parameter(torch.ones(3)) * 0.1").replace("(nn.Module)", "")
    assert found("ESP136", source) == []
