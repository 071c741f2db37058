"""Cases of ESP248, ESP249, ESP251 and ESP258: frozen, forgotten and averaged parts of models."""

from __future__ import annotations

import pytest

HEAD = """
    import torch
    import torchvision
    from torch import nn

    def build(path):
        model = torchvision.models.resnet18(weights="DEFAULT")
        {before}
        {freeze}
        {after}
        return model
    """
LOOP = "for p in model.parameters():\n            p.requires_grad = False"


@pytest.mark.parametrize(
    ("before", "freeze"),
    [
        ("model.fc = nn.Linear(512, 10)", LOOP),
        ("model.fc = nn.Sequential(nn.Dropout(), nn.Linear(512, 10))", "model.requires_grad_(False)"),
        (
            "model.fc = nn.Linear(512, 10)",
            "for name, p in model.named_parameters():\n            p.requires_grad_(False)",
        ),
        ("model.classifier[6] = nn.Linear(4096, 10)", LOOP),
        ("model.fc = nn.Linear(512, 10)", LOOP.replace("model.parameters()", "list(model.parameters())")),
    ],
)
def test_a_new_layer_that_is_frozen_is_reported(found, before, freeze):
    assert len(found("ESP248", HEAD.format(before=before, freeze=freeze, after="pass"))) == 1


def test_a_new_layer_of_a_part_of_the_object_that_is_frozen_is_reported(found):
    source = """
        import torchvision
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = torchvision.models.resnet18()
                self.body.fc = nn.Linear(512, 10)
                self.body.requires_grad_(False)
        """
    assert found("ESP248", source) == ["self.body.requires_grad_(False)"]


@pytest.mark.parametrize(
    ("before", "freeze", "after"),
    [
        ("pass", LOOP, "model.fc = nn.Linear(512, 10)"),
        ("model.fc = nn.Linear(512, 10)", LOOP, "model.fc.requires_grad_(True)"),
        ("model.fc = nn.Linear(512, 10)", LOOP, "for p in model.fc.parameters():\n            p.requires_grad = True"),
        ("model.fc = nn.Identity()", LOOP, "pass"),
        ("model.fc = nn.Linear(512, 10)", LOOP, "model.load_state_dict(torch.load(path, weights_only=True))"),
        ("model.fc = nn.Linear(512, 10)", LOOP.replace("model.param", "model.layer1.param"), "pass"),
        (
            "model.fc = nn.Linear(512, 10)",
            "for name, p in model.named_parameters():\n            if 'fc' not in name: p.requires_grad = False",
            "pass",
        ),
    ],
)
def test_a_new_layer_that_stays_trainable_or_is_loaded_is_not_reported(found, before, freeze, after):
    assert found("ESP248", HEAD.format(before=before, freeze=freeze, after=after)) == []


NORMS = """
    import timm
    import torch
    import torchvision
    from torch import nn

    class Body(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

        def forward(self, x):
            return self.layers(x)

    def fit(loader):
        model = {made}
        {freeze}
        model.fc = nn.Linear(512, 10)
        optimizer = torch.optim.Adam(model.fc.parameters())
        for epoch in range(3):
            {switch}
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    """


@pytest.mark.parametrize(
    ("made", "freeze", "switch"),
    [
        ("torchvision.models.resnet18()", LOOP, "model.train()"),
        ("torchvision.models.densenet121()", "model.requires_grad_(False)", "model.train()"),
        ('timm.create_model("resnet50", pretrained=True)', LOOP, "model.train(True)"),
        ("Body()", LOOP, "model.train()"),
    ],
)
def test_a_frozen_network_with_batch_norm_that_is_switched_to_training_is_reported(found, made, freeze, switch):
    assert found("ESP249", NORMS.format(made=made, freeze=freeze, switch=switch)) == [switch]


@pytest.mark.parametrize(
    ("made", "freeze", "switch"),
    [
        ("torchvision.models.vit_b_16()", LOOP, "model.train()"),
        ("torchvision.models.resnet18()", "pass", "model.train()"),
        ("torchvision.models.resnet18()", LOOP, "model.eval()"),
        ("torchvision.models.resnet18()", LOOP, "model.train()\n            model.eval()"),
        ("torchvision.models.resnet18()", LOOP, "model.train()\n            freeze_norms(model)"),
        ("torchvision.models.resnet18()", LOOP + "\n        model.layer4.requires_grad_(True)", "model.train()"),
    ],
)
def test_networks_without_norms_or_in_evaluation_are_not_reported(found, made, freeze, switch):
    assert found("ESP249", NORMS.format(made=made, freeze=freeze, switch=switch)) == []


def test_a_frozen_part_of_a_sequence_is_reported(found):
    source = """
        import torch, torchvision
        from torch import nn

        body = torchvision.models.resnet50()
        body.requires_grad_(False)
        head = nn.Linear(1000, 5)
        model = nn.Sequential(body, head)
        model.train()
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
        """
    assert found("ESP249", source) == ["model.train()"]
    assert found("ESP249", source.replace("model.train()", "model.train()\n        body.eval()")) == []


PROBE = {
    "net.py": """
        import torchvision
        from torch import nn

        class Probe(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = torchvision.models.resnet18()
                for p in self.body.parameters():
                    p.requires_grad = False
                self.head = nn.Linear(1000, 10)

            def forward(self, x):
                return self.head(self.body(x))
        """,
    "train.py": """
        import torch
        from net import Probe

        def fit(loader, criterion):
            model = Probe()
            optimizer = torch.optim.Adam(model.head.parameters())
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
        """,
}


def test_a_frozen_part_of_a_module_in_another_file_is_reported(found):
    assert found("ESP249", PROBE) == ["model.train()"]
    keeping = PROBE["net.py"].replace(
        "def forward", "def train(self, mode=True):\n                return self\n\n            def forward"
    )
    assert found("ESP249", {**PROBE, "net.py": keeping}) == []
    set_back = PROBE["train.py"].replace("model.train()", "model.train()\n            model.body.eval()")
    assert found("ESP249", {**PROBE, "train.py": set_back}) == []


PARTS = """
    import torch
    from torch import nn

    def main(loader, criterion, path):
        body = nn.Linear(8, 8)
        head = {head}
        {between}
        opt = torch.optim.Adam({given}, 1e-3)
        for x, y in loader:
            opt.zero_grad()
            {forward}
            loss = criterion(out, y)
            loss.backward()
            opt.step()
    """
FORWARD = "out = head(body(x))"


def parts(head="nn.Linear(8, 2)", between="pass", given="body.parameters()", forward=FORWARD):
    return PARTS.format(head=head, between=between, given=given, forward=forward)


@pytest.mark.parametrize(
    "cases",
    [
        {},
        {"given": "list(body.parameters())"},
        {"head": "nn.Sequential(nn.ReLU(), nn.Linear(8, 2)).to('cuda')"},
        {"forward": "z = body(x)\n            out = head(z)"},
        {"given": "[{'params': body.parameters(), 'lr': 0.1}]"},
    ],
)
def test_a_module_of_the_loss_that_no_optimizer_has_is_reported(found, cases):
    assert len(found("ESP251", parts(**cases))) == 1


@pytest.mark.parametrize(
    "cases",
    [
        {"given": "[*body.parameters(), *head.parameters()]"},
        {"given": "list(body.parameters()) + list(head.parameters())"},
        {"between": "head.requires_grad_(False)"},
        {"between": "head.load_state_dict(torch.load(path, weights_only=True))"},
        {"between": "model = nn.Sequential(body, head)", "given": "model.parameters()", "forward": "out = model(x)"},
        {"head": "nn.ReLU()"},
        {"forward": "out = body(x)"},
        {"between": "opt = make_optimizer(head)"},
        {"given": "params"},
        {"forward": "with torch.no_grad(): t = head(x)\n            out = body(x)"},
    ],
)
def test_modules_that_are_optimized_or_fixed_are_not_reported(found, cases):
    assert found("ESP251", parts(**cases)) == []


TRAINER = """
    import torch
    from torch import nn

    class Trainer:
        def __init__(self):
            self.enc = nn.Linear(8, 8)
            self.dec = nn.Linear(8, 8)
            {more}
            self.opt = torch.optim.Adam({given})

        def fit(self, loader):
            for x in loader:
                self.opt.zero_grad()
                loss = ((self.dec(self.enc(x)) - x) ** 2).mean()
                loss.backward()
                self.opt.step()
    """


def test_a_module_of_the_object_that_no_optimizer_has_is_reported(found):
    assert len(found("ESP251", TRAINER.format(given="self.enc.parameters()", more="pass"))) == 1


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ("[*self.enc.parameters(), *self.dec.parameters()]", "pass"),
        ("self.enc.parameters()", "self.other = torch.optim.SGD(self.dec.parameters(), 0.1)"),
        ("self.enc.parameters()", "self.dec.requires_grad_(False)"),
        ("self.enc.parameters()", "self.both = nn.ModuleList([self.enc, self.dec])"),
        ("params(self)", "pass"),
    ],
)
def test_modules_of_the_object_that_are_optimized_are_not_reported(found, given, more):
    assert found("ESP251", TRAINER.format(given=given, more=more)) == []


AVERAGE = """
    import torchvision
    from torch import nn
    from torch.optim.swa_utils import AveragedModel, update_bn

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))

    def fit(loader, evaluate):
        model = {made}
        swa = AveragedModel(model{options})
        for epoch in range(10):
            step(model, loader)
            swa.update_parameters(model)
        {end}
        return evaluate(swa)
    """


@pytest.mark.parametrize(
    "made", ["torchvision.models.resnet18()", "make()", "make().to('cuda')", "nn.Sequential(nn.BatchNorm1d(4))"]
)
def test_an_averaged_model_with_old_statistics_is_reported(found, made):
    source = AVERAGE.format(made=made, options="", end="pass").replace(", update_bn", "")
    assert found("ESP258", source) == ["return evaluate(swa)"]


@pytest.mark.parametrize(
    ("made", "options", "end"),
    [
        ("make()", "", "update_bn(loader, swa)"),
        ("make()", ", use_buffers=True", "pass"),
        ("torchvision.models.vit_b_16()", "", "pass"),
        ("nn.Linear(4, 4)", "", "pass"),
        ("unknown()", "", "pass"),
    ],
)
def test_an_averaged_model_with_new_or_without_statistics_is_not_reported(found, made, options, end):
    source = AVERAGE.format(made=made, options=options, end=end)
    source = source if "update_bn(" in source else source.replace(", update_bn", "")
    assert found("ESP258", source) == []
