"""Compares the floating-point operations that a profile reports with counts by hand, module by module.

    python benchmarks/flops.py

A product of an a x b with a b x c matrix is 2abc; every hand count below is built from that alone. Beside them stands
what `torch.utils.flop_counter.FlopCounterMode` says. Exits with 1 where a count of ours is not the one by hand.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

# B batch, T time, S tokens, E embedding, H hidden, I and O in and out, F feed-forward


@dataclass(frozen=True)
class Case:
    """One module with its count by hand.

    Attributes:
        name: What it is.
        run: Called with the inputs.
        inputs: Fresh for this case; they want a gradient where it has a backward pass.
        forward: Operations of the forward pass.
        backward: Operations of the backward pass; None where it has none.
    """

    name: str
    run: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    forward: int
    backward: int | None


def convolutions() -> list[Case]:
    """Return convolutions: an output (or, transposed, an input) place times the weights of one group."""
    from torch import nn

    def case(name: str, module: Any, sizes: tuple[int, ...], once: int) -> Case:
        return Case(name, module, (_input(*sizes),), once, 2 * once)

    return [
        case("Conv1d, stride 2", nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 11), 2 * 2 * 6 * 6 * 4 * 3),
        case("Conv2d, padded", nn.Conv2d(3, 8, 3, padding=1), (2, 3, 7, 7), 2 * 2 * 49 * 8 * 3 * 9),
        case("Conv2d, 2 groups", nn.Conv2d(4, 8, 3, stride=2, groups=2), (2, 4, 9, 9), 2 * 2 * 16 * 8 * 2 * 9),
        case("Conv2d, depthwise", nn.Conv2d(6, 6, 3, groups=6), (2, 6, 8, 8), 2 * 2 * 36 * 6 * 1 * 9),
        case("Conv2d, dilated", nn.Conv2d(3, 5, 3, dilation=2), (1, 3, 9, 9), 2 * 25 * 5 * 3 * 9),
        case("Conv3d", nn.Conv3d(2, 4, 2), (1, 2, 4, 5, 6), 2 * 3 * 4 * 5 * 4 * 2 * 8),
        case("ConvTranspose1d, stride 2", nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 5), 2 * 2 * 5 * 4 * 6 * 3),
        case(
            "ConvTranspose2d, 2 groups",
            nn.ConvTranspose2d(4, 8, 3, stride=2, groups=2),
            (2, 4, 5, 5),
            2 * 2 * 25 * 4 * 4 * 9,
        ),
        case("ConvTranspose3d", nn.ConvTranspose3d(2, 3, 2), (1, 2, 3, 3, 3), 2 * 27 * 2 * 3 * 8),
    ]


def products() -> list[Case]:
    """Return products of matrices, and what is written differently and is one."""
    import torch
    from torch import nn

    one, other, vector = _input(3, 4, 5), _input(3, 5, 6), _input(5)
    return [
        Case("Linear", nn.Linear(8, 16), (_input(4, 8),), 2 * 4 * 8 * 16, 2 * 2 * 4 * 8 * 16),
        Case("Linear, no bias, 3-D", nn.Linear(8, 16, bias=False), (_input(2, 3, 8),), 2 * 6 * 8 * 16, 4 * 6 * 8 * 16),
        # O products of x1 with a slice of the weight, then with x2; the gradients need one such product each.
        Case("Bilinear", nn.Bilinear(3, 5, 7), (_input(2, 3), _input(2, 5)), 2 * 2 * 7 * (15 + 5), 3 * 2 * 2 * 7 * 15),
        Case("bmm", torch.bmm, (one, other), 2 * 3 * 4 * 5 * 6, 4 * 3 * 4 * 5 * 6),
        Case("baddbmm", torch.baddbmm, (_input(3, 4, 6), one, other), 2 * 3 * 4 * 5 * 6, 4 * 3 * 4 * 5 * 6),
        Case("addbmm", torch.addbmm, (_input(4, 6), one, other), 2 * 3 * 4 * 5 * 6, 4 * 3 * 4 * 5 * 6),
        Case("matmul, broadcast", torch.matmul, (one, _input(5, 6)), 2 * 12 * 5 * 6, 4 * 12 * 5 * 6),
        Case(
            "einsum bij,bkj->bik", lambda a: torch.einsum("bij,bkj->bik", a, a), (one,), 2 * 3 * 16 * 5, 4 * 3 * 16 * 5
        ),
        Case(
            "einsum bhqd,bhkd->bhqk",
            lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b),
            (_input(2, 3, 4, 5), _input(2, 3, 6, 5)),
            2 * 2 * 3 * 4 * 6 * 5,
            4 * 2 * 3 * 4 * 6 * 5,
        ),
        Case("tensordot", lambda a: torch.tensordot(a, a, dims=([1], [1])), (_input(3, 8),), 2 * 9 * 8, 4 * 9 * 8),
        # The gradients of a matrix times a vector: an outer product, which is elementwise, and one more such product.
        Case("mv", torch.mv, (_input(4, 5), vector), 2 * 4 * 5, 2 * 4 * 5),
        Case("dot", torch.dot, (vector, _input(5)), 2 * 5, 0),
        Case("cdist", torch.cdist, (_input(30, 8, grad=False), _input(40, 8, grad=False)), 2 * 30 * 40 * (8 + 2), None),
    ]


def recurrent() -> list[Case]:
    """Return recurrent layers: at each step, products of the input and of the state with all gates together."""
    from torch import nn

    time, batch, inner, hidden = 5, 3, 8, 16
    steps = 2 * time * batch
    lstm, gru, rnn = (steps * gates * hidden * (inner + hidden) for gates in (4, 3, 1))
    both = 2 * (lstm + steps * 4 * hidden * (2 * hidden + hidden))
    cell = 2 * batch * 4 * hidden
    sequence = (_input(time, batch, inner),)
    return [
        Case("LSTM", nn.LSTM(inner, hidden), sequence, lstm, 2 * lstm),
        Case("LSTM, 2 layers, both ways", nn.LSTM(inner, hidden, 2, bidirectional=True), sequence, both, 2 * both),
        # The first state is no parameter: nobody asks for its gradient.
        Case("GRU", nn.GRU(inner, hidden), sequence, gru, 2 * gru - 2 * batch * 3 * hidden * hidden),
        Case("RNN", nn.RNN(inner, hidden), sequence, rnn, 2 * rnn - 2 * batch * hidden * hidden),
        Case(
            "LSTMCell",
            nn.LSTMCell(inner, hidden),
            (_input(batch, inner),),
            cell * (inner + hidden),
            cell * (2 * inner + hidden),
        ),
    ]


def attention() -> list[Case]:
    """Return attention: two products of S x S scores; its gradient computes the scores again, then two for each."""
    from torch import nn
    from torch.nn import functional

    batch, tokens, width, inner = 3, 4, 8, 32
    projections, scores = 2 * batch * tokens * width * 4 * width, 2 * batch * tokens * tokens * width
    layer = projections + 2 * scores + 2 * 2 * batch * tokens * width * inner
    layer_back = 2 * (layer - 2 * scores) + 5 * scores
    one = 2 * 2 * 4 * 8 * 8 * 16
    grouped = 2 * 2 * 4 * 8 * 6 * 16
    x, still = _input(batch, tokens, width), _input(batch, tokens, width, grad=False)
    heads = nn.MultiheadAttention(width, 2, batch_first=True)
    idle_heads = nn.MultiheadAttention(width, 2, batch_first=True).eval()
    encoder = nn.TransformerEncoderLayer(width, 2, inner, dropout=0.0, batch_first=True)
    idle = nn.TransformerEncoderLayer(width, 2, inner, batch_first=True).eval()
    attend = functional.scaled_dot_product_attention
    return [
        Case("attention", lambda q: attend(q, q, q), (_input(2, 4, 8, 16),), 2 * one, 5 * one),
        Case("attention, cross", attend, tuple(_input(2, 4, n, 16) for n in (8, 6, 6)), 2 * grouped, 5 * grouped),
        Case(
            "MultiheadAttention",
            lambda a: heads(a, a, a)[0],
            (x,),
            projections + 2 * scores,
            2 * projections + 4 * scores,
        ),
        Case("TransformerEncoderLayer", encoder, (x,), layer, layer_back),
        Case(
            "MultiheadAttention, fast path",
            lambda a: idle_heads(a, a, a, need_weights=False)[0],
            (still,),
            projections + 2 * scores,
            None,
        ),
        Case("TransformerEncoderLayer, fast path", idle, (still,), layer, None),
    ]


def ours(case: Case) -> tuple[int, int]:
    """Return what a profile reports for the forward and the backward pass."""
    from esper_agents.torchlab.worker.profile.attribution import Attribution
    from esper_agents.torchlab.worker.target.target import LoadedTarget

    attribution = Attribution(LoadedTarget(case.name, "function", None, None, "/nowhere", None, case.run))
    with attribution.watching():
        _call(case)
    passes = ("forward", "backward")
    forward, backward = (
        sum(operation.flops or 0 for operation in attribution.operations if operation.phase == phase)
        for phase in passes
    )
    return forward, backward


def of_torch(case: Case) -> int:
    """Return what torch's own counter says of both passes together."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        _call(case)
    return int(counter.get_total_flops())


def _call(case: Case) -> None:
    import torch

    with torch.set_grad_enabled(case.backward is not None):
        given = case.run(*case.inputs)
    given = given[0] if isinstance(given, tuple) else given
    if case.backward is not None:
        given.backward(torch.ones_like(given))


def _input(*sizes: int, grad: bool = True) -> torch.Tensor:
    import torch

    return torch.randn(*sizes, requires_grad=grad)


def main() -> int:
    """Print every count beside the one by hand; return 1 where they differ."""
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch

    torch.set_num_threads(1)
    cases = [*products(), *convolutions(), *recurrent(), *attention()]
    wrong = torch_wrong = 0
    print(f"{'module':<36}{'forward':>10}{'by hand':>10}{'backward':>10}{'by hand':>10}{'torch, both':>14}")
    for case in cases:
        forward, backward = ours(case)
        by_hand = (case.forward, case.backward or 0)
        torch_says = of_torch(case)
        wrong += (forward, backward) != by_hand
        torch_wrong += torch_says != sum(by_hand)
        verdict = "" if (forward, backward) == by_hand else "  WRONG"
        beside = "" if torch_says == sum(by_hand) else " (not)"
        print(
            f"{case.name:<36}{forward:>10}{by_hand[0]:>10}{backward:>10}{by_hand[1]:>10}{torch_says:>8}{beside:<6}{verdict}"
        )
    print(f"modules     {len(cases)}, aim at least 15")
    print(f"unlike hand {wrong}, aim 0; torch's own counter {torch_wrong}")
    return 1 if wrong or len(cases) < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
