"""Cases of ESP257, ESP214, ESP110 and ESP104 with code that is not in sight."""

from __future__ import annotations

import pytest

RESUME = """
    import torch

    def save(path, model, opt, sched, epoch):
        torch.save({{"model": model.state_dict(), {saved}"epoch": epoch}}, path)

    def resume(path, model, opt, sched):
        ck = torch.load(path, weights_only=True)
        model.load_state_dict(ck["model"])
        {loads}
        {read}
    """
OPTIMIZER = '"opt": opt.state_dict(), '
READ = 'return ck["epoch"] + 1'


@pytest.mark.parametrize(
    ("saved", "loads", "read"),
    [
        (OPTIMIZER, "pass", READ),
        (OPTIMIZER, "pass", 'start_epoch = ck.get("epoch", 0)'),
        (OPTIMIZER + '"sched": sched.state_dict(), ', 'opt.load_state_dict(ck["opt"])', READ),
        ('"scaler": scaler.state_dict(), ', "pass", READ),
    ],
)
def test_a_saved_state_that_resuming_leaves_out_is_reported(found, saved, loads, read):
    assert found("ESP257", RESUME.format(saved=saved, loads=loads, read=read)) == [read]


@pytest.mark.parametrize(
    ("saved", "loads", "read"),
    [
        (OPTIMIZER, 'opt.load_state_dict(ck["opt"])', READ),
        (OPTIMIZER, "pass", "return model"),
        (OPTIMIZER, "pass", 'print(ck["epoch"])'),
        ("", "pass", READ),
        (OPTIMIZER, 'if "opt" in ck: opt.load_state_dict(ck.get("opt"))', READ),
        (OPTIMIZER, "pass", 'return ck["epoch"] + ck["other"]'),
    ],
)
def test_a_checkpoint_that_is_restored_or_only_evaluated_is_not_reported(found, saved, loads, read):
    assert found("ESP257", RESUME.format(saved=saved, loads=loads, read=read)) == []


def test_a_state_that_another_file_saves_is_followed(found):
    files = {
        "save.py": "import torch\n\n\ndef save(p, model, opt, e):\n"
        '    torch.save({"net": model.state_dict(), "optim": opt.state_dict(), "step": e}, p)\n',
        "main.py": "import torch\nfrom save import save\n\n\ndef main(p, model, opt):\n    state = torch.load(p)\n"
        '    model.load_state_dict(state["net"])\n    step = state["step"]\n    save(p, model, opt, step)\n',
    }
    assert found("ESP257", files) == ['step = state["step"]']


BEST = """
    import copy

    def fit(model, loader, val, opt, epochs):
        best, best_state = float("inf"), None
        for epoch in range(epochs):
            {train}
            score = evaluate(model, val)
            if score < best:
                best = score
                best_state = {kept}
        model.load_state_dict(best_state)
    """


@pytest.mark.parametrize(
    "train", ["train_one(model, loader, opt)", "step(loader, model=model, optimizer=opt)", "engine.train_epoch(model)"]
)
def test_best_weights_by_reference_are_reported_if_a_call_trains(found, train):
    assert found("ESP214", BEST.format(train=train, kept="model.state_dict()")) == ["best_state = model.state_dict()"]
    assert found("ESP214", BEST.format(train=train, kept="copy.deepcopy(model.state_dict())")) == []


def test_a_shallow_copy_of_the_weights_of_the_object_is_reported(found):
    source = """
        class Trainer:
            def fit(self, epochs):
                best = 0
                for e in range(epochs):
                    self.train_epoch(e)
                    acc = self.validate()
                    if acc > best:
                        best = acc
                        self.best = {kept}
                self.model.load_state_dict(self.best)
        """
    shallow = "{k: v for k, v in self.model.state_dict().items()}"
    assert len(found("ESP214", source.format(kept="self.model.state_dict()"))) == 1
    assert len(found("ESP214", source.format(kept=shallow))) == 1
    assert found("ESP214", source.format(kept=shallow.replace(": v for", ": v.clone() for"))) == []


@pytest.mark.parametrize("train", ["model = build(epoch)", "show(model)", "train_one(other, loader, opt)"])
def test_weights_that_nothing_seems_to_train_are_not_reported(found, train):
    assert found("ESP214", BEST.format(train=train, kept="model.state_dict()")) == []


CARRIED = """
    import torch

    def train(model, loader, opt, crit):
        hidden = None
        for x, y in loader:
            opt.zero_grad()
            {forward}
            loss = crit(out, y)
            {sent}
            opt.step()
    """
FORWARD = "out, hidden = model(x, hidden)"


@pytest.mark.parametrize(
    "forward",
    [
        FORWARD,
        "out, hidden = model(x, state=hidden)",
        "out, hidden, _ = model(x.float(), hidden)",
        "out, hidden = model.forward(x, hidden)",
    ],
)
def test_a_state_of_a_model_that_is_handed_over_is_reported(found, forward):
    assert found("ESP110", CARRIED.format(forward=forward, sent="loss.backward()")) == ["loss.backward()"]


@pytest.mark.parametrize(
    ("forward", "sent"),
    [
        (FORWARD + "\n            hidden = hidden.detach()", "loss.backward()"),
        (FORWARD + "\n            hidden = tuple(h.detach() for h in hidden)", "loss.backward()"),
        ("hidden = None\n            " + FORWARD, "loss.backward()"),
        ("out, _ = model(x, hidden)", "loss.backward()"),
        (FORWARD, "loss.backward(retain_graph=True)"),
        ("out, hidden = env(x, hidden)", "loss.backward()"),
        ("with torch.no_grad(): t, hidden = model(x, hidden)\n            out = model(x, None)", "loss.backward()"),
    ],
)
def test_a_state_that_is_cut_or_not_carried_is_not_reported(found, forward, sent):
    assert found("ESP110", CARRIED.format(forward=forward, sent=sent)) == []


ADVERSARIAL = """
    import torch

    def train(G, D, loader, opt_g, opt_d, bce, ones, zeros):
        for real in loader:
            z = torch.randn(real.size(0), 64)
            fake = {made}
            d_loss = bce(D(real), ones) + bce(D({given}), zeros)
            opt_d.zero_grad()
            d_loss.backward({options})
            opt_d.step()
            {again}
            g_loss = bce(D(fake), ones)
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()
    """


def adversarial(made="G(z)", given="fake", options="", again="pass"):
    return ADVERSARIAL.format(made=made, given=given, options=options, again=again)


def test_a_generated_batch_that_both_losses_go_through_is_reported(found):
    line = "d_loss = bce(D(real), ones) + bce(D(fake), zeros)"
    assert found("ESP110", adversarial()) == [line]
    assert found("ESP110", adversarial(made="generator(z)")) == [line]
    assert found("ESP110", adversarial(made="self.gen(z)").replace("train(G", "train(self, G")) == [line]
    two = adversarial().replace(
        "d_loss = bce(D(real), ones) + bce(D(fake), zeros)", "out = D(fake)\n            d_loss = bce(out, zeros)"
    )
    assert found("ESP110", two) == ["d_loss = bce(out, zeros)"]


@pytest.mark.parametrize(
    "cases",
    [
        {"given": "fake.detach()"},
        {"options": "retain_graph=True"},
        {"again": "fake = G(z)"},
        {"made": "real + z"},
    ],
)
def test_a_generated_batch_that_is_cut_or_made_again_is_not_reported(found, cases):
    assert found("ESP110", adversarial(**cases)) == []


BUFFER = """
    import torch
    from torch import nn

    class Positions(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.layer = nn.Linear(d, d)
            table = torch.zeros(64, d)
            {keep}

        def forward(self, x):
            return self.layer(x) + {use}

    model = Positions(8).cuda()
    """


@pytest.mark.parametrize("use", ["self.table[: x.size(1)]", "self.table", "self.table.unsqueeze(0)"])
def test_a_tensor_that_is_no_buffer_is_reported_where_it_is_kept(found, use):
    assert found("ESP104", BUFFER.format(keep="self.table = table", use=use)) == ["self.table = table"]
    assert found("ESP104", BUFFER.format(keep='self.register_buffer("table", table)', use=use)) == []
    assert found("ESP104", BUFFER.format(keep="self.table = table", use=f"{use}.to(x.device)")) == []
