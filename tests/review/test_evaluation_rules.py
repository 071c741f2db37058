"""ESP102, ESP103 and ESP302 on evaluations as people write them, in one file and over several."""

from __future__ import annotations

import pytest

FORWARD = "right += (model(x).argmax(1) == y).sum().item()"


def evaluation(body: str, *, decorator: str = "") -> str:
    """Return a file with an evaluating function."""
    head = "import torch\n\n" + (f"{decorator}\n" if decorator else "") + "def evaluate(model, loader):\n"
    return head + body + "    return right\n"


PLAIN = "    right = 0\n    for x, y in loader:\n        " + FORWARD + "\n"
NO_GRAD = "    right = 0\n    with torch.no_grad():\n        for x, y in loader:\n            " + FORWARD + "\n"
TRAINING = """
from evaluation import evaluate

def fit(model, loader, held_out, optimizer):
    for epoch in range(3):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        {before}
        print(evaluate(model, held_out))
"""


def project(evaluate: str, before: str = "pass") -> dict[str, str]:
    """Return a training file that calls an evaluation in another."""
    return {"pkg/train.py": TRAINING.format(before=before), "pkg/evaluation.py": evaluate}


def test_an_evaluation_that_nobody_switches_is_found_from_its_caller(found):
    assert found("ESP102", project(evaluation(NO_GRAD))) == [FORWARD]


def test_an_evaluation_without_eval_and_without_no_grad_is_found_by_both_rules(found):
    assert found("ESP102", project(evaluation(PLAIN))) == [FORWARD]
    assert found("ESP302", project(evaluation(PLAIN))) == [FORWARD]


@pytest.mark.parametrize(
    "sources",
    [
        project(evaluation("    model.eval()\n" + NO_GRAD)),
        project(evaluation("    model.train(False)\n" + NO_GRAD)),
        project(evaluation("    model.train(mode=False)\n" + NO_GRAD)),
        project(evaluation(NO_GRAD), before="model.eval()"),
        project(evaluation("    set_up(model)\n" + NO_GRAD) + "\ndef set_up(model):\n    model.eval()\n"),
        {"pkg/evaluation.py": evaluation(NO_GRAD)},
    ],
    ids=["eval", "train(False)", "mode=False", "the caller", "a helper", "the caller is not in sight"],
)
def test_a_switch_anywhere_on_the_way_explains_an_evaluation(found, sources):
    assert found("ESP102", sources) == []


def test_a_model_without_layers_that_care_needs_no_switch(found):
    model = """
import torch
from torch import nn
from pkg.train import fit

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.layer(x))

model = Net()
fit(model, a, b, c)
"""
    sources = project(evaluation(NO_GRAD)) | {"main.py": model}
    assert found("ESP102", sources) == []
    for layer in ("nn.Sequential(nn.Linear(4, 2), nn.Dropout())", "elsewhere.Layer()", "Net()"):
        sources["main.py"] = model.replace("nn.Linear(4, 2)", layer)
        assert found("ESP102", sources) == ([] if layer == "Net()" else [FORWARD])


def test_evaluation_inside_the_training_function_is_found(found):
    source = """
        import torch

        def fit(model, train_loader, val_loader, optimizer):
            for epoch in range(3):
                model.train()
                for x, y in train_loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                with torch.no_grad():
                    for x, y in val_loader:
                        right += (model(x).argmax(1) == y).sum().item()
        """
    assert found("ESP102", source) == [FORWARD]
    switched = source.replace("                with torch", "                model.eval()\n                with torch")
    assert found("ESP102", switched) == []


def test_lightning_switches_by_itself(found):
    source = """
        import torch
        import pytorch_lightning as pl

        class Net(pl.LightningModule):
            def validation_step(self, batch, index):
                for x, y in batch:
                    right = (self.model(x).argmax(1) == y).sum().item()

            def training_step(self, batch, index):
                self.manual_backward(loss)
        """
    assert found("ESP102", source) == []
    assert found("ESP302", source) == []


NO_GRADIENTS_NEEDED = {
    "in the function": "    model.eval()\n" + PLAIN,
    "after training": "    model.train()\n    model.eval()\n" + PLAIN,
}


@pytest.mark.parametrize("body", NO_GRADIENTS_NEEDED.values(), ids=NO_GRADIENTS_NEEDED)
def test_an_evaluation_that_builds_graphs_is_found(found, body):
    assert found("ESP302", evaluation(body)) == [FORWARD]


def test_an_evaluation_that_builds_graphs_is_found_when_the_caller_switches(found):
    assert found("ESP302", project(evaluation(PLAIN), before="model.eval()")) == [FORWARD]


WITHOUT_GRADIENTS = {
    "no_grad": evaluation("    model.eval()\n" + NO_GRAD),
    "inference_mode": evaluation("    model.eval()\n" + NO_GRAD.replace("no_grad", "inference_mode")),
    "a decorator": evaluation("    model.eval()\n" + PLAIN, decorator="@torch.no_grad()"),
    "a decorator without brackets": evaluation("    model.eval()\n" + PLAIN, decorator="@torch.inference_mode"),
    "a context of one's own": evaluation(
        "    model.eval()\n" + NO_GRAD.replace("torch.no_grad()", "evaluating(model)")
    ),
    "set_grad_enabled": evaluation("    torch.set_grad_enabled(False)\n    model.eval()\n" + PLAIN),
    "frozen parameters": evaluation("    model.eval()\n    model.requires_grad_(False)\n" + PLAIN),
    "a backward: adversarial inputs": evaluation(
        "    model.eval()\n" + PLAIN.replace("right +=", "model(x).sum().backward()\n        right +=")
    ),
    "a gradient: saliency": evaluation(
        "    model.eval()\n" + PLAIN.replace("right +=", "torch.autograd.grad(model(x).sum(), x)\n        right +=")
    ),
    "a switch in one branch only": evaluation("    if frozen:\n        model.eval()\n" + PLAIN),
    "a mode that is handed over": evaluation("    model.train(mode)\n" + PLAIN),
    "training": evaluation("    model.eval()\n    model.train()\n" + PLAIN),
}


@pytest.mark.parametrize("source", WITHOUT_GRADIENTS.values(), ids=WITHOUT_GRADIENTS)
def test_evaluations_without_gradients_or_that_want_them_are_left_alone(found, source):
    assert found("ESP302", source) == []


@pytest.mark.parametrize("before", ["with torch.no_grad(): evaluate(model, held_out)", "torch.set_grad_enabled(False)"])
def test_the_caller_may_turn_gradients_off(found, before):
    source = "import torch\n" + TRAINING.format(before=before)
    sources = {"pkg/train.py": source, "pkg/evaluation.py": evaluation("    model.eval()\n" + PLAIN)}
    assert found("ESP302", sources) == []


def test_a_prediction_that_training_uses_is_no_evaluation(found):
    source = """
        import torch

        def predict(model, steps):
            outputs = []
            for x in steps:
                outputs.append(model(x))
            return torch.stack(outputs)

        def fit(model, loader, optimizer):
            for steps, y in loader:
                optimizer.zero_grad()
                criterion(predict(model, steps), y).backward()
                optimizer.step()
        """
    assert found("ESP302", source) == []
    assert found("ESP102", source) == []


ROUNDS = """
def fit(model, loader, held_out, optimizer):
    {before}
    for epoch in range(3):
        {start}
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        {end}
"""


def rounds(before: str = "pass", start: str = "pass", end: str = "pass") -> str:
    """Return a training function with statements around its batches."""
    return ROUNDS.format(before=before, start=start, end=end)


def test_a_model_left_in_evaluation_mode_is_found(found):
    assert found("ESP103", rounds(before="model.train()", end="model.eval()")) == ["model.eval()"]


def test_a_model_left_in_evaluation_mode_by_a_helper_is_found(found):
    sources = {
        "train.py": "from evaluation import evaluate\n"
        + rounds(before="model.train()", end="evaluate(model, held_out)"),
        "evaluation.py": evaluation("    model.eval()\n" + NO_GRAD),
    }
    assert found("ESP103", sources) == ["evaluate(model, held_out)"]
    sources["evaluation.py"] = evaluation("    model.eval()\n" + NO_GRAD + "    model.train()\n")
    assert found("ESP103", sources) == []


def test_a_trainer_left_in_evaluation_mode_by_its_own_method_is_found(found):
    source = """
        class Trainer:
            def fit(self):
                self.model.train()
                for epoch in range(3):
                    for x, y in self.loader:
                        self.optimizer.zero_grad()
                        criterion(self.model(x), y).backward()
                        self.optimizer.step()
                    self.validate()

            def validate(self):
                self.model.eval()
        """
    assert found("ESP103", source) == ["self.validate()"]
    assert found("ESP103", source.replace("self.model.eval()", "self.model.eval(); self.model.train()")) == []


@pytest.mark.parametrize(
    "source",
    [
        rounds(start="model.train()", end="model.eval()"),
        rounds(end="model.eval(); check(); model.train()"),
        rounds(end="was = model.training; model.eval(); model.train(was)"),
        rounds(before="model.eval()"),
        rounds(end="teacher.eval()"),
        rounds(start="prepare(model)", end="model.eval()") + "\ndef prepare(model):\n    model.train()\n",
    ],
    ids=["at the start", "at the end", "as it was", "frozen on purpose", "another model", "a helper"],
)
def test_models_that_go_back_to_training_are_left_alone(found, source):
    assert found("ESP103", source) == []


EVALUATOR = """
import torch

class Evaluator:
    def __init__(self, loader):
        self.loader = loader

    @torch.no_grad()
    def __call__(self, model):
        {switch}
        right = 0
        for x, y in self.loader:
            right += (model(x).argmax(1) == y).sum().item()
        return right

class Trainer:
    def __init__(self, model, loader, evaluator):
        self.model, self.loader, self.evaluator = model.to("cuda"), loader, evaluator

    def fit(self):
        for epoch in range(3):
            {start}
            for x, y in self.loader:
                self.optimizer.zero_grad()
                criterion(self.model(x), y).backward()
                self.optimizer.step()
            self.evaluator(self.model)

Trainer(build(), train, Evaluator(held_out)).fit()
"""


def test_an_object_that_evaluates_is_followed_to_the_one_that_calls_it(found):
    wrong = EVALUATOR.format(switch="pass", start="self.model.train()")
    assert found("ESP102", wrong) == ["right += (model(x).argmax(1) == y).sum().item()"]
    assert found("ESP102", EVALUATOR.format(switch="model.eval()", start="self.model.train()")) == []
    left = EVALUATOR.format(switch="model.eval()", start="pass")
    assert found("ESP103", left) == ["self.evaluator(self.model)"]
    assert found("ESP103", EVALUATOR.format(switch="model.eval()", start="self.model.train()")) == []


def test_a_switch_that_comes_after_the_evaluation_does_not_explain_it(found):
    source = TRAINING.format(before="pass") + "    model.eval()\n    save(model)\n"
    assert found("ESP102", {"pkg/train.py": source, "pkg/evaluation.py": evaluation(NO_GRAD)}) == [FORWARD]


def test_a_decorator_of_these_files_may_switch(found):
    decorator = """
def evaluating(function):
    def wrapper(model, loader):
        model.eval()
        return function(model, loader)
    return wrapper

"""
    source = decorator + evaluation(NO_GRAD, decorator="@evaluating")
    assert found("ESP102", project(source)) == []


def test_a_model_that_comes_in_evaluation_mode_needs_no_switch_but_no_grad(found):
    source = """
        import torch

        def load(path):
            model = Net()
            model.load_state_dict(torch.load(path, weights_only=True))
            model.eval()
            return model

        def main(loader):
            model = load("model.pt")
            for x, y in loader:
                print(model(x).argmax(1))
        """
    assert found("ESP302", source) == ["print(model(x).argmax(1))"]
    assert found("ESP102", source) == []
    assert found("ESP302", source.replace("model.eval()", "model.train()")) == []


@pytest.mark.parametrize(
    ("end", "count"),
    [
        ("if epoch % 5 == 0: model.eval(); check()", 1),
        ("was = model.training; model.eval(); check()\n        if was: model.train()", 0),
        ("model.eval(); check(); break", 0),
        ("model.eval(); check(); restore(model)", 0),
    ],
    ids=["now and then", "as it was", "the last round", "a helper"],
)
def test_what_lies_between_an_evaluation_and_the_next_training_decides(found, end, count):
    source = rounds(before="model.train()", end=end) + "\ndef restore(model):\n    model.train()\n"
    assert len(found("ESP103", source)) == count


def test_an_average_of_weights_is_another_model(found):
    source = TRAINING.format(before="model.eval()").replace(
        "evaluate(model, held_out)", "evaluate(ema.module, held_out)"
    )
    assert found("ESP302", {"pkg/train.py": source, "pkg/evaluation.py": evaluation(NO_GRAD)}) == []


def test_modes_that_a_context_manager_writes_back_are_not_reported(found):
    source = """
        import contextlib
        import torch
        from torch import nn

        @contextlib.contextmanager
        def evaluating(model):
            modes = {m: m.training for m in model.modules()}
            model.eval()
            yield model
            for m, mode in modes.items():
                m.training = mode

        def fit(loader, held_out):
            model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 2))
            opt = torch.optim.Adam(model.parameters())
            for epoch in range(3):
                for x, y in loader:
                    opt.zero_grad()
                    nn.functional.cross_entropy(model(x), y).backward()
                    opt.step()
                with evaluating(model), torch.no_grad():
                    print(model(held_out))
        """
    assert found("ESP103", source) == []
