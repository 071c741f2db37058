"""ESP107, ESP108 and ESP214 to ESP218: schedulers, kept states, hidden and late layers, dropout and clipping."""

from __future__ import annotations

import pytest

TRAINING = """
import copy
import torch
from torch.optim.lr_scheduler import StepLR

def fit(model, loader, optimizer, validate):
    best = 0.0
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        score = validate(model)
        if {test}:
            best = score
            {kept}
    {after}
"""
KEPT = {
    "loaded": ("state = model.state_dict()", "model.load_state_dict(state)"),
    "returned": ("state = model.state_dict()", "return state"),
    "saved at the end": ("state = model.state_dict()", "torch.save(state, 'best.pt')"),
    "a shallow copy": ("state = model.state_dict().copy()", "model.load_state_dict(state)"),
    "a new dictionary": ("state = dict(model.state_dict())", "model.load_state_dict(state)"),
    "with other things": ("state = {'net': model.state_dict(), 'epoch': epoch}", "torch.save(state, 'best.pt')"),
    "under a key": ("state['net'] = model.state_dict()", "model.load_state_dict(state['net'])"),
}
LET_GO = {
    "a deep copy": ("state = copy.deepcopy(model.state_dict())", "model.load_state_dict(state)"),
    "tensors cloned": ("state = {k: v.clone() for k, v in model.state_dict().items()}", "return state"),
    "copied a line later": (
        "state = model.state_dict()\n            state = copy.deepcopy(state)",
        "model.load_state_dict(state)",
    ),
    "saved at once": ("state = model.state_dict(); torch.save(state, 'best.pt')", "return best"),
    "training ends": ("state = model.state_dict(); break", "model.load_state_dict(state)"),
    "the state of an optimizer": ("state = optimizer.state_dict()", "torch.save(state, 'best.pt')"),
}


@pytest.mark.parametrize(("kept", "after"), KEPT.values(), ids=KEPT)
def test_a_state_kept_by_reference_is_found(found, kept, after):
    assert found("ESP214", TRAINING.format(test="score > best", kept=kept, after=after)) == [kept]


@pytest.mark.parametrize(("kept", "after"), LET_GO.values(), ids=LET_GO)
def test_a_state_that_is_copied_or_used_at_once_is_left_alone(found, kept, after):
    assert found("ESP214", TRAINING.format(test="score > best", kept=kept, after=after)) == []


def test_a_state_taken_at_an_interval_is_left_alone(found):
    kept, after = KEPT["loaded"]
    assert found("ESP214", TRAINING.format(test="epoch % 3 == 0", kept=kept, after=after)) == []


STOPPER = """
class EarlyStopping:
    best, state = None, None

    def __call__(self, loss, model):
        if self.best is None or loss < self.best:
            self.best, self.state = loss, {kept}

def fit(model, loader, optimizer):
    stop = EarlyStopping()
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        stop(validate(model), model)
    model.load_state_dict(stop.state)
"""


def test_a_state_kept_by_an_object_is_found_through_who_loads_it(found):
    assert len(found("ESP214", STOPPER.format(kept="model.state_dict()"))) == 1
    assert found("ESP214", STOPPER.format(kept="copy.deepcopy(model.state_dict())")) == []


MODULE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width))

class Pool(nn.Module):
    def forward(self, x):
        return x.mean(-1)

class Net({base}):
    def __init__(self, n):
        super().__init__()
        {line}
"""
HIDDEN = {
    "a list of layers": "self.layers = [nn.Linear(8, 8), nn.Conv2d(3, 8, 3)]",
    "a comprehension": "self.layers = [nn.Linear(8, 8) for _ in range(n)]",
    "a dictionary": "self.heads = {'a': nn.Linear(8, 2)}",
    "modules of their own": "self.blocks = [Block(8) for _ in range(n)]",
    "a list that grows": "self.blocks = []; self.blocks.append(Block(8))",
    "a bare tensor": "self.scale = torch.ones(8, requires_grad=True)",
}
KNOWN = {
    "a module list": "self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(n)])",
    "registered as well": "self.layers = [nn.Linear(8, 8)]; self.net = nn.Sequential(*self.layers)",
    "added by name": "self.layers = [nn.Linear(8, 8)]; self.add_module('first', self.layers[0])",
    "losses have no weights": "self.losses = [nn.MSELoss(), nn.L1Loss()]",
    "modules without weights": "self.pools = [Pool() for _ in range(n)]",
    "a teacher that is hidden": "self.teacher = [n]",
    "a tensor that is not trained": "self.scale = torch.ones(8)",
    "a local list": "layers = [nn.Linear(8, 8)]; self.net = nn.Sequential(*layers)",
}


@pytest.mark.parametrize("line", HIDDEN.values(), ids=HIDDEN)
def test_weights_that_a_module_does_not_know_of_are_found(found, line):
    assert len(found("ESP215", MODULE.format(base="nn.Module", line=line))) == 1


@pytest.mark.parametrize("line", KNOWN.values(), ids=KNOWN)
def test_weights_that_a_module_knows_of_are_left_alone(found, line):
    assert found("ESP215", MODULE.format(base="nn.Module", line=line)) == []


@pytest.mark.parametrize("line", HIDDEN.values(), ids=HIDDEN)
def test_what_is_no_module_may_keep_layers_as_it_likes(found, line):
    assert found("ESP215", MODULE.format(base="object", line=line)) == []


DROPPING = """
import torch.nn.functional as F
from torch import nn

class {owner}(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        {line}
        return x
"""
ALWAYS = {
    "by default": "x = F.dropout(x)",
    "with a share": "x = F.dropout(x, p=self.p)",
    "in two dimensions": "x = F.dropout2d(x, 0.1)",
    "in attention": "x = F.scaled_dot_product_attention(x, x, x, dropout_p=self.p)",
    "in attention with a number": "x = F.scaled_dot_product_attention(x, x, x, None, 0.1)",
}
IN_TRAINING = {
    "told so": "x = F.dropout(x, self.p, training=self.training)",
    "told so by position": "x = F.dropout(x, self.p, self.training)",
    "under a test": "if self.training: x = F.dropout(x, self.p)",
    "in an expression": "x = F.dropout(x, self.p) if self.training else x",
    "with nothing to drop": "x = F.dropout(x, 0.0)",
    "attention that asks": "x = F.scaled_dot_product_attention(x, x, x, dropout_p=self.p if self.training else 0.0)",
    "attention that drops nothing": "x = F.scaled_dot_product_attention(x, x, x, dropout_p=0.0)",
    "arguments out of sight": "x = F.dropout(x, **self.options)",
}


@pytest.mark.parametrize("line", ALWAYS.values(), ids=ALWAYS)
def test_dropout_that_does_not_know_the_mode_is_found(found, line):
    assert found("ESP216", DROPPING.format(owner="Net", line=line)) == [line]
    assert found("ESP216", DROPPING.format(owner="MonteCarloNet", line=line)) == []


@pytest.mark.parametrize("line", IN_TRAINING.values(), ids=IN_TRAINING)
def test_dropout_that_knows_the_mode_is_left_alone(found, line):
    assert found("ESP216", DROPPING.format(owner="Net", line=line)) == []


def test_a_helper_that_is_called_in_training_alone_may_drop(found):
    source = DROPPING.format(owner="Net", line="x = self.noisy(x) if self.training else x")
    helper = "\n    def noisy(self, x):\n        return F.dropout(x, self.p)\n"
    assert found("ESP216", source + helper) == []
    assert len(found("ESP216", source.replace(" if self.training else x", "") + helper)) == 1


CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
STEP = """
def step(model, optimizer, other, x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    {0}
    {1}
    {2}
"""
LOOP = "for x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n    {}\n    {}\n    {}\n"
BACKWARD, TAKEN = "loss.backward()", "optimizer.step()"
FOR_NOTHING = {
    "before the backward": STEP.format(CLIP, BACKWARD, TAKEN),
    "before the backward, in a loop": LOOP.format(CLIP, BACKWARD, TAKEN),
    "after the step": STEP.format(BACKWARD, TAKEN, CLIP),
    "after the step, in a loop": LOOP.format(BACKWARD, TAKEN, CLIP),
}
FOR_SOMETHING = {
    "between": STEP.format(BACKWARD, CLIP, TAKEN),
    "between, in a loop": LOOP.format(BACKWARD, CLIP, TAKEN),
    "between two optimizers": STEP.format(BACKWARD, f"other.step(); {CLIP}", TAKEN),
    "after a step now and then": LOOP.format(BACKWARD, f"if count % 4 == 0: {TAKEN}", CLIP),
    "what a caller sent backward": f"def clip(model, loss, optimizer):\n    {CLIP}\n    {TAKEN}\n    {BACKWARD}\n",
    "sent backward by a helper": STEP.format("send(loss)", CLIP, TAKEN) + "\ndef send(loss):\n    loss.backward()\n",
}


@pytest.mark.parametrize("source", FOR_NOTHING.values(), ids=FOR_NOTHING)
def test_clipping_that_no_gradient_reaches_is_found(found, source):
    assert found("ESP217", source) == [CLIP]


@pytest.mark.parametrize("source", FOR_SOMETHING.values(), ids=FOR_SOMETHING)
def test_clipping_of_gradients_is_left_alone(found, source):
    assert found("ESP217", source) == []


SCHEDULED = """
from torch.optim.lr_scheduler import StepLR

def train(model, loader, optimizer):
    scheduler = {made}
    {before}
    for epoch in range(9):
        {first}
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            {step}
        {last}
"""


def scheduled(made="StepLR(optimizer, 3)", before="pass", first="pass", step=TAKEN, last="pass"):
    return SCHEDULED.format(made=made, before=before, first=first, step=step, last=last)


AHEAD = {
    "in every epoch": scheduled(first="scheduler.step()"),
    "in every step": scheduled(step=f"scheduler.step(); {TAKEN}"),
    "by its name": scheduled(first="scheduler.step()").replace("    scheduler = StepLR(optimizer, 3)\n", ""),
    "before a function that trains": (
        "def main(model, loader, optimizer, scheduler):\n    for epoch in range(9):\n        scheduler.step()\n"
        "        train(model, loader, optimizer)\n\n" + scheduled()
    ),
}
IN_ORDER = {
    "after the epoch": scheduled(last="scheduler.step()"),
    "after the step": scheduled(step=f"{TAKEN}; scheduler.step()"),
    "not in the first round": scheduled(first="if epoch > 0: scheduler.step()"),
    "told the epoch": scheduled(first="scheduler.step(epoch)"),
    "of somebody else": scheduled(made="Noam(optimizer)", first="scheduler.step()"),
    "the warning is known": scheduled(first="with warnings.catch_warnings(): scheduler.step()"),
    "after a first step": scheduled(before=TAKEN, first="scheduler.step()"),
}


@pytest.mark.parametrize("source", AHEAD.values(), ids=AHEAD)
def test_a_scheduler_ahead_of_its_optimizer_is_found(found, source):
    assert len(found("ESP107", source)) == 1


@pytest.mark.parametrize("source", IN_ORDER.values(), ids=IN_ORDER)
def test_a_scheduler_that_follows_its_optimizer_is_left_alone(found, source):
    assert found("ESP107", source) == []


REPLACED = """
import torch
from torch import nn

def tune(model, loader):
    {first}
    optimizer = torch.optim.Adam({given})
    {then}
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""
NEW = "model.fc = nn.Linear(512, 10)"


def replaced(then=NEW, given="model.parameters()", first="pass"):
    return REPLACED.format(first=first, given=given, then=then)


TOO_LATE = {
    "a head": replaced(),
    "the last of several layers": replaced("model.classifier[6] = nn.Linear(4096, 10)"),
    "several layers at once": replaced("model.fc = nn.Sequential(nn.Dropout(), nn.Linear(512, 10))"),
}
IN_TIME = {
    "before the optimizer": replaced(first=NEW, then="pass"),
    "its weights are added": replaced(f"{NEW}; optimizer.add_param_group({{'params': model.fc.parameters()}})"),
    "a new optimizer": replaced(f"{NEW}\n    optimizer = torch.optim.Adam(model.parameters())"),
    "another part of the model": replaced(given="model.body.parameters()"),
    "no layer": replaced("model.scale = 3.0"),
    "another model": replaced("other.fc = nn.Linear(512, 10)"),
}


@pytest.mark.parametrize("source", TOO_LATE.values(), ids=TOO_LATE)
def test_a_layer_that_comes_after_the_optimizer_is_found(found, source):
    assert len(found("ESP218", source)) == 1


@pytest.mark.parametrize("source", IN_TIME.values(), ids=IN_TIME)
def test_a_layer_that_the_optimizer_gets_is_left_alone(found, source):
    assert found("ESP218", source) == []


UNSENT = """
def train(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        {between}
        optimizer.step()
        total += loss.item()
"""
SENT = {
    "backward": UNSENT.format(between="loss.backward()"),
    "a helper": UNSENT.format(between="send(loss)"),
    "a helper with another name for it": UNSENT.format(between="send(loss)") + "\ndef send(x):\n    x.backward()\n",
    "an accelerator": UNSENT.format(between="accelerator.backward(loss)"),
    "gradients by hand": UNSENT.format(between="w.grad = torch.autograd.grad(loss, w)[0]"),
    "another optimizer": UNSENT.format(between="pass").replace("optimizer.step", "other.step"),
    "a closure": UNSENT.format(between="pass").replace("step()", "step(closure)"),
    "no loss in sight": UNSENT.format(between="pass").replace("loss", "out"),
    "a model that trains itself": UNSENT.format(between="model.train_on(x)"),
}


@pytest.mark.parametrize("between", ["pass", "print(loss)", "losses.append(loss.item())", "scheduler.step()"])
def test_a_step_that_no_backward_feeds_is_found(found, between):
    assert found("ESP108", UNSENT.format(between=between)) == ["optimizer.step()"]


@pytest.mark.parametrize("source", SENT.values(), ids=SENT)
def test_a_step_that_may_have_gradients_is_left_alone(found, source):
    assert found("ESP108", source) == []
