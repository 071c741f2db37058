"""Cases of ESP218 that the model follows: layers and models that are made after their optimizer, in other functions."""

from __future__ import annotations

import pytest

HEAD = """
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet18


class Net(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, n)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def new_head(model, n):
    model.head = nn.Linear(8, n)


"""

LATE = {
    "a method of a trainer": (
        """
class Trainer:
    def __init__(self):
        self.model = Net()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def adapt(self, n):
        self.model.head = nn.Linear(8, n)

    def fit(self, loader):
        self.adapt(3)
        train(self.model, loader, self.optimizer)
""",
        "self.model.head = nn.Linear(8, n)",
    ),
    "a helper": (
        """
def main(loader):
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    new_head(model, 3)
    train(model, loader, optimizer)
""",
        "model.head = nn.Linear(8, n)",
    ),
    "a sequence": (
        """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    head = nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 3))
    model.head = head
    train(model, loader, optimizer)
""",
        "model.head = head",
    ),
    "a new model for each fold": (
        """
def main(folds):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for loader in folds:
        model = Net()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
""",
        "F.cross_entropy(model(x), y).backward()",
    ),
    "a model that is made again": (
        """
def main(loader):
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = resnet18(weights="DEFAULT")
    train(model, loader, optimizer)
""",
        "F.cross_entropy(model(x), y).backward()",
    ),
    "a wider output between two trainings": (
        """
def main(first, second):
    model = Net(2)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, first, optimizer)
    new_head(model, 4)
    train(model, second, optimizer)
""",
        "model.head = nn.Linear(8, n)",
    ),
}

EARLY = {
    "before the optimizer": """
def main(loader):
    model = Net()
    new_head(model, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer)
""",
    "a new optimizer after it": """
def main(first, second):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, first, optimizer)
    new_head(model, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, second, optimizer)
""",
    "an optimizer of its own": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = Net()
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    train(model, loader, optimizer)
    train(other, loader, other_optimizer)
""",
    "added to the optimizer": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    new_head(model, 3)
    optimizer.add_param_group({"params": model.head.parameters()})
    train(model, loader, optimizer)
""",
    "an optimizer for each fold": """
def main(folds):
    for loader in folds:
        model = Net()
        optimizer = torch.optim.Adam(model.parameters())
        train(model, loader, optimizer)
""",
    "a head that is not trained": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer)
    new_head(model, 3)
    with torch.no_grad():
        for x, _ in loader:
            print(model(x))
""",
    "a layer without weights": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.drop = nn.Dropout(0.1)
    train(model, loader, optimizer)
""",
    "a wrapper": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = nn.parallel.DistributedDataParallel(model)
    train(model, loader, optimizer)
""",
    "a teacher": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    teacher = Net()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = teacher(x)
        F.mse_loss(model(x), wanted).backward()
        optimizer.step()
""",
    "the best model, made again to be tested": """
def main(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer)
    model = Net()
    model.load_state_dict(torch.load("best.pt"))
    model.eval()
    for x, _ in loader:
        print(model(x).detach())
""",
}


@pytest.mark.parametrize(("body", "line"), LATE.values(), ids=LATE)
def test_what_is_made_after_its_optimizer_is_found(found, body, line):
    assert found("ESP218", HEAD + body) == [line]


@pytest.mark.parametrize("body", EARLY.values(), ids=EARLY)
def test_what_an_optimizer_has_or_does_not_train_is_left_alone(found, body):
    assert found("ESP218", HEAD + body) == []


@pytest.mark.parametrize(
    "given",
    [
        "filter(lambda p: p.requires_grad, model.parameters())",
        "[{'params': model.parameters(), 'lr': 1e-4}]",
        "list(model.parameters())",
    ],
)
def test_parameters_in_lists_and_groups_are_followed_to_their_model(found, given):
    source = f"""
    import torch
    from torch import nn

    class Trainer:
        def __init__(self, model, classes):
            self.model = model
            self.opt = torch.optim.AdamW({given})
            self.put_head(classes)

        def put_head(self, classes):
            self.model.fc = nn.Linear(512, classes)

        def step(self, x, y):
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.opt.step()

    def build(model):
        opt = torch.optim.AdamW({given})
        model.fc = nn.Linear(512, 10)
        return model, opt
    """
    assert found("ESP218", source) == ["self.model.fc = nn.Linear(512, classes)", "model.fc = nn.Linear(512, 10)"]


def test_parameters_chosen_in_the_same_function_are_followed(found):
    source = """
    import torch
    from torch import nn

    def build(model):
        params = [p for p in model.parameters() if p.requires_grad]
        opt = torch.optim.AdamW(params)
        model.fc = nn.Linear(512, 10)
        return model, opt
    """
    assert found("ESP218", source) == ["model.fc = nn.Linear(512, 10)"]


def test_parameters_of_several_models_are_left_alone(found):
    source = """
    import torch
    from torch import nn

    def build(model, other):
        opt = torch.optim.AdamW([*model.parameters(), *other.parameters()])
        model.fc = nn.Linear(512, 10)
        return model, opt
    """
    assert found("ESP218", source) == []


TRAINER = """
class Finetuner:
    def __init__(self, n):
        self.model = resnet18()
        {first}
        {second}

    def _optimizer(self):
        {made}

    def _adapt(self, n):
        self.model.fc = nn.Linear(512, n)

    def step(self, x, y):
        self.opt.zero_grad()
        F.cross_entropy(self.model(x), y).backward()
        self.opt.step()
"""
OPTIMIZERS = {
    "all parameters": "return torch.optim.SGD(self.model.parameters(), lr=0.1)",
    "sorted into two lists": """head, body = [], []
        for name, p in self.model.named_parameters():
            (head if name.startswith("fc.") else body).append(p)
        return torch.optim.SGD([{"params": body}, {"params": head, "lr": 1.0}], lr=0.1)""",
    "sorted by a test": """decay, rest = [], []
        for name, p in self.model.named_parameters():
            if p.ndim > 1:
                decay.append(p)
            else:
                rest.append(p)
        return torch.optim.AdamW([{"params": decay}, {"params": rest, "weight_decay": 0.0}])""",
    "a group of all": "return torch.optim.AdamW([{'params': self.model.parameters()}])",
}
MAKE, ADAPT = "self.opt = self._optimizer()", "self._adapt(n)"


@pytest.mark.parametrize("made", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_layer_of_a_method_called_after_that_of_the_optimizer_is_found(found, made):
    source = HEAD + TRAINER.replace("{made}", made)
    late = source.replace("{first}", MAKE).replace("{second}", ADAPT)
    assert found("ESP218", late) == ["self.model.fc = nn.Linear(512, n)"]
    assert found("ESP218", source.replace("{first}", ADAPT).replace("{second}", MAKE)) == []


@pytest.mark.parametrize(
    "second",
    [
        f"{ADAPT}; {MAKE}",
        "self._adapt(n); self.opt.add_param_group({'params': self.model.fc.parameters()})",
        "self.model = resnet18(); self._adapt(n); self.opt = torch.optim.SGD(self.model.parameters())",
    ],
)
def test_an_optimizer_that_gets_the_layer_afterwards_is_left_alone(found, second):
    source = HEAD + TRAINER.replace("{made}", OPTIMIZERS["all parameters"]).replace("{first}", MAKE)
    assert found("ESP218", source.replace("{second}", second)) == []
