"""What functions of the reviewed files hand back: models in a mode, layers, tensors of a place."""

from __future__ import annotations

import pytest

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n=10):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n, 8), nn.BatchNorm1d(8), nn.Dropout(0.1))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


def restore(path):
    model = Net()
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    {switched}
    return {returned}


def predict(path, rows):
    model, vocab = restore(path)
    with torch.inference_mode():
        return model(rows).argmax(1)
"""


@pytest.mark.parametrize("returned", ["model, 3", 'model.to("cuda"), state["vocab"]', "model.cuda().float(), 3"])
def test_a_model_that_a_function_hands_back_with_others_is_still_in_training_mode(found, returned):
    source = NET.format(switched="", returned=returned)
    assert found("ESP102", source) == ["return model(rows).argmax(1)"]


@pytest.mark.parametrize(
    ("switched", "returned"),
    [("model.eval()", "model.cuda(), 3"), ("", "model.eval(), 3"), ("", "model.cuda().eval(), 3")],
)
def test_a_model_that_a_function_hands_back_switched_is_fine(found, switched, returned):
    assert found("ESP102", NET.format(switched=switched, returned=returned)) == []


PARTS = """
import torch
import torch.nn.functional as F
from torch import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.1)), nn.Linear(3, 8)

    def forward(self, a, b):
        return self.image(a) @ self.text(b).t()


@torch.no_grad()
def zero_shot(model, loader, prompts):
    right = 0
    for x, y in loader:
        right += ((model.{part}(x) @ prompts.t()).argmax(1) == y).sum().item()
    return right


def fit(model, loader, held_out, prompts):
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        model.train()
        for a, b in loader:
            loss = F.cross_entropy(model(a, b), torch.arange(len(a)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {switched}
        print(zero_shot(model, held_out, prompts))


fit(Pair(), [], [], None)
"""


def test_a_part_of_a_model_is_evaluated_by_itself(found):
    wrong = ["right += ((model.image(x) @ prompts.t()).argmax(1) == y).sum().item()"]
    assert found("ESP102", PARTS.format(part="image", switched="pass")) == wrong
    assert found("ESP102", PARTS.format(part="image", switched="model.eval()")) == []
    assert found("ESP102", PARTS.format(part="text", switched="pass")) == []


def test_data_that_is_cut_into_batches_by_hand_is_evaluated(found):
    source = """
    def validate(net, xs, ys, size=64):
        losses = []
        with torch.no_grad():
            for i in range(0, len(xs), size):
                losses.append(F.mse_loss(net(xs[i : i + size]), ys[i : i + size]).item())
        return sum(losses)

    def fit(net, loader, optimizer, xs, ys):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()
        print(validate(net, xs, ys))
    """
    assert len(found("ESP102", source)) == 1


POOLED = {
    "pool.py": """
    import torch


    def pooled(values, index, size):
        out = torch.zeros(size, 8{device})
        return out.index_add(0, index, values)
    """,
    "gnn.py": """
    import torch
    from torch import nn
    from pool import pooled


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.out = nn.Linear(8, 8), nn.Linear(8, 1)

        def forward(self, h, index):
            h = pooled(self.first(h), index, h.shape[0])
            return self.out(pooled(h, index, h.shape[0]))


    model = Net().to("cuda")
    """,
}


def test_a_tensor_that_a_helper_makes_and_mixes_is_told_of_once_and_there(found):
    wrong = {path: text.replace("{device}", "") for path, text in POOLED.items()}
    right = {path: text.replace("{device}", ", device=values.device") for path, text in POOLED.items()}
    assert found("ESP104", wrong) == ["out = torch.zeros(size, 8)"]
    assert found("ESP104", right) == []


def test_a_table_kept_on_the_cpu_meets_the_device_where_it_is_read(found):
    source = """
    import torch


    class Schedule:
        def __init__(self, steps):
            self.betas = torch.linspace(1e-4, 0.02, steps)

        def noised(self, x, t):
            return self.betas[t].view(-1, 1) * x


    def train(model, loader):
        schedule = Schedule(100)
        for x in loader:
            x = x.to("cuda")
            t = torch.randint(0, 100, (len(x),), device="cuda")
            model(schedule.noised(x, t))
    """
    assert found("ESP104", source) == ["return self.betas[t].view(-1, 1) * x"]


def test_weights_that_a_class_gives_its_loss_stay_on_the_cpu(found):
    source = """
    import torch
    from torch import nn


    class Trainer:
        def __init__(self, model):
            self.device = torch.device("cuda")
            self.model = model.to(self.device)
            weights = torch.tensor([1.0, 2.0])
            self.criterion = nn.CrossEntropyLoss(weight=weights{moved})

        def step(self, x, y):
            x, y = x.to(self.device), y.to(self.device)
            return self.criterion(self.model(x), y)
    """
    assert len(found("ESP104", source.replace("{moved}", ""))) == 1
    assert found("ESP104", source.replace("{moved}", ".to(self.device)")) == []


@pytest.mark.parametrize(
    "body",
    [
        "return nn.Sequential(nn.Conv2d(i, o, 3), nn.BatchNorm2d(o))",
        "block = nn.Sequential(nn.Conv2d(i, o, 3), nn.ReLU())\n    return block",
        "layers = [nn.Conv2d(i, o, 3), nn.ReLU()]\n    return nn.Sequential(*layers)",
        "layers = [nn.Conv2d(i, o, 3)]\n    layers.append(nn.ReLU())\n    return nn.Sequential(*layers)",
    ],
)
def test_layers_that_functions_build_do_not_fit(found, body):
    source = f"""
import torch
from torch import nn


def block(i, o):
    {body}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = block(3, 16), block(16, 16)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.d = block(WIDTH, 16)

    def forward(self, x):
        a = self.a(x)
        return self.d(torch.cat([self.up(self.b(a)), a], dim=1))
"""
    assert len(found("ESP205", source.replace("WIDTH", "16"))) == 1
    assert found("ESP205", source.replace("WIDTH", "32")) == []


def test_an_input_that_is_written_out_shows_what_does_not_fit_inside(found):
    source = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(6, 64, 5, stride=2)
            self.hidden = nn.Linear(64 * WIDTH, 8)

        def forward(self, x):
            return self.hidden(torch.flatten(self.conv(x), 1))


    def main(loader):
        model = Net()
        print(model(torch.randn(2, 6, 168)).shape)
        for x in loader:
            model(x)
    """
    wrong = ["return self.hidden(torch.flatten(self.conv(x), 1))"]
    assert found("ESP205", source.replace("WIDTH", "84")) == wrong
    assert found("ESP205", source.replace("WIDTH", "82")) == []


def test_a_tensor_that_a_function_hands_back_is_copied(found):
    source = """
    import torch


    def padded(ids, n):
        out = torch.zeros(n, dtype=torch.long)
        out[: len(ids)] = torch.as_tensor(ids)
        return out


    def listed(ids):
        return [int(each) for each in ids]


    def item(ids):
        return torch.tensor(padded(ids, 5)), torch.tensor(listed(ids))
    """
    assert found("ESP206", source) == ["return torch.tensor(padded(ids, 5)), torch.tensor(listed(ids))"]


CONFIGURED = """
import torch
from dataclasses import dataclass
from torch import nn


@dataclass
class Config:
    classes: int
    dim: int = 256
    hidden: int = 512


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out_dim = width * 2
        self.net = nn.Linear(3, self.out_dim)

    def forward(self, x):
        return self.net(x)


class Net(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.encoder = Encoder(32)
        self.up = nn.Linear({encoded}, cfg.hidden)
        self.down = nn.Linear({hidden}, cfg.classes)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.encoder(x))))


net = Net(Config({given}))
"""


@pytest.mark.parametrize(
    ("encoded", "hidden", "given", "count"),
    [
        ("self.encoder.out_dim", "cfg.hidden", "10", 0),
        ("self.encoder.out_dim", "cfg.dim", "10", 1),
        ("self.encoder.out_dim", "cfg.dim", "10, 8, hidden=8", 0),
        ("self.encoder.out_dim", "cfg.dim", "10, hidden=8", 1),
        ("cfg.dim", "cfg.hidden", "10", 1),
        ("cfg.dim", "cfg.hidden", "10, 64", 0),
        ("cfg.dim", "cfg.hidden", "**options", 0),
    ],
)
def test_sizes_come_from_the_settings_that_an_object_was_made_with(found, encoded, hidden, given, count):
    assert len(found("ESP205", CONFIGURED.format(encoded=encoded, hidden=hidden, given=given))) == count


def test_settings_that_are_changed_later_are_not_taken_for_known(found):
    source = CONFIGURED.format(encoded="self.encoder.out_dim", hidden="cfg.dim", given="10")
    assert found("ESP205", source.replace("\nnet = ", "\nsettings.dim = 512\nnet = ")) == []
