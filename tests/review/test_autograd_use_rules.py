"""Cases of ESP117, ESP121, ESP245 and ESP246: gradients asked for too late, and tensors that get none."""

from __future__ import annotations

import pytest

LOSS = """
    import torch
    from torch.autograd import Variable

    def train(model, loader, optimizer, criterion, scaler):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x).argmax(1).float(), y)
            {line}
            {sent}
            optimizer.step()
    """


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("loss.requires_grad = True", "loss.backward()"),
        ("loss.requires_grad_(True)", "loss.backward()"),
        ("loss.requires_grad_()", "scaler.scale(loss).backward()"),
        ("loss = Variable(loss, requires_grad=True)", "loss.backward()"),
        ("loss = torch.tensor(loss, requires_grad=True)", "loss.backward()"),
        ("loss = Variable(loss.data, requires_grad=True)", "loss.backward()"),
    ],
)
def test_a_loss_that_is_made_to_require_gradients_is_reported(found, line, sent):
    assert found("ESP245", LOSS.format(line=line, sent=sent)) == [line]


def test_a_loss_switched_on_after_a_sum_of_losses_is_reported(found):
    source = LOSS.format(line="total = loss + 0.1\n            total.requires_grad = True", sent="total.backward()")
    assert found("ESP245", source) == ["total.requires_grad = True"]


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("x.requires_grad = True", "loss.backward()"),
        ("loss.requires_grad = False", "loss.backward()"),
        ("scale = torch.ones(1)\n            scale.requires_grad = True", "(loss * scale).backward()"),
        ("weight = torch.zeros(3)\n            weight.requires_grad_()", "loss.backward()"),
        ("loss = loss.mean()", "loss.backward()"),
    ],
)
def test_other_tensors_that_require_gradients_are_not_reported(found, line, sent):
    assert found("ESP245", LOSS.format(line=line, sent=sent)) == []


REBOUND = (
    "import torch\n\n\ndef change(model, grads, batch, device, lr):\n    {loop}:\n        {line}\n    return model\n"
)


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        ("for p in model.parameters()", "p = torch.randn_like(p) * 0.02"),
        ("for p, g in zip(model.parameters(), grads)", "p = p - lr * g"),
        ("for name, p in model.named_parameters()", "p = p.clone()"),
        ("for i, p in enumerate(model.parameters())", "p = p + grads[i]"),
        ("for t in batch", "t = t.to(device)"),
        ("for k, v in batch.items()", "v = v.cuda(non_blocking=True)"),
        ("for p in model.parameters()", "p = p.clamp(-lr, lr)"),
        ("for n, p in model.named_parameters()", "p = torch.nn.init.xavier_uniform_(torch.empty_like(p))"),
    ],
)
def test_an_element_that_a_loop_rebinds_is_reported(found, loop, line):
    assert found("ESP246", REBOUND.format(loop=loop, line=line)) == [line]


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        ("for p in model.parameters()", "p.data = torch.randn_like(p)"),
        ("for p in model.parameters()", "p = p.detach(); print(p.norm())"),
        ("for t in batch", "t = t.to(device); model(t)"),
        ("for k, v in batch.items()", "v = v.cuda(); batch[k] = v"),
        ("for p in model.parameters()", "p = p.requires_grad_(False)"),
        ("for p in model.parameters()", "p = torch.nn.init.zeros_(p)"),
        ("for t in batch", "t = t.strip()"),
    ],
)
def test_an_element_that_is_used_or_changed_in_place_is_not_reported(found, loop, line):
    assert found("ESP246", REBOUND.format(loop=loop, line=line)) == []


def test_an_element_that_is_read_after_the_loop_is_not_reported(found):
    source = "import torch\n\n\ndef last(batch):\n    for t in batch:\n        t = t.to('cuda')\n    return t\n"
    assert found("ESP246", source) == []


def test_a_value_carried_by_an_inner_loop_is_not_reported(found):
    source = """
        import torch

        def run(parts, layers):
            for t in parts:
                for layer in layers:
                    t = t.to(layer(t).device)
        """
    assert found("ESP246", source) == []


SALIENCY = """
    import torch

    def saliency(model, x, y, criterion):
        model.eval()
        {before}
        out = model(x)
        {after}
        {sent}
        return {result}
    """


@pytest.mark.parametrize(
    ("after", "sent", "result"),
    [
        ("x.requires_grad_()", "out.max().backward()", "x.grad.abs()"),
        ("x.requires_grad = True", "criterion(out, y).backward()", "x.grad"),
        ("x.requires_grad_(True)", "grad = torch.autograd.grad(out.sum(), x)[0]", "grad"),
        ("x.requires_grad = True", "grad, = torch.autograd.grad(out.sum(), [x])", "grad"),
    ],
)
def test_an_input_switched_on_after_the_forward_is_reported(found, after, sent, result):
    source = SALIENCY.format(before="pass", after=after, sent=sent, result=result)
    assert found("ESP117", source) == [after]


@pytest.mark.parametrize(
    ("before", "after", "sent", "result"),
    [
        ("x.requires_grad_()", "pass", "out.max().backward()", "x.grad"),
        ("x = x.clone().requires_grad_()", "x.requires_grad_()", "out.max().backward()", "x.grad"),
        ("pass", "x.requires_grad_()", "model(x).max().backward()", "x.grad"),
        ("pass", "x.requires_grad_()\n        out = model(x)", "out.max().backward()", "x.grad"),
        ("pass", "x.requires_grad_()", "out.max().backward()", "out"),
    ],
)
def test_an_input_switched_on_in_time_is_not_reported(found, before, after, sent, result):
    assert found("ESP117", SALIENCY.format(before=before, after=after, sent=sent, result=result)) == []


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ('torch.randn(3, requires_grad=True).to("cuda")', "[w]"),
        ("torch.zeros(3, requires_grad=True).cuda()", "[{'params': [w], 'lr': 0.1}]"),
        ("torch.nn.Parameter(torch.zeros(3)).to(device)", "(w,)"),
        ("0.02 * torch.randn(3, requires_grad=True)", "[w]"),
    ],
)
def test_a_moved_leaf_that_is_optimized_is_reported(found, made, given):
    source = f"import torch\n\nw = {made}\noptimizer = torch.optim.Adam({given}, lr=0.1)\n"
    assert found("ESP121", source) == [f"w = {made}"]
    later = f"import torch\n\nw = {made}\nparams = {given}\noptimizer = torch.optim.Adam(params, lr=0.1)\n"
    assert len(found("ESP121", later)) == 1


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ('torch.randn(3, requires_grad=True, device="cuda")', "[w]"),
        ("torch.zeros(3, requires_grad=True).cuda()", "model.parameters()"),
        ("torch.zeros(3).cuda().requires_grad_()", "[w]"),
        ("torch.zeros(3, requires_grad=True).cuda().detach().requires_grad_()", "[w]"),
        ("torch.nn.Linear(3, 3).to(device)", "[w.weight]"),
    ],
)
def test_a_leaf_that_is_optimized_is_not_reported(found, made, given):
    assert found("ESP121", f"import torch\n\nw = {made}\noptimizer = torch.optim.Adam({given}, lr=0.1)\n") == []
