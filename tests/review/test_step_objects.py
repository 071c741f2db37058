"""ESP101 on loops whose names say nothing: schedulers, helpers that clear, and classes with a `step` of their own."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from esper_agents.domain.finding import Severity
from tests.review.conftest import reviewed

IMPORTS = """
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, SequentialLR, StepLR
"""

CORRECT = {
    "a scheduler whose name looks like an optimizer": """
        adam = torch.optim.Adam(net.parameters())
        adam_ramp = StepLR(adam, 3)
        for epoch in range(3):
            for x, y in loader:
                adam.zero_grad()
                criterion(net(x), y).backward()
                adam.step()
            adam_ramp.step()
        """,
    "a scheduler with a name of its own": """
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        tide = torch.optim.lr_scheduler.CosineAnnealingLR(rider, 10)
        for epoch in range(3):
            for x, y in loader:
                rider.zero_grad(set_to_none=True)
                criterion(net(x), y).backward()
                rider.step()
            tide.step()
        """,
    "schedulers chained and in sequence": """
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        tide = SequentialLR(rider, [StepLR(rider, 1), CosineAnnealingLR(rider, 9)], milestones=[3])
        both = lr_scheduler.ChainedScheduler([StepLR(rider, 1), lr_scheduler.ExponentialLR(rider, 0.9)])
        for epoch in range(3):
            for x, y in loader:
                rider.zero_grad()
                criterion(net(x), y).backward()
                rider.step()
            tide.step()
            both.step()
        """,
    "a plateau that is told the loss, chosen by a test": """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        opt_valley = lr_scheduler.ReduceLROnPlateau(opt) if patient else StepLR(opt, 2)
        for epoch in range(3):
            for x, y in loader:
                opt.zero_grad()
                criterion(net(x), y).backward()
                opt.step()
            opt_valley.step(validate(net))
        """,
    "a subclass of LRScheduler": """
        class Sawtooth(LRScheduler):
            def get_lr(self):
                return [base * 0.5 for base in self.base_lrs]

        class Sharper(Sawtooth):
            pass

        def fit(net, loader):
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            opt_teeth = Sharper(opt)
            for epoch in range(3):
                for x, y in loader:
                    opt.zero_grad()
                    criterion(net(x), y).backward()
                    opt.step()
                opt_teeth.step()
        """,
    "a scheduler by the annotation of a parameter": """
        def fit(net, loader, opt: torch.optim.Optimizer, opt_slope: "LRScheduler | None" = None):
            for epoch in range(3):
                for x, y in loader:
                    opt.zero_grad()
                    criterion(net(x), y).backward()
                    opt.step()
                opt_slope.step()
        """,
    "a scheduler that an object holds": """
        class Gardener:
            def __init__(self, net):
                self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
                self.opt_season = LambdaLR(self.opt, lambda epoch: 0.9**epoch)
                self.net = net

            def grow(self, loader):
                for epoch in range(3):
                    for x, y in loader:
                        self.opt.zero_grad()
                        criterion(self.net(x), y).backward()
                        self.opt.step()
                    self.opt_season.step()
        """,
    "an annotated scheduler that an object was given": """
        class Gardener:
            def __init__(self, net, opt, opt_season: LRScheduler):
                self.net, self.opt = net, opt
                self.opt_season = opt_season

            def grow(self, loader):
                for epoch in range(3):
                    for x, y in loader:
                        self.opt.zero_grad()
                        criterion(self.net(x), y).backward()
                        self.opt.step()
                    self.opt_season.step()
        """,
    "schedulers in a list": """
        opts = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
        opt_curves = [StepLR(opt, 2) for opt in opts]
        for epoch in range(3):
            for x, y in loader:
                for opt in opts:
                    opt.zero_grad()
                criterion(nets(x), y).backward()
                for opt in opts:
                    opt.step()
            for opt_curve in opt_curves:
                opt_curve.step()
        """,
    "an optimizer and its scheduler from one function": """
        def tools(net):
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            return opt, StepLR(opt, 3)

        def fit(net, loader):
            opt, opt_pace = tools(net)
            for epoch in range(3):
                for x, y in loader:
                    opt.zero_grad()
                    criterion(net(x), y).backward()
                    opt.step()
                opt_pace.step()
        """,
    "an optimizer under two names": """
        class Gardener:
            def __init__(self, net):
                self.net, self.opt = net, torch.optim.SGD(net.parameters(), lr=0.1)

            def grow(self, loader, careful):
                opt = self.opt
                for x, y in loader:
                    opt.zero_grad()
                    criterion(self.net(x), y).backward()
                    if careful:
                        self.opt.step()
                    else:
                        opt.step()
        """,
    "a helper sets the gradients of parameters to None": """
        def forget(weights):
            for w in weights:
                w.grad = None

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            forget(net.parameters())
            criterion(net(x), y).backward()
            opt.step()
        """,
    "a helper zeroes the gradients of parameters": """
        def forget(weights):
            for w in weights:
                if w.grad is not None:
                    w.grad.zero_()

        def fit(net, loader):
            everything = list(net.parameters())
            opt = torch.optim.SGD(everything, lr=0.1)
            for x, y in loader:
                forget(everything)
                criterion(net(x), y).backward()
                opt.step()
        """,
    "a helper zeroes gradients all at once": """
        def forget(weights):
            torch._foreach_zero_([w.grad for w in weights if w.grad is not None])

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            criterion(net(x), y).backward()
            opt.step()
            forget(net.parameters())
        """,
    "a helper takes the gradients by a name": """
        def forget(weights):
            grads = [w.grad for w in weights]
            for g in grads:
                g.detach_()
                g.zero_()

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            criterion(net(x), y).backward()
            opt.step()
            forget(net.parameters())
        """,
    "a helper of a helper goes through the groups": """
        def wipe(group):
            for w in group["params"]:
                w.grad = None

        def forget(opt):
            for group in opt.param_groups:
                wipe(group)

        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            forget(opt)
            criterion(net(x), y).backward()
            opt.step()
        """,
    "an object whose own step clears": """
        class Push:
            def __init__(self, opt):
                self.opt = opt

            def step(self):
                self.opt.step()
                self.opt.zero_grad()

        optimizer = Push(torch.optim.SGD(net.parameters(), lr=0.1))
        for x, y in loader:
            criterion(net(x), y).backward()
            optimizer.step()
        """,
    "an annotated object whose own step clears": """
        class Push:
            def step(self):
                self.opt.step()
                self.opt.zero_grad()

        def fit(net, loader, optimizer: Push):
            for x, y in loader:
                criterion(net(x), y).backward()
                optimizer.step()
        """,
}

FAULTY = {
    "a scheduler with a name of its own": """
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        tide = CosineAnnealingLR(rider, 10)
        for epoch in range(3):
            for x, y in loader:
                criterion(net(x), y).backward()
                rider.step()
            tide.step()
        """,
    "a scheduler whose name looks like an optimizer": """
        adam = torch.optim.Adam(net.parameters())
        adam_ramp = StepLR(adam, 3)
        for epoch in range(3):
            adam.zero_grad()
            for x, y in loader:
                criterion(net(x), y).backward()
                adam.step()
            adam_ramp.step()
        """,
    "a class elsewhere in the file has a step that clears": """
        class Unrelated:
            def step(self):
                self.opt.zero_grad()

        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            criterion(net(x), y).backward()
            rider.step()
        """,
    "an object of a class whose step does not clear": """
        class Push:
            def __init__(self, opt):
                self.opt = opt

            def step(self):
                self.opt.step()

        class Other:
            def step(self):
                self.opt.step()
                self.opt.zero_grad()

        optimizer = Push(torch.optim.SGD(net.parameters(), lr=0.1))
        for x, y in loader:
            criterion(net(x), y).backward()
            optimizer.step()
        """,
    "a helper forgets the gradients of another network": """
        def forget(weights):
            for w in weights:
                w.grad = None

        net, critic = nn.Linear(2, 2), nn.Linear(2, 1)
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            forget(critic.parameters())
            criterion(critic(net(x)), y).backward()
            rider.step()
        """,
    "only the gradient of the batch is forgotten": """
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            x.requires_grad_()
            criterion(net(x), y).backward()
            trace.append(x.grad.clone())
            x.grad = None
            rider.step()
        """,
    "a helper forgets only the gradient of the batch": """
        def forget(pixels):
            pixels.grad = None

        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            criterion(net(x), y).backward()
            forget(x)
            rider.step()
        """,
    "the second of two optimizers is never cleared": """
        net, critic = nn.Linear(2, 2), nn.Linear(2, 1)
        first = torch.optim.SGD(net.parameters(), lr=0.1)
        second = torch.optim.Adam(critic.parameters())
        for x, y in loader:
            first.zero_grad()
            criterion(critic(net(x)), y).backward()
            first.step()
            second.step()
        """,
    "a helper reads gradients only": """
        def norm(weights):
            return sum(w.grad.norm() for w in weights)

        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            criterion(net(x), y).backward()
            log(norm(net.parameters()))
            rider.step()
        """,
    "a helper clears what is no gradient": """
        def reset(meters):
            for meter in meters:
                meter.total.zero_()

        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            reset(meters)
            criterion(net(x), y).backward()
            rider.step()
        """,
    "a loop that makes its scheduler in every round": """
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            optim = rider
            tide = lr_scheduler.LambdaLR(optim, shape)
            criterion(net(x), y).backward()
            rider.step()
            tide.step()
        """,
    "an optimizer that an object holds": """
        class Gardener:
            def __init__(self, net):
                self.net = net
                self.spade = torch.optim.SGD(net.parameters(), lr=0.1)
                self.season = StepLR(self.spade, 3)

            def grow(self, loader):
                for x, y in loader:
                    criterion(self.net(x), y).backward()
                    self.spade.step()
                self.season.step()
        """,
    "a subclass of Optimizer": """
        class Walk(torch.optim.Optimizer):
            def step(self):
                for group in self.param_groups:
                    for w in group["params"]:
                        w.data -= 0.1 * w.grad

        def fit(net, loader):
            legs = Walk(net.parameters(), {})
            for x, y in loader:
                criterion(net(x), y).backward()
                legs.step()
        """,
    "an optimizer by the annotation of a parameter": """
        def fit(net, loader, legs: torch.optim.Optimizer):
            for x, y in loader:
                criterion(net(x), y).backward()
                legs.step()
        """,
}


def severities(source, **others):
    claims = reviewed({"train.py": IMPORTS + dedent(source), **others}, "ESP101").claims
    return [claim.severity for claim in claims]


@pytest.mark.parametrize("source", CORRECT.values(), ids=CORRECT)
def test_a_correct_loop_is_left_alone_whatever_its_names(source):
    assert severities(source) == []


@pytest.mark.parametrize("source", FAULTY.values(), ids=FAULTY)
def test_a_loop_that_never_clears_is_critical_whatever_its_names(source):
    assert severities(source) == [Severity.CRITICAL]


PUSH = """
class Push:
    def step(self):
        self.opt.step()
        self.opt.zero_grad()
"""


def test_an_unrelated_class_with_a_step_that_clears_does_not_silence_a_loop():
    source = """
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            criterion(net(x), y).backward()
            rider.step()
        """
    assert severities(source, **{"elsewhere.py": PUSH}) == [Severity.CRITICAL]


def test_what_may_be_an_object_that_clears_makes_it_a_warning():
    source = """
        def fit(net, loader, optimizer):
            for x, y in loader:
                criterion(net(x), y).backward()
                optimizer.step()
        """
    assert severities(source) == [Severity.CRITICAL]
    assert severities(source, **{"elsewhere.py": PUSH}) == [Severity.WARNING]


def test_two_optimizers_that_may_be_one_make_it_a_warning():
    source = """
        def fit(net, loader, opt_one, opt_two):
            for x, y in loader:
                opt_one.zero_grad()
                criterion(net(x), y).backward()
                opt_one.step()
                opt_two.step()
        """
    assert severities(source) == [Severity.WARNING]


@pytest.mark.parametrize("argument", ["net.parameters()", "critic.parameters()"])
def test_a_helper_of_another_file_clears_what_it_is_given(argument):
    source = f"""
        from helpers import forget

        net, critic = nn.Linear(2, 2), nn.Linear(2, 1)
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            forget({argument})
            criterion(net(x), y).backward()
            rider.step()
        """
    helper = "def forget(weights):\n    for w in weights:\n        w.grad = None\n"
    expected = [] if argument.startswith("net") else [Severity.CRITICAL]
    assert severities(source, **{"helpers.py": helper}) == expected


@pytest.mark.parametrize("argument", ["net", "critic"])
def test_a_method_that_clears_counts_for_its_own_object(argument):
    body = f"""
        class Plain(nn.Module):
            def forget(self):
                for w in self.parameters():
                    w.grad = None

        net, critic = Plain(), Plain()
        rider = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            {argument}.forget()
            criterion(net(x), y).backward()
            rider.step()
        """
    assert severities(body) == ([] if argument == "net" else [Severity.CRITICAL])


def test_a_closure_is_not_cleared_by_an_unrelated_class():
    closure = """
        rider = torch.optim.LBFGS(net.parameters())
        for x, y in loader:
            def closure():
                loss = criterion(net(x), y)
                loss.backward()
                return loss
            rider.step(closure)
        """
    assert len(severities(closure, **{"elsewhere.py": PUSH})) == 1
    assert severities(indent(closure.replace("loss = ", "rider.zero_grad(); loss = "), "")) == []


OTHER_IMPORTS = """
import torch
from torch import nn, optim
import torch.optim.lr_scheduler as lrs
from torch.optim.swa_utils import SWALR, AveragedModel
"""

RIGHT = {
    "onecycle per batch": """
def run(model, feed):
    engine = optim.AdamW(model.parameters())
    optim_cycle = lrs.OneCycleLR(engine, max_lr=1e-3, total_steps=100)
    for xb, yb in feed:
        engine.zero_grad()
        nn.functional.mse_loss(model(xb), yb).backward()
        engine.step()
        optim_cycle.step()
""",
    "swa": """
def run(model, feed):
    opt = optim.SGD(model.parameters(), lr=.1)
    avg = AveragedModel(model)
    opt_swa = SWALR(opt, swa_lr=0.05)
    for epoch in range(9):
        for xb, yb in feed:
            opt.zero_grad()
            nn.functional.mse_loss(model(xb), yb).backward()
            opt.step()
        if epoch > 5:
            avg.update_parameters(model)
            opt_swa.step()
""",
    "dict of tools": """
def run(model, feed):
    o = optim.SGD(model.parameters(), lr=.1)
    tools = {"opt": o, "optimizer_lr": lrs.StepLR(o, 2)}
    for epoch in range(9):
        for xb, yb in feed:
            tools["opt"].zero_grad()
            nn.functional.mse_loss(model(xb), yb).backward()
            tools["opt"].step()
        tools["optimizer_lr"].step()
""",
    "dataclass holds both": """
from dataclasses import dataclass
@dataclass
class Kit:
    opt: optim.Optimizer
    opt_decay: lrs.LRScheduler
    model: nn.Module
    def work(self, feed):
        for epoch in range(3):
            for xb, yb in feed:
                self.opt.zero_grad()
                nn.functional.mse_loss(self.model(xb), yb).backward()
                self.opt.step()
            self.opt_decay.step()
""",
    "factory in other function by if": """
def pick(o, how):
    if how == "a":
        return lrs.StepLR(o, 3)
    return lrs.CosineAnnealingLR(o, 9)
def run(model, feed, how):
    sgd = optim.SGD(model.parameters(), lr=.1)
    sgd_shape = pick(sgd, how)
    for epoch in range(3):
        for xb, yb in feed:
            sgd.zero_grad()
            nn.functional.mse_loss(model(xb), yb).backward()
            sgd.step()
        sgd_shape.step()
""",
    "own scheduler not of torch": """
class Slope:
    def __init__(self, o): self.o = o
    def step(self):
        for g in self.o.param_groups:
            g["lr"] *= 0.9
def run(model, feed):
    o = optim.SGD(model.parameters(), lr=.1)
    adam_slope = Slope(o)
    for epoch in range(3):
        for xb, yb in feed:
            o.zero_grad()
            nn.functional.mse_loss(model(xb), yb).backward()
            o.step()
        adam_slope.step()
""",
    "clear method of trainer with params": """
class T:
    def __init__(self, model):
        self.model = model
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.o = optim.SGD(self.params, lr=.1)
    def fresh(self):
        for q in self.params:
            q.grad = None
    def go(self, feed):
        for xb, yb in feed:
            self.fresh()
            nn.functional.mse_loss(self.model(xb), yb).backward()
            self.o.step()
""",
    "static util on list": """
class Grads:
    @staticmethod
    def drop(seq):
        for _, q in seq:
            if q.grad is None: continue
            q.grad.detach_().zero_()
def run(model, feed):
    o = optim.SGD(model.parameters(), lr=.1)
    for xb, yb in feed:
        Grads.drop(model.named_parameters())
        nn.functional.mse_loss(model(xb), yb).backward()
        o.step()
""",
    "two models chain": """
from itertools import chain
def run(enc, dec, feed):
    o = optim.SGD(chain(enc.parameters(), dec.parameters()), lr=.1)
    for xb, yb in feed:
        enc.zero_grad()
        dec.zero_grad()
        nn.functional.mse_loss(dec(enc(xb)), yb).backward()
        o.step()
""",
    "param groups": """
def run(net, feed):
    groups = [{"params": net.body.parameters(), "lr": 1e-4}, {"params": net.head.parameters()}]
    o = optim.AdamW(groups)
    for xb, yb in feed:
        net.zero_grad(set_to_none=True)
        nn.functional.mse_loss(net(xb), yb).backward()
        o.step()
""",
    "ddp wrapped": """
from torch.nn.parallel import DistributedDataParallel as DDP
def run(net, feed):
    shell = DDP(net)
    o = optim.AdamW(net.parameters())
    for xb, yb in feed:
        shell.zero_grad()
        nn.functional.mse_loss(shell(xb), yb).backward()
        o.step()
""",
    "gan": """
def run(gen, crit, feed):
    og = optim.Adam(gen.parameters()); oc = optim.Adam(crit.parameters())
    wg = lrs.ExponentialLR(og, .9)
    for real in feed:
        oc.zero_grad()
        (crit(gen(torch.randn(4))).mean() - crit(real).mean()).backward()
        oc.step()
        og.zero_grad()
        (-crit(gen(torch.randn(4))).mean()).backward()
        og.step()
        wg.step()
""",
    "closure helper": """
def run(net, feed):
    o = optim.LBFGS(net.parameters())
    def blank():
        for p in net.parameters():
            p.grad = None
    for xb, yb in feed:
        def again():
            blank()
            loss = nn.functional.mse_loss(net(xb), yb)
            loss.backward()
            return loss
        o.step(again)
""",
    "system wraps": """
class System(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b
def run(a, b, feed):
    s = System(a, b)
    o = optim.SGD(s.parameters(), lr=.1)
    for xb, yb in feed:
        s.a.zero_grad(); s.b.zero_grad()
        nn.functional.mse_loss(s.b(s.a(xb)), yb).backward()
        o.step()
""",
    "setattr": """
def run(net, feed):
    o = optim.SGD(net.parameters(), lr=.1)
    for xb, yb in feed:
        for t in net.parameters(): setattr(t, "grad", None)
        nn.functional.mse_loss(net(xb), yb).backward()
        o.step()
""",
    "accelerate prepare": """
def run(net, feed, acc):
    o = optim.SGD(net.parameters(), lr=.1)
    s = lrs.StepLR(o, 2)
    net, o, feed, s = acc.prepare(net, o, feed, s)
    for xb, yb in feed:
        acc.backward(nn.functional.mse_loss(net(xb), yb))
        o.step()
        s.step()
        o.zero_grad()
""",
}
WRONG = {
    "onecycle per batch": RIGHT["onecycle per batch"].replace("engine.zero_grad()", "pass"),
    "swa": RIGHT["swa"].replace("opt.zero_grad()", "pass"),
    "dataclass": RIGHT["dataclass holds both"].replace("self.opt.zero_grad()", "pass"),
    "factory": RIGHT["factory in other function by if"].replace("sgd.zero_grad()", "pass"),
    "own sched": RIGHT["own scheduler not of torch"].replace("        o.zero_grad()\n", "        pass\n"),
    "trainer": RIGHT["clear method of trainer with params"].replace("            self.fresh()\n", ""),
    "static": RIGHT["static util on list"].replace("Grads.drop(model.named_parameters())", "pass"),
    "static norm": RIGHT["static util on list"].replace("q.grad.detach_().zero_()", "q.grad.clamp_(-1, 1)"),
    "chain none": RIGHT["two models chain"].replace("enc.zero_grad()", "pass").replace("dec.zero_grad()", "pass"),
    "groups": RIGHT["param groups"].replace("net.zero_grad(set_to_none=True)", "pass"),
    "ddp": RIGHT["ddp wrapped"].replace("shell.zero_grad()", "pass"),
    "gan critic not": RIGHT["gan"].replace("oc.zero_grad()", "pass"),
    "closure": RIGHT["closure helper"].replace("            blank()\n", ""),
    "clip method in unrelated": RIGHT["gan"].replace("og.zero_grad()", "pass")
    + """
class Elsewhere:
    def mean(self): self.zero_grad()
    def step(self): self.zero_grad()
    def backward(self): self.zero_grad()
""",
    "setattr": RIGHT["setattr"].replace('setattr(t, "grad", None)', 'setattr(t, "seen", None)'),
    "optimizer of a dict": """
def run(model, feed):
    tools = {"main": optim.SGD(model.parameters(), lr=.1)}
    for xb, yb in feed:
        nn.functional.mse_loss(model(xb), yb).backward()
        tools["main"].step()
""",
}


@pytest.mark.parametrize("source", RIGHT.values(), ids=RIGHT)
def test_a_correct_loop_in_an_unusual_form_is_left_alone(source):
    assert reviewed(OTHER_IMPORTS + source, "ESP101").claims == ()


@pytest.mark.parametrize("source", WRONG.values(), ids=WRONG)
def test_a_loop_in_an_unusual_form_that_never_clears_is_found(source):
    assert [claim.rule for claim in reviewed(OTHER_IMPORTS + source, "ESP101").claims] == ["ESP101"]
