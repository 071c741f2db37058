"""Targets that make NaN or Inf. The line at fault ends in `# fault: NAME`, where NAME is the target's."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

INF = float("inf")


def divides(x):
    scale = x.sum(dim=1, keepdim=True) * 0
    shares = x / scale  # fault: divides
    return shares.mean()


def log_of_zero(x):
    likely = torch.softmax(x * 1e4, dim=-1)
    surprise = -(likely * likely.log()).sum(dim=-1)  # fault: log_of_zero
    return surprise.mean()


def log_of_negative(x):
    return torch.log(x - 10).sum()  # fault: log_of_negative


def sqrt_of_negative(x):
    variance = (x * x).mean() - 2 * x.pow(2).mean()
    return variance.sqrt()  # fault: sqrt_of_negative


def sqrt_at_zero(x):
    gaps = x - x.detach()
    distance = (gaps**2).sum(dim=1).sqrt()  # fault: sqrt_at_zero
    return distance.mean()


def hand_made_softmax(x):
    weights = torch.exp(x * 1000)  # fault: hand_made_softmax
    return (weights / weights.sum(dim=-1, keepdim=True)).mean()


def half_overflow(x):
    halves = (x.abs() + 1).half() * 300
    energy = halves * halves  # fault: half_overflow
    return energy.float().mean()


def cast_overflow(x):
    large = x.abs() * 1e5 + 1e5
    return large.to(torch.float16).sum()  # fault: cast_overflow


def zero_times_inf(x):
    mask = torch.zeros_like(x)
    scores = x.masked_fill(x > -INF, -INF)
    return (scores * mask).sum()  # fault: zero_times_inf


def inf_minus_inf(x):
    limits = torch.full_like(x, INF)
    return (limits - limits).sum() + x.sum()  # fault: inf_minus_inf


def overflows(x):
    large = (x.abs() + 1) * 1e25
    return (large @ large.t()).mean()  # fault: overflows


class Attention(nn.Module):
    """One head, with a mask that leaves the last query nothing."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        scores = self.queries(x) @ self.keys(x).transpose(-1, -2)
        seen = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril(-1)
        scores = scores.masked_fill(~seen, -INF)
        return torch.softmax(scores, dim=-1) @ x  # fault: masked_row


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([nn.Identity(), Attention()])

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return x


def masked_row():
    return Encoder()


def runaway():
    model = nn.Sequential(nn.Linear(8, 32), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    inputs, targets = torch.randn(64, 8), torch.randn(64, 1)

    def step():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def wild_weights():
    layers = [nn.Linear(256, 256) for _ in range(20)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=10.0)
    return nn.Sequential(*layers)


def bad_input(x, weights):
    return (x * weights).sum()  # fault: bad_input


def bad_batch():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = torch.randn(6, 8, 4)
    batches[3, 5, 2] = float("nan")
    served = iter(batches)

    def step():
        batch = next(served)
        loss = model(batch).pow(2).mean()  # fault: bad_batch
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def bad_parameter():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        model[2].weight[1, 3] = float("nan")
    return model


def uninitialised(x):
    padded = torch.empty(x.shape[0], x.shape[1] + 4)  # fault: uninitialised
    padded[:, : x.shape[1]] = x
    return padded.sum(dim=0)


def one_element(x):
    return x[:, :1].std(dim=1).mean()  # fault: one_element


def power_of_negative(x):
    return (-x.abs() - 1).pow(1.5).sum()  # fault: power_of_negative


def out_of_domain(x):
    cosine = functional.normalize(x, dim=-1) @ functional.normalize(x, dim=-1).t()
    return torch.acos(cosine + 0.001).mean()  # fault: out_of_domain


def where_gradient(x):
    safe = x > 0
    roots = (x * safe).sqrt()  # fault: where_gradient
    return torch.where(safe, roots, torch.zeros_like(x)).sum()


def where_log(x):
    return torch.where(x > 0, torch.sqrt(x), x).mean()  # fault: where_log


def all_ignored(x):
    targets = torch.full((x.shape[0],), -100)
    return functional.cross_entropy(x, targets)  # fault: all_ignored


def mean_of_nothing(x):
    return x[x > 1e9].mean()  # fault: mean_of_nothing


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x / (x - x)  # fault: own_backward


def own_backward(x):
    return Scale.apply(x).sum()


def checkpointed(x):
    def block(y):
        return (y - y.detach()).abs().sqrt()  # fault: checkpointed

    return checkpoint(block, x, use_reentrant=False).sum()


def target_masked_out(x):
    blocked = torch.zeros(x.shape[1], dtype=torch.bool)
    blocked[2] = True
    logits = x.masked_fill(blocked, -INF)  # fault: target_masked_out
    return functional.cross_entropy(logits, torch.full((x.shape[0],), 2))


def in_place(x):
    scaled = x.clone()
    scaled.div_(scaled - scaled)  # fault: in_place
    return scaled.sum()


def raises(x):
    probabilities = torch.softmax(x, dim=-1) / (x - x).sum()  # fault: raises
    return torch.multinomial(probabilities, 1)


def adam_without_epsilon():
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adam([weight], lr=0.1, eps=0.0)

    def step():
        optimizer.zero_grad()
        loss = (weight[:2] ** 2).sum() + (weight[2:] * 0).sum()
        loss.backward()
        optimizer.step()  # fault: adam_without_epsilon
        return loss

    return step


def scale_never_fits():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step():
        optimizer.zero_grad()
        outputs = model(torch.ones(2, 4))
        loss = (outputs - outputs.detach()).abs().sqrt().sum()  # fault: scale_never_fits
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def negative_variance():
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
    model[1].running_var.fill_(-1.0)
    return model.eval()


def where_division(x):
    counts = (x > 0).sum(dim=1, keepdim=True) * 0
    return torch.where(counts > 0, x / counts, torch.zeros_like(x)).sum()  # fault: where_division


class Broken(nn.Module):
    def forward(self, x):
        return torch.log(x - x) * 0  # fault: compiled_model


def compiled_model():
    return torch.compile(nn.Sequential(nn.Linear(8, 8), Broken()), backend="eager")


def vmapped(x):
    return torch.vmap(lambda row: row / (row - row))(x).sum()  # fault: vmapped


def functional_gradient(x):
    def loss(row):
        return (row - row.detach()).abs().sqrt().sum()  # fault: functional_gradient

    return torch.func.grad(loss)(x)


def autocast(x):
    layer = nn.Linear(8, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        y = layer(x * 1e5)  # fault: autocast
    return y.float().sum()


def gradient_penalty():
    weight = nn.Parameter(torch.zeros(4, 3))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step():
        optimizer.zero_grad()
        x = torch.ones(2, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad((x @ weight).sum(), x, create_graph=True)
        loss = ((gradient * gradient).sum(1).sqrt() - 1).pow(2).mean()  # fault: gradient_penalty
        loss.backward()
        optimizer.step()
        return loss

    return step


def sparse_gradient():
    table = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        x = table(torch.tensor([1, 2, 3]))
        loss = (x - x.detach()).abs().sqrt().sum()  # fault: sparse_gradient
        loss.backward()
        optimizer.step()
        return loss

    return step


def closure():
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.LBFGS([weight], lr=1.0)

    def step():
        def loss_of():
            optimizer.zero_grad()
            loss = (weight - 1).abs().sqrt().sum()  # fault: closure
            loss.backward()
            return loss

        return optimizer.step(loss_of)

    return step


def dataset():
    samples = torch.randn(40, 4)
    samples[27, 1] = float("nan")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(samples), batch_size=8)
    model, batches = nn.Linear(4, 1), iter(loader)

    def step():
        (batch,) = next(batches)  # fault: dataset
        return model(batch).mean()

    return step


class OwnOptimizer(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, _closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                each.sub_(each.grad / (each.grad - each.grad))  # fault: own_optimizer


def own_optimizer():
    weight = nn.Parameter(torch.ones(3))
    optimizer = OwnOptimizer([weight])

    def step():
        optimizer.zero_grad()
        (weight * 2).sum().backward()
        optimizer.step()

    return step


def number_only():
    weight = torch.ones(3)

    def step():
        total = (weight / (weight - weight)).mean().item()  # fault: number_only
        return {"loss": total, "rate": 0.1}

    return step


def asserts(x):
    loss = (x / (x - x)).mean()  # fault: asserts
    assert torch.isfinite(loss), "diverged"
    return loss


def all_padding(x):
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    padding = torch.zeros(1, x.shape[0], dtype=torch.bool)
    padding[0] = True
    return attention(x[None], x[None], x[None], key_padding_mask=padding)[0].sum()  # fault: all_padding


def too_long(x):
    scores, targets = x[:3, None, :5].log_softmax(2), torch.tensor([[1, 1, 2, 2]])
    return functional.ctc_loss(scores, targets, torch.tensor([3]), torch.tensor([4]))  # fault: too_long


def equal_singular(x):
    u, _, _ = torch.linalg.svd(torch.eye(4) + 0 * x[:4, :4])  # fault: equal_singular
    return (u * x[:4, :4].detach()).sum()


def vanished_epsilon(x):
    halves = torch.zeros_like(x).half()
    return (x.half() / (halves + 1e-8)).sum()  # fault: vanished_epsilon


@torch.no_grad()
def written_elsewhere(x):
    result = torch.empty_like(x)
    torch.div(x, x - x, out=result)  # fault: written_elsewhere
    return result.sum()


def partly_filled(x):
    padded = torch.empty(3, x.shape[1])
    padded[0] = x[0] / (x[0] - x[0])  # fault: partly_filled
    padded[1:] = 1
    return padded.sum()


def raises_otherwise(x):
    ratio = x / (x - x)
    return torch.where(ratio.isnan(), x, x) @ torch.ones(3)


def bad_weights():
    weights = torch.ones(4)
    weights[2] = float("nan")
    return torch.randn(4), weights


def wide():
    return nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 1))


def marked_up(x):
    return x / (x - x) + len("[red]0[/red]")  # fault: marked_up


def far_away(x):
    divisors = torch.ones(3, 1_500_000)
    divisors[2, 1_234_567] = 0
    return (1 / divisors).sum() + x.sum()  # fault: far_away
