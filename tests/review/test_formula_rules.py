"""Cases of ESP116, ESP135 and ESP242 to ESP244: gradients of functions, blended labels, a wrong sign, shared rows."""

from __future__ import annotations

import pytest

FUNCTION = """
    import torch

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward({inputs}):
            return x

        @staticmethod
        def backward(ctx, grad):
            return {result}
    """


@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        ("ctx, x, factor", "grad * 2"),
        ("ctx, x, factor", "grad, None, grad"),
        ("ctx, x", "grad * 2, grad"),
        ("ctx, x, w, b", "grad, grad"),
    ],
)
def test_a_wrong_number_of_gradients_is_reported(found, inputs, result):
    assert found("ESP116", FUNCTION.format(inputs=inputs, result=result)) == [f"return {result}"]


@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        ("ctx, x, factor", "grad * 2, None"),
        ("ctx, x", "grad, None"),
        ("ctx, x", "-grad"),
        ("ctx, x, factor=2", "grad * 2"),
        ("ctx, x, *rest", "grad * 2"),
        ("ctx, x, factor", "grads_of(grad)"),
        ("ctx, x, factor", "(None,) + (grad,)"),
        ("ctx, x, factor", "(grad, *[None])"),
    ],
)
def test_fitting_and_unknown_numbers_of_gradients_are_not_reported(found, inputs, result):
    assert found("ESP116", FUNCTION.format(inputs=inputs, result=result)) == []


def test_inputs_are_counted_without_ctx_where_setup_context_is_defined(found):
    source = FUNCTION.format(inputs="x, factor", result="grad * 2, None")
    source += "\n        @staticmethod\n        def setup_context(ctx, inputs, output):\n            pass\n"
    assert found("ESP116", source) == []


RESIZED = """
    import torch
    import torch.nn.functional as F

    def resized(labels, size):
        {lines}
    """


@pytest.mark.parametrize(
    "lines",
    [
        "return F.interpolate(labels.float(), size, mode='bilinear').long()",
        "return F.interpolate(labels.float(), size=size, mode='bicubic')[:, 0].squeeze(1).long()",
        "out = F.interpolate(labels.float(), size, mode='bilinear'); return out.to(torch.int64)",
    ],
)
def test_blended_labels_are_reported(found, lines):
    assert len(found("ESP242", RESIZED.format(lines=lines))) == 1


@pytest.mark.parametrize(
    "lines",
    [
        "return F.interpolate(labels.float(), size, mode='nearest').long()",
        "return F.interpolate(labels.float(), size).long()",
        "return F.interpolate(labels, size, mode='bilinear').argmax(1).long()",
        "return (F.interpolate(labels, size, mode='bilinear') > 0.5).long()",
        "return F.interpolate(labels, size, mode='bilinear').mul(255).round().long()",
        "return F.interpolate(labels, size, mode='bilinear').to(labels.device)",
    ],
)
def test_other_resizings_are_not_reported(found, lines):
    assert found("ESP242", RESIZED.format(lines=lines)) == []


DIVERGENCE = """
    import torch

    def loss(fit, mu, logvar, beta):
        kld = {value}
        {use}
    """


@pytest.mark.parametrize(
    "value",
    [
        "0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())",
        "torch.mean(0.5 * torch.sum(1 + logvar - mu ** 2 - torch.exp(logvar), dim=1))",
        "(1 + logvar - mu * mu - logvar.exp()).sum(-1).mean() / 2",
        "-0.5 * torch.sum(mu ** 2 + logvar.exp() - logvar - 1)",
    ],
)
@pytest.mark.parametrize("use", ["return fit + kld", "return fit + beta * kld", "fit += kld; return fit"])
def test_minus_the_divergence_that_is_added_is_reported(found, value, use):
    assert found("ESP243", DIVERGENCE.format(value=value, use=use)) == [f"kld = {value}"]


@pytest.mark.parametrize(
    ("value", "use"),
    [
        ("-0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())", "return fit + kld"),
        ("0.5 * torch.sum(mu ** 2 + logvar.exp() - logvar - 1)", "return fit + kld"),
        ("0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())", "return fit - kld"),
        ("0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())", "return fit + -beta * kld"),
        ("0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())", "return kld"),
        ("0.5 * torch.sum(1 + logvar - mu.pow(2))", "return fit + kld"),
    ],
)
def test_the_divergence_and_bounds_are_not_reported(found, value, use):
    assert found("ESP243", DIVERGENCE.format(value=value, use=use)) == []


EXPANDED = """
    import torch

    def starts(x, n, flag):
        rows = {made}
        {write}
        return rows
    """


@pytest.mark.parametrize("made", ["x.expand(n, 4)", "x.expand_as(flag)", "torch.broadcast_to(x, (n, 4))"])
@pytest.mark.parametrize("write", ["rows[0] = 1", "rows[:, 1] += 2", "rows.add_(1)", "rows.masked_fill_(flag, 0)"])
def test_a_write_to_rows_that_share_memory_is_reported(found, made, write):
    assert found("ESP244", EXPANDED.format(made=made, write=write)) == [write]


@pytest.mark.parametrize(
    ("made", "write"),
    [
        ("x.expand(n, 4).clone()", "rows[0] = 1"),
        ("x.repeat(n, 1)", "rows[0] = 1"),
        ("x.expand(-1, 1)", "rows[0] = 1"),
        ("x.expand(n, 4)", "rows = rows + 1"),
        ("x.expand(n, 4) if flag else x.clone()", "rows[0] = 1"),
        ("x.expand(n, 4)", "rows.requires_grad_()"),
    ],
)
def test_copies_and_reads_are_not_reported(found, made, write):
    assert found("ESP244", EXPANDED.format(made=made, write=write)) == []


IGNORED = """
    import torch

    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            {lines}
    """


@pytest.mark.parametrize(
    "lines", ["return (x.abs() <= 1).float()", "return torch.ones_like(x)", "return ctx.saved, None", "return x, x"]
)
def test_a_backward_that_ignores_its_gradient_is_reported(found, lines):
    assert found("ESP135", IGNORED.format(lines=lines)) == [lines]


@pytest.mark.parametrize(
    "lines",
    [
        "return grad * (x.abs() <= 1)",
        "result = grad.clone(); result[x > 1] = 0; return result",
        "return None",
        "return torch.zeros_like(x)",
        "raise RuntimeError('no gradient')",
        "return Round.apply(x), *locals()['grad']",
    ],
)
def test_a_backward_that_uses_its_gradient_or_gives_none_is_not_reported(found, lines):
    assert found("ESP135", IGNORED.format(lines=lines)) == []
