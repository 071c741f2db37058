"""Cases of ESP137 to ESP141, ESP287, ESP288, ESP290 to ESP292 and ESP425: plain mistakes in modules and loops."""

from __future__ import annotations

import pytest

FORWARD = """
    import torch
    from torch import nn

    class Net(nn.Module):
        {of_class}
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor):
            {lines}
    """


@pytest.mark.parametrize("made", ["nn.ReLU(self.fc(x))", "nn.Softmax(x)", "nn.Dropout(self.fc(x))", "torch.nn.Tanh(x)"])
def test_a_layer_made_of_a_tensor_is_reported(found, made):
    assert found("ESP137", FORWARD.format(of_class="pass", lines=f"return {made}")) == [f"return {made}"]


@pytest.mark.parametrize("loss", ["nn.MSELoss(model(x), y)", "nn.CrossEntropyLoss(scores, y)"])
def test_a_loss_made_of_tensors_is_reported(found, loss):
    source = f"""
        from torch import nn

        def step(model, scores, x, y):
            loss = {loss}
            loss.backward()
        """
    assert found("ESP137", source) == [f"loss = {loss}"]


@pytest.mark.parametrize(
    "lines",
    [
        "return nn.ReLU()(x)",
        "return nn.Sequential(self.fc, nn.ReLU(True))(x)",
        "return nn.Dropout(0.5)(x)",
        "loss = nn.CrossEntropyLoss(weight=x); return loss(self.fc(x), x)",
        "loss = nn.CrossEntropyLoss(x); return loss(self.fc(x), x)",
    ],
)
def test_modules_that_are_made_and_applied_are_not_reported(found, lines):
    assert found("ESP137", FORWARD.format(of_class="pass", lines=lines)) == []


@pytest.mark.parametrize("lines", ["x = self.fc(x)", "out = torch.relu(self.fc(x))"])
def test_a_forward_that_loses_its_result_is_reported(found, lines):
    assert found("ESP138", FORWARD.format(of_class="pass", lines=lines)) == [lines]


@pytest.mark.parametrize(
    "lines",
    [
        "return self.fc(x)",
        "if x is None: return None\n            x = self.fc(x)",
        "self.last = self.fc(x)",
        "raise NotImplementedError",
        "count = 1",
        "yield x; x = self.fc(x)",
    ],
)
def test_a_forward_that_returns_or_keeps_its_result_is_not_reported(found, lines):
    assert found("ESP138", FORWARD.format(of_class="pass", lines=lines)) == []


@pytest.mark.parametrize("of_class", ["head = nn.Linear(3, 3)", "head: nn.Module = nn.Sequential(nn.Linear(3, 3))"])
def test_a_layer_in_the_body_of_a_class_is_reported(found, of_class):
    source = FORWARD.format(of_class=of_class, lines="return self.head(x)")
    assert found("ESP139", source) == [of_class]


@pytest.mark.parametrize(
    ("of_class", "lines"),
    [
        ("act = nn.ReLU()", "return self.act(x)"),
        ("width = 8", "return x"),
        ("head = nn.Linear(3, 3)", "self.head = nn.Linear(3, 3); return self.head(x)"),
        ("head = nn.Linear", "return x"),
    ],
)
def test_settings_and_layers_of_objects_are_not_reported(found, of_class, lines):
    assert found("ESP139", FORWARD.format(of_class=of_class, lines=lines)) == []


MEAN = """
    import numpy as np
    import torch

    def accuracy(model, x, y, scores):
        prediction = {made}
        return {mean}
    """


@pytest.mark.parametrize("made", ["model(x).argmax(dim=1)", "torch.argmax(scores, 1)", "torch.max(scores, 1)"])
@pytest.mark.parametrize("mean", ["(prediction == y).mean()", "torch.mean(prediction == y)", "prediction.eq(y).mean()"])
def test_the_mean_of_a_comparison_of_tensors_is_reported(found, made, mean):
    assert found("ESP140", MEAN.format(made=made, mean=mean)) == [f"return {mean}"]


@pytest.mark.parametrize(
    ("made", "mean"),
    [
        ("model(x).argmax(dim=1)", "(prediction == y).float().mean()"),
        ("model(x).argmax(dim=1)", "torch.mean(prediction == y, dtype=torch.float)"),
        ("np.argmax(scores, axis=1)", "(prediction == y).mean()"),
        ("model.predict(x)", "(prediction == y).mean()"),
        ("model(x).argmax(dim=1).cpu().numpy()", "(prediction == y).mean()"),
    ],
)
def test_means_of_numbers_and_arrays_are_not_reported(found, made, mean):
    assert found("ESP140", MEAN.format(made=made, mean=mean)) == []


BLOCK = """
    from torch import nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.act = {act}
            self.conv = nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x):
            out = self.conv({first})
            return {result}
    """


@pytest.mark.parametrize(
    ("act", "first"),
    [
        ("nn.ReLU(inplace=True)", "self.act(x)"),
        ("nn.ReLU(True)", "self.act(x)"),
        ("nn.Sequential(nn.SiLU(inplace=True), nn.Conv2d(8, 8, 1))", "self.act(x)"),
        ("None", "F.relu(x, inplace=True)"),
    ],
)
def test_an_input_that_is_changed_and_added_is_reported(found, act, first):
    assert len(found("ESP141", BLOCK.format(act=act, first=first, result="out + x"))) == 1


@pytest.mark.parametrize(
    ("act", "first", "result"),
    [
        ("nn.ReLU(inplace=False)", "self.act(x)", "out + x"),
        ("nn.ReLU(inplace=True)", "self.act(self.conv(x))", "out + x"),
        ("nn.ReLU(inplace=True)", "self.act(x)", "out"),
        ("nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(inplace=True))", "self.act(x)", "out + x"),
        ("nn.ReLU(inplace=True)", "self.act(x.clone())", "out + x"),
    ],
)
def test_inputs_that_stay_or_are_not_added_are_not_reported(found, act, first, result):
    assert found("ESP141", BLOCK.format(act=act, first=first, result=result)) == []


@pytest.mark.parametrize("call", ["F.one_hot(y)", "F.one_hot(y.long()).float()"])
def test_a_code_without_a_number_of_classes_is_reported(found, call):
    source = f"import torch.nn.functional as F\n\ndef code(y, n):\n    return {call}\n"
    assert found("ESP287", source) == [f"return {call}"]


@pytest.mark.parametrize("call", ["F.one_hot(y, n)", "F.one_hot(y, num_classes=n)", "F.one_hot(*y)", "one_hot(y)"])
def test_a_code_with_a_number_of_classes_is_not_reported(found, call):
    assert found("ESP287", f"import torch.nn.functional as F\n\ndef code(y, n):\n    return {call}\n") == []


def test_a_code_of_all_labels_at_once_is_not_reported(found):
    assert found("ESP287", "import torch.nn.functional as F\n\nlabels = F.one_hot(read())\n") == []


SEEDED = """
    import random
    import torch

    class Set(torch.utils.data.Dataset):
        def __getitem__(self, index):
            {in_item}
            return torch.randn(3)

    def fit(model, loader, optimizer):
        {before}
        for x, y in loader:
            {in_loop}
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    """


@pytest.mark.parametrize(
    ("in_item", "in_loop"),
    [("torch.manual_seed(0)", "pass"), ("random.seed(7)", "pass"), ("pass", "torch.manual_seed(42)")],
)
def test_a_constant_seed_that_is_set_again_is_reported(found, in_item, in_loop):
    expected = in_item if in_item != "pass" else in_loop
    assert found("ESP288", SEEDED.format(in_item=in_item, before="pass", in_loop=in_loop)) == [expected]


@pytest.mark.parametrize(
    ("in_item", "before"),
    [
        ("torch.manual_seed(index)", "pass"),
        ("pass", "torch.manual_seed(0)"),
        ("generator = torch.Generator().manual_seed(0)", "pass"),
    ],
)
def test_seeds_of_a_sample_and_of_the_program_are_not_reported(found, in_item, before):
    assert found("ESP288", SEEDED.format(in_item=in_item, before=before, in_loop="pass")) == []


AGENT = """
    import copy

    class Agent:
        def __init__(self, q, make):
            self.q = q
            self.target = {target}

        def sync(self):
            self.target.load_state_dict(self.q.state_dict())
    """


@pytest.mark.parametrize("target", ["q", "self.q"])
def test_a_target_that_is_the_network_itself_is_reported(found, target):
    assert found("ESP290", AGENT.format(target=target)) == [f"self.target = {target}"]


@pytest.mark.parametrize("target", ["copy.deepcopy(q)", "make()", "q.target", "type(q)()"])
def test_a_target_of_its_own_is_not_reported(found, target):
    assert found("ESP290", AGENT.format(target=target)) == []


def test_two_names_that_are_never_copied_are_not_reported(found):
    assert found("ESP290", AGENT.format(target="q").replace("self.q.state_dict()", "load(path)")) == []


NEXT = """
    import torch

    def fit(model, data, batches, optimizer, steps):
        loader = torch.utils.data.DataLoader(data, 32)
        {before}
        for step in range(steps):
            x, y = {batch}
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    """


@pytest.mark.parametrize("batch", ["next(iter(loader))", "next(iter(batches))"])
def test_an_iterator_for_each_batch_is_reported(found, batch):
    assert found("ESP425", NEXT.format(before="pass", batch=batch)) == [f"x, y = {batch}"]


@pytest.mark.parametrize(
    ("before", "batch"),
    [("batches = iter(loader)", "next(batches)"), ("first = next(iter(loader))", "first"), ("pass", "next(batches())")],
)
def test_an_iterator_that_is_made_once_is_not_reported(found, before, batch):
    assert found("ESP425", NEXT.format(before=before, batch=batch)) == []


TERMS = """
    import torch

    def loss(a, b):
        total = torch.square(a).sum()
        {line}
        return total
    """


@pytest.mark.parametrize(
    "line", ["+ torch.square(b).sum()", "- b.mean()", "total * 2", "a @ b", "with torch.no_grad(): total + b"]
)
def test_a_term_on_a_line_of_its_own_is_reported(found, line):
    assert found("ESP291", TERMS.format(line=line)) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "total = total + b.mean()",
        "total.backward()",
        "b",
        "-1",
        "a << b",
        "with pytest.raises(TypeError): total + b",
        '"""text"""',
    ],
)
def test_statements_with_an_effect_are_not_reported(found, line):
    assert found("ESP291", TERMS.format(line=line)) == []


def test_a_term_in_a_test_is_not_reported(found):
    assert found("ESP291", {"tests/test_sum.py": TERMS.format(line="total + b")}) == []


PASSED = """
    class Model:
        def weighted(self, scores, margin=0.0, smoothing=0.0, *, scale=1.0):
            return scores

        def loss(self, scores, smoothing, margin, config):
            return {call}
    """


@pytest.mark.parametrize("call", ["self.weighted(scores, smoothing)", "self.weighted(scores, config.smoothing)"])
def test_a_value_in_the_place_of_another_parameter_is_reported(found, call):
    assert found("ESP292", PASSED.format(call=call)) == [f"return {call}"]


def test_the_same_is_reported_for_a_function_of_another_file(found):
    source = {
        "losses.py": "def weighted(scores, margin=0.0, smoothing=0.0):\n    return scores\n",
        "train.py": "from losses import weighted\n\ndef loss(x, smoothing):\n    return weighted(x, smoothing)\n",
    }
    assert found("ESP292", source) == ["return weighted(x, smoothing)"]


@pytest.mark.parametrize(
    "call",
    [
        "self.weighted(scores, smoothing=smoothing)",
        "self.weighted(scores, margin)",
        "self.weighted(scores, smoothing, margin)",
        "self.weighted(smoothing)",
        "self.weighted(scores, smoothing, smoothing=0.1)",
        "self.weighted(*scores, smoothing)",
        "self.other(scores, smoothing)",
    ],
)
def test_values_in_their_place_and_swapped_pairs_are_not_reported(found, call):
    assert found("ESP292", PASSED.format(call=call)) == []


def test_required_parameters_are_not_reported(found):
    source = PASSED.format(call="self.weighted(scores, smoothing)").replace(
        "margin=0.0, smoothing=0.0", "margin, smoothing"
    )
    assert found("ESP292", source) == []


def test_one_batch_for_each_trial_is_not_reported(found):
    trial = NEXT.replace("optimizer.zero_grad()", "optimizer = torch.optim.SGD(model.parameters(), lr=step)")
    assert found("ESP425", trial.format(before="pass", batch="next(iter(loader))")) == []
