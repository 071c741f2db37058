"""Whole programs that are right: the review has nothing critical and no warning to say about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review_sources

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.py"))


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.stem for sample in SAMPLES])
def test_a_program_that_is_right_is_left_alone(sample):
    report = review_sources({f"src/{sample.name}": sample.read_text()})
    assert not report.unreadable
    assert [str(c.location) + " " + c.rule for c in report.claims if c.severity is not Severity.SUGGESTION] == []


def test_all_of_them_together_are_left_alone():
    report = review_sources({f"src/{sample.name}": sample.read_text() for sample in SAMPLES})
    assert [str(c.location) + " " + c.rule for c in report.claims if c.severity is not Severity.SUGGESTION] == []


FAULTS = [
    ("adversarial_pair", "            c_optimizer.zero_grad()\n", "", "ESP101"),
    ("adversarial_pair", "c_loss.backward()\n", "c_loss.backward()\n            sheets.append(c_loss)\n", "ESP301"),
    ("actor_and_critic", "            optimizer.zero_grad()\n", "", "ESP101"),
    ("actor_and_critic", ".std() + 1e-8)", ".std())", "ESP211"),
    (
        "actor_and_critic",
        "clipped += [((ratio - 1.0).abs() > clip).float().mean()]",
        "clipped += [ratio.mean().item()]",
        "ESP305",
    ),
    ("language_model", "        optimizer.zero_grad(set_to_none=True)\n", "", "ESP101"),
    ("language_model", "        scaler.unscale_(optimizer)\n", "", "ESP503"),
    (
        "language_model",
        "        logits = self.head(x)\n",
        "        logits = self.head(x)\n        print(logits)\n",
        "ESP501",
    ),
    (
        "language_model",
        "        x = self.drop(self.embed(idx))\n",
        "        x = self.drop(self.embed(idx))\n        if x.abs().max() > 9: x = x / 2\n",
        "ESP501",
    ),
    ("language_model", "    model.train()\n    return out", "    return out", "ESP103"),
    ("language_model", "    model.eval()\n", "", "ESP102"),
    ("language_model", "@torch.no_grad()\ndef estimate", "def estimate", "ESP302"),
    (
        "language_model",
        "targets is None:\n            return logits, None",
        "targets is None:\n            return F.softmax(logits), None",
        "ESP202",
    ),
    ("phases", "with torch.inference_mode():", "with torch.autocast(device):", "ESP302"),
    ("phases", "loss.detach() * inputs.size(0)", "loss * inputs.size(0)", "ESP301"),
    ("phases", "                optimizer.zero_grad()\n", "", "ESP101"),
    ("distillation", "        self.sampler.set_epoch(epoch)\n", "", "ESP204"),
    ("distillation", "losses.append(loss.detach())", "losses.append(loss)", "ESP301"),
    ("distillation", "losses.append(loss.detach())", "losses.append(loss.item())", "ESP305"),
    ("distillation", "            self.optimizer.zero_grad()\n", "", "ESP101"),
    ("distillation", "        self.student.eval()\n", "", "ESP102"),
    ("distillation", "        self.student.train()\n", "", "ESP103"),
    ("distillation", "scores = self.student(view)", "scores = self.student(view).softmax(-1)", "ESP201"),
    (
        "distillation",
        "F.log_softmax(scores / self.temperature, dim=-1), target",
        "F.softmax(scores, dim=-1).log(), target",
        "ESP210",
    ),
    (
        "distillation",
        """    missing, unexpected = model.load_state_dict(torch.load(path, weights_only=True), strict=False)
    if unexpected or missing:
        raise ValueError(f"{missing} {unexpected}")
""",
        "    model.load_state_dict(torch.load(path, weights_only=True), strict=False)\n",
        "ESP203",
    ),
    ("distillation", "weights_only=True", "weights_only=False", "ESP901"),
    ("line_search", "        model.zero_grad()\n", "", "ESP101"),
    ("line_search", "            a.grad = None\n            b.grad = None\n", "", "ESP101"),
    ("line_search", "total += loss.detach()", "total += loss", "ESP301"),
    ("accelerated", "                optimizer.zero_grad()\n", "", "ESP101"),
    ("accelerated", "loss.detach().float()", "loss.float()", "ESP301"),
    ("accelerated", "        model.train()\n", "", "ESP103"),
    (
        "accelerated",
        "            with torch.no_grad():\n                outputs = model(**batch)\n",
        "            outputs = model(**batch)\n",
        "ESP302",
    ),
    ("accelerated", 'self.log("loss", loss)', "self.outputs.append(loss)", "ESP301"),
]


@pytest.mark.parametrize(
    ("name", "right", "wrong", "rule"), FAULTS, ids=[f"{n}-{r}-{i}" for i, (n, _, _, r) in enumerate(FAULTS)]
)
def test_a_fault_put_into_a_program_that_is_right_is_found(name, right, wrong, rule):
    source = next(sample for sample in SAMPLES if sample.stem == name).read_text()
    assert right in source
    report = review_sources({f"src/{name}.py": source.replace(right, wrong, 1)})
    assert not report.unreadable
    assert rule in {claim.rule for claim in report.claims}
