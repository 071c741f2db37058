"""Cases of axes: of divergences (ESP289), of norms (ESP299) and of softmaxes (ESP202)."""

from __future__ import annotations

import pytest

DIVERGENCE = """
    import torch

    def loss(reconstruction, mu, logvar):
        term = 1 + logvar - mu.pow(2) - logvar.exp()
        kl = {kl}
        return reconstruction + kl
    """


@pytest.mark.parametrize(
    "kl",
    [
        "-0.5 * torch.sum(1 + logvar - mu ** 2 - logvar.exp(), dim=0).mean()",
        "(-0.5 * (1 + logvar - mu * mu - torch.exp(logvar))).sum(0).mean()",
        "torch.mean(-0.5 * torch.sum(term, dim=0))",
        "(0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar)).mean(dim=1).sum()",
    ],
)
def test_a_divergence_summed_over_the_batch_is_reported(found, kl):
    assert found("ESP289", DIVERGENCE.format(kl=kl)) == [f"kl = {kl}"]


@pytest.mark.parametrize(
    "kl",
    [
        "-0.5 * torch.sum(term, dim=1).mean()",
        "-0.5 * term.mean(0).sum()",
        "-0.5 * term.sum() / mu.size(0)",
        "(mu - 1).pow(2).sum(0).mean()",
    ],
)
def test_a_divergence_summed_over_the_latent_is_not_reported(found, kl):
    assert found("ESP289", DIVERGENCE.format(kl=kl)) == []


COSINES = """
    import torch
    import torch.nn.functional as F

    def compare(z, w, labels):
        z = {normalised}
        scores = {product}
        return {use}
    """
USE = "F.cross_entropy(scores / 0.1, labels)"


@pytest.mark.parametrize(
    ("normalised", "product", "use"),
    [
        ("F.normalize(z, dim=0)", "z @ z.t()", USE),
        ("F.normalize(z, p=2, dim=0)", "torch.mm(w, z.T)", "scores.topk(5)"),
        ("z / z.norm(dim=0, keepdim=True)", "torch.matmul(z, z.transpose(0, 1))", "scores.argmax(1)"),
        ("F.normalize(z, dim=0)", "torch.einsum('nd,md->nm', w, z)", USE),
    ],
)
def test_rows_normalised_along_the_batch_are_reported(found, normalised, product, use):
    source = COSINES.format(normalised=normalised, product=product, use=use)
    assert found("ESP299", source) == [f"z = {normalised}"]


@pytest.mark.parametrize(
    ("normalised", "product", "use"),
    [
        ("F.normalize(z, dim=1)", "z @ z.t()", USE),
        ("F.normalize(z, dim=0)", "w @ z", USE),
        ("F.normalize(z, dim=0)", "z.t() @ z", USE),
        ("F.normalize(z, dim=0)", "w @ z @ z.t()", "scores"),
        ("(z - z.mean(0)) / z.std(0)", "z @ z.t()", USE),
    ],
)
def test_columns_and_rows_of_length_one_are_not_reported(found, normalised, product, use):
    assert found("ESP299", COSINES.format(normalised=normalised, product=product, use=use)) == []


CHOSEN = """
    import torch

    def gates(router, x):
        scores = router(x)
        top, places = scores.topk(2, dim=-1)
        sparse = torch.full_like(scores, float("-inf")).scatter({axis}, places, top)
        return sparse.softmax(dim={dim})
    """


def test_a_softmax_along_another_axis_than_the_choice_is_advice(found):
    assert found("ESP202", CHOSEN.format(axis=-1, dim=1)) == ["return sparse.softmax(dim=1)"]
    assert found("ESP202", CHOSEN.format(axis=-1, dim=-1)) == []


BEST = """
    import torch

    def predict(model, x):
        probability = model(x).softmax(dim={one})
        return probability.argmax(dim={two})
    """


@pytest.mark.parametrize(("one", "two", "count"), [(1, -1, 1), (1, 1, 0), (-1, -1, 0)])
def test_the_best_along_another_axis_than_the_softmax_is_advice(found, one, two, count):
    assert len(found("ESP202", BEST.format(one=one, two=two))) == count


LANGUAGE = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Blocks(torch.utils.data.Dataset):
        def __getitem__(self, i):
            chunk = self.data[i : i + 65]
            return {sample}

    class Model(nn.Module):
        def forward(self, ids, labels=None):
            scores = self.head(ids)
            if labels is None:
                return scores
            one, two = {pair}
            return F.cross_entropy(one.flatten(0, 1), two.flatten())

    def fit(loader):
        model = Model()
        for x, y in loader:
            model(x, labels={labels}).backward()
    """
SHIFT = "one, two = scores[:, :-1], labels[:, 1:]"


@pytest.mark.parametrize(
    ("pair", "labels"),
    [
        ("scores[:, :-1], labels[:, 1:]", "y"),
        ("scores[:, :-1].contiguous(), labels[:, 1:].contiguous()", "y.to('cuda')"),
        ("scores[..., :-1, :], labels[..., 1:]", "y"),
    ],
)
def test_a_model_of_the_project_that_shifts_shifted_labels_is_reported(found, pair, labels):
    source = LANGUAGE.format(sample="chunk[:-1], chunk[1:]", pair=pair, labels=labels)
    assert found("ESP267", source) == [f"one, two = {pair}"]


@pytest.mark.parametrize(
    ("sample", "pair", "labels"),
    [
        ("chunk, chunk", "scores[:, :-1], labels[:, 1:]", "y"),
        ("chunk[:-1], chunk[1:]", "scores, labels", "y"),
        ("chunk[:-1], chunk[1:]", "scores[:, :-1], labels[:, 1:]", "x"),
    ],
)
def test_labels_that_are_shifted_once_are_not_reported(found, sample, pair, labels):
    assert found("ESP267", LANGUAGE.format(sample=sample, pair=pair, labels=labels)) == []
