"""Guards and tests that a change removes are found where they are missing; what moved or was replaced is not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.changes import review_change
from esper_agents.review.removed_guards import removed_guards
from esper_agents.review.source import from_bytes

STEP = """
    def train(model, loader, opt, scaler, losses):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            loss = model(x).sub(y).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            losses.append(loss.detach())
            total += loss.item()


    def evaluate(model, loader, sampler, epoch):
        model.eval()
        sampler.set_epoch(epoch)
        assert len(loader)
        with torch.no_grad():
            for x, y in loader:
                ratio = model(x) / (y.sum() + 1e-8)
                print(ratio.clamp(min=0.0, max=1.0))


    def load(path):
        return torch.load(path, map_location="cpu", weights_only=True)
    """


def change(old, new, text=STEP, path="train.py"):
    text = dedent(text)
    assert old in text
    return removed_guards({path: text}, {path: text.replace(old, new)}, [path])


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ("    model.train()\n", "", 3, "training mode"),
        ("        opt.zero_grad()\n", "", 5, "`zero_grad`"),
        ("        scaler.unscale_(opt)\n", "", 8, "`unscale_`"),
        ("        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "", 9, "gradient clipping"),
        ("loss.detach()", "loss", 12, "`detach`"),
        ("loss.item()", "loss", 13, "conversion to a Python number"),
        ("    model.eval()\n", "", 17, "evaluation mode"),
        ("    sampler.set_epoch(epoch)\n", "", 18, "`set_epoch`"),
        ("    assert len(loader)\n", "", 19, "an assertion"),
        ("with torch.no_grad():", "if True:", 20, "`no_grad`"),
        ("(y.sum() + 1e-8)", "y.sum()", 22, "small constant"),
        ("ratio.clamp(min=0.0, max=1.0)", "ratio", 23, "bound on values"),
        (", weights_only=True", "", 27, "`weights_only=True`"),
        (", weights_only=True", ", weights_only=False", 27, "`weights_only=True`"),
    ],
)
def test_a_removed_guard_is_found_at_the_line_where_it_is_missing(old, new, line, named):
    (found,) = change(old, new)
    assert (found.rule, str(found.location)) == ("ESP702", f"train.py:{line}")
    assert named in found.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loss.detach()", "loss.item()"),
        ("loss.item()", "loss.detach()"),
        ("with torch.no_grad():", "with torch.inference_mode():"),
        ("ratio.clamp(min=0.0, max=1.0)", "torch.clip(ratio, 0.0, 1.0)"),
        ("(y.sum() + 1e-8)", "y.sum().clamp(min=1e-8)"),
        ("model.eval()", "model.train(False)"),
        ("        losses.append(loss.detach())\n", ""),
        ("opt.zero_grad()", "opt.zero_grad(set_to_none=True)"),
        ("opt.zero_grad()", "optimizer.zero_grad()"),
        ("clip_grad_norm_(model.parameters(), 1.0)", "clip_grad_norm_(model.parameters(), 0.5)"),
        ("    assert len(loader)\n", "    check_loader(loader)\n"),
        ('torch.load(path, map_location="cpu", weights_only=True)', "safetensors.torch.load_file(path)"),
    ],
)
def test_a_guard_that_is_replaced_reworded_or_gone_with_its_code_is_not_reported(old, new):
    assert change(old, new) == ()


TWO_UPDATES = """
    class Agent:
        def update(self, batch):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1

        def update_episodes(self, episodes):
            loss = 0
            for episode in episodes:
                loss += self.loss(episode)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
    """
ONE_HELPER = """
    class Agent:
        def update(self, batch):
            loss = self.loss(batch)
            self.apply_loss(loss)
            self.steps += 1

        def update_episodes(self, episodes):
            loss = 0
            for episode in episodes:
                loss += self.loss(episode)
            self.apply_loss(loss)
            self.steps += 1

        def apply_loss(self, loss):
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
    """


def test_a_guard_of_two_functions_that_moves_into_one_that_both_call_is_not_reported():
    before, after = dedent(TWO_UPDATES), dedent(ONE_HELPER)
    assert removed_guards({"agent.py": before}, {"agent.py": after}, ["agent.py"]) == ()


def test_a_function_that_does_not_call_the_one_with_the_guard_has_lost_it():
    before, after = dedent(TWO_UPDATES), dedent(ONE_HELPER)
    after = after.replace("self.apply_loss(loss)", "loss.backward()\n        self.optimizer.step()")
    after = after.replace("loss.backward()\n        self.optimizer.step()", "self.apply_loss(loss)", 1)
    (found,) = removed_guards({"agent.py": before}, {"agent.py": after}, ["agent.py"])
    assert "of `update_episodes`" in found.message


def test_a_guard_that_moves_to_another_function_or_file_is_not_reported():
    old = dedent(STEP)
    new = old.replace("    model.eval()\n", "    prepare(model)\n") + "\n\ndef prepare(model):\n    model.eval()\n"
    assert removed_guards({"train.py": old}, {"train.py": new}, ["train.py"]) == ()
    new, other = old.replace("    model.eval()\n", "    prepare(model)\n"), "def prepare(model):\n    model.eval()\n"
    after = {"train.py": new, "prepare.py": other}
    assert removed_guards({"train.py": old}, after, ["train.py", "prepare.py"]) == ()


def test_a_deleted_function_takes_its_guards_with_it():
    old = dedent(STEP)
    assert removed_guards({"train.py": old}, {"train.py": old[old.index("def evaluate") :]}, ["train.py"]) == ()


def test_a_renamed_function_or_file_that_loses_a_guard_is_found():
    old = dedent(STEP)
    new = old.replace("def evaluate(", "def validate(").replace("    model.eval()\n", "")
    (found,) = removed_guards({"train.py": old}, {"train.py": new}, ["train.py"])
    assert "evaluation mode" in found.message
    new = old.replace("    model.eval()\n", "")
    (found,) = removed_guards({"train.py": old}, {"fit.py": new}, ["train.py", "fit.py"])
    assert str(found.location) == "fit.py:17"


def test_unchanged_files_and_files_that_do_not_parse_are_left_alone():
    old = dedent(STEP)
    new = old.replace("    model.eval()\n", "")
    assert removed_guards({"train.py": old}, {"train.py": new}, ["other.py"]) == ()
    assert removed_guards({"train.py": old}, {"train.py": "def broken(:\n"}, ["train.py"]) == ()


TESTS = """
    import pytest


    def test_the_loss_is_finite():
        assert loss() < 10
        assert torch.isfinite(loss())


    def test_two_runs_agree():
        torch.testing.assert_close(run(), run())
    """


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n\ndef test_two_runs_agree():\n    torch.testing.assert_close(run(), run())\n", "", "deletes the test"),
        ("def test_two_runs", '@pytest.mark.skip(reason="flaky")\ndef test_two_runs', "disables the test"),
        ("    assert loss() < 10\n", "", "removes 1 assertion from the test"),
        ("    torch.testing.assert_close(run(), run())", "    run()", "removes 1 assertion from the test"),
    ],
)
def test_a_test_that_is_deleted_disabled_or_weakened_is_found(old, new, message):
    found = [each for each in change(old, new, TESTS, "tests/test_loss.py") if each.rule == "ESP703"]
    assert [message in each.message for each in found] == [True]


def test_a_deleted_test_file_names_its_tests_and_a_moved_test_is_not_reported():
    old = {"tests/test_loss.py": dedent(TESTS), "train.py": "x = 1\n"}
    found = removed_guards(old, {"train.py": "x = 1\n"}, ["tests/test_loss.py"])
    assert [each.message for each in found if each.rule == "ESP703"] == [
        "the change deletes the test `test_the_loss_is_finite`",
        "the change deletes the test `test_two_runs_agree`",
    ]
    moved = {"tests/test_all.py": "import os\n\n" + dedent(TESTS) + "\n\ndef test_more():\n    assert os\n"}
    assert (
        removed_guards({"tests/test_loss.py": dedent(TESTS)}, moved, ["tests/test_loss.py", "tests/test_all.py"]) == ()
    )


def test_a_review_of_a_change_reports_them_with_what_the_change_introduces():
    old, new = dedent(STEP), dedent(STEP).replace("        opt.zero_grad()\n", "")
    report = review_change(
        None, [from_bytes(old.encode(), "train.py")], [from_bytes(new.encode(), "train.py")], paths=["train.py"]
    ).report
    (found,) = [claim for claim in report.claims if claim.rule == "ESP702"]
    assert found.severity is Severity.CRITICAL
    assert "`opt.zero_grad()` (line 5 before)" in found.message


def test_a_removed_check_that_raises_is_a_suggestion():
    old = (
        "def f(x):\n    if x.ndim != 2:\n        raise ValueError(x.shape)\n    y = x.sum(0)\n    return y / y.sum()\n"
    )
    new = "def f(x):\n    y = x.sum(0)\n    return y / y.sum()\n"
    (found,) = removed_guards({"f.py": old}, {"f.py": new}, ["f.py"])
    assert (found.severity, str(found.location)) == (Severity.SUGGESTION, "f.py:2")


MODEL = """
    class Net(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = max(n, 1)

        def forward(self, x, mask, device):
            if x.numel() == 0:
                return x
            for row in x:
                if mask is None:
                    continue
                use(row)
            y = x.float().mean(1, keepdim=True)
            z = torch.zeros(3, device=x.device)
            z.add_(
                y.to(device).clone(),
            )
            return z / (y.sum() + 1) + torch.log(y + 1.0)

        def loss(self, y, t):
            return F.cross_entropy(
                y,
                t,
                ignore_index=-100,
            )
    """


@pytest.mark.parametrize(
    ("old", "new", "line", "named"),
    [
        ("        super().__init__()\n", "", 4, "initialisation of the base class"),
        ("max(n, 1)", "n", 5, "bound on values"),
        ("        if x.numel() == 0:\n            return x\n", "", 8, "an early exit"),
        ("            if mask is None:\n                continue\n", "", 11, "an early exit"),
        ("x.float()", "x", 14, "a conversion of type"),
        (", keepdim=True", "", 14, "`keepdim`"),
        (", device=x.device", "", 15, "a move to a device"),
        (".to(device)", "", 17, "a move to a device"),
        (".clone()", "", 17, "a copy"),
        ("(y.sum() + 1)", "y.sum()", 19, "small constant"),
        ("torch.log(y + 1.0)", "torch.log(y)", 19, "small constant"),
        ("            ignore_index=-100,\n", "", 25, "an argument of the loss"),
    ],
)
def test_a_guard_that_an_argument_or_an_exit_was_is_found_where_it_is_missing(old, new, line, named):
    (found,) = change(old, new, MODEL, "net.py")
    assert (found.rule, str(found.location), found.severity) == ("ESP702", f"net.py:{line}", Severity.WARNING)
    assert named in found.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        if x.numel() == 0:\n            return x\n", "        assert x.numel()\n"),
        ("        if x.numel() == 0:\n            return x\n", "        if not len(x):\n            return x\n"),
        ("x.float()", "x.double()"),
        ("device=x.device", "device=device"),
        ("ignore_index=-100", "ignore_index=PAD"),
        ("max(n, 1)", "max(1, n)"),
        ("torch.log(y + 1.0)", "torch.log1p(y)"),
    ],
)
def test_an_argument_or_an_exit_that_another_one_replaces_is_not_reported(old, new):
    assert change(old, new, MODEL, "net.py") == ()


def test_a_guard_that_another_kind_of_guard_accompanies_is_still_missed():
    old = dedent(STEP)
    new = old.replace("loss.detach()", "loss").replace("    sampler.set_epoch(epoch)\n", "    loader.barrier()\n")
    found = removed_guards({"train.py": old}, {"train.py": new}, ["train.py"])
    assert {each.location.line for each in found} == {12, 18}


def test_a_guard_that_goes_while_the_names_around_it_change_is_found_with_its_old_text():
    old = dedent(STEP)
    new = old.replace("loss", "error").replace("error.detach()", "error").replace("def train(", "def fit(")
    (found,) = removed_guards({"train.py": old}, {"train.py": new}, ["train.py"])
    assert str(found.location) == "train.py:12"
    assert "`loss.detach()` (line 12 before)" in found.message
    assert removed_guards({"train.py": old}, {"train.py": old.replace("loss", "error")}, ["train.py"]) == ()
