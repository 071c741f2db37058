"""Models of many kinds, each as a factory beside the inputs that it is trained on: `NAME` and `NAME_inputs`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

# B batch, T time, C channels, H heads, E experts


def _images(batch: int, channels: int, size: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(batch, channels, size, size),)


def _rows(*size: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(*size),)


def _tokens(vocabulary: int, *size: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(0, vocabulary, size),)


def mlp() -> nn.Module:
    """Return a plain perceptron."""
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 256))


def mlp_in_place() -> nn.Module:
    """Return one whose activations overwrite their inputs."""
    relu = nn.ReLU(inplace=True)
    return nn.Sequential(nn.Linear(256, 1024), relu, nn.Linear(1024, 1024), relu, nn.Linear(1024, 256))


def cnn() -> nn.Module:
    """Return a small convolutional classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.norms[0](self.first(x)), inplace=True)
        return functional.relu(self.norms[1](self.second(hidden)) + self.shortcut(x), inplace=True)


def residual() -> nn.Module:
    """Return a residual network, whose gradients meet where the paths part."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        _Block(32, 32),
        _Block(32, 64, 2),
        _Block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def transformer() -> nn.Module:
    """Return an encoder with dropout."""
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 2)


def transformer_norm_first() -> nn.Module:
    """Return an encoder that normalises first."""
    layer = nn.TransformerEncoderLayer(128, 4, 256, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class _Language(nn.Module):
    def __init__(self, *, is_tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, 64)
        self.recurrent = nn.LSTM(64, 128, 2, batch_first=True)
        self.narrow = nn.Linear(128, 64)
        self.out = nn.Linear(64, 2000, bias=False)
        if is_tied:
            self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.out(self.narrow(self.recurrent(self.embed(tokens))[0]))
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def lstm() -> nn.Module:
    """Return a recurrent language model."""
    return _Language(is_tied=False)


def tied_weights() -> nn.Module:
    """Return one whose first and last weights are the same."""
    return _Language(is_tied=True)


class _Bidirectional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(64, 128, bidirectional=True)
        self.out = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.out(self.recurrent(x)[0][-1])
        return result


def gru() -> nn.Module:
    """Return a recurrent classifier that reads both ways."""
    return _Bidirectional()


def _double_convolution(before: int, after: int) -> nn.Module:
    relu = nn.ReLU(inplace=True)
    return nn.Sequential(nn.Conv2d(before, after, 3, 1, 1), relu, nn.Conv2d(after, after, 3, 1, 1), relu)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList((_double_convolution(3, 16), _double_convolution(16, 32)))
        self.middle = _double_convolution(32, 64)
        self.up = nn.ModuleList((nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)))
        self.joined = nn.ModuleList((_double_convolution(64, 32), _double_convolution(32, 16)))
        self.out = nn.Conv2d(16, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down[0](x)
        coarse = self.down[1](functional.max_pool2d(fine, 2))
        hidden = self.middle(functional.max_pool2d(coarse, 2))
        hidden = self.joined[0](torch.cat([self.up[0](hidden), coarse], 1))
        hidden = self.joined[1](torch.cat([self.up[1](hidden), fine], 1))
        result: Tensor = self.out(hidden)
        return result


def unet() -> nn.Module:
    """Return a network whose early activations are used late."""
    return _UNet()


class _Attention(nn.Module):
    def __init__(self, width: int = 128, heads: int = 4, *, kind: str = "fused") -> None:
        super().__init__()
        self.heads, self.kind = heads, kind
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        query, key, values = self.project(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.kind == "by hand":
            scores = query @ key.transpose(-1, -2) / math.sqrt(c // self.heads)
            mixed = scores.softmax(-1) @ values
        else:
            mask = torch.zeros(t, t) if self.kind == "masked" else None
            is_causal = self.kind == "causal"
            mixed = functional.scaled_dot_product_attention(query, key, values, mask, is_causal=is_causal)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return result


def attention() -> nn.Module:
    """Return attention by the fused operation."""
    return _Attention()


def attention_masked() -> nn.Module:
    """Return attention with a mask."""
    return _Attention(kind="masked")


def attention_by_hand() -> nn.Module:
    """Return attention that keeps all scores."""
    return _Attention(kind="by hand")


class _Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = _Attention(96, kind="causal")
        self.norms = nn.ModuleList(nn.LayerNorm(96) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(96, 384), nn.GELU(), nn.Linear(384, 96), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        result: Tensor = x + self.feed(self.norms[1](x))
        return result


class _Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(1000, 96), nn.Embedding(64, 96)
        self.blocks = nn.ModuleList(_Decoder() for _ in range(2))
        self.norm = nn.LayerNorm(96)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.embed(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.norm(hidden) @ self.embed.weight.T
        return functional.cross_entropy(logits[:, :-1].reshape(-1, 1000), tokens[:, 1:].reshape(-1))


def gpt() -> nn.Module:
    """Return a decoder with tied weights and its loss."""
    return _Gpt()


class _Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(5000, 64, mode="mean")
        self.out = nn.Linear(64, 100)

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.out(self.embed(tokens))
        return result


def embedding() -> nn.Module:
    """Return a bag of embeddings."""
    return _Bag()


class _Gan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        leaky = nn.LeakyReLU(0.2)
        self.generator = nn.Sequential(nn.Linear(64, 512), leaky, nn.Linear(512, 784), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(784, 512), leaky, nn.Linear(512, 1))

    def forward(self, noise: Tensor, real: Tensor) -> Tensor:
        made = functional.softplus(-self.critic(self.generator(noise))).mean()
        return made + functional.softplus(self.critic(real)).mean()


def gan() -> nn.Module:
    """Return a generator and its critic."""
    return _Gan()


class _Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = (nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


def checkpointed() -> nn.Module:
    """Return blocks that are computed again in backward."""
    return _Checkpointed()


class _Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).requires_grad_(False)
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.body(x))
        return result


def frozen() -> nn.Module:
    """Return a model of which only the head is trained."""
    return _Frozen()


class _Autocast(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            result = self.body(x).float()
        assert isinstance(result, Tensor)
        return result


def mixed_precision() -> nn.Module:
    """Return a perceptron under autocast."""
    return _Autocast(nn.Sequential(nn.Linear(256, 1024), nn.LayerNorm(1024), nn.SiLU(), nn.Linear(1024, 256)))


def mixed_precision_cnn() -> nn.Module:
    """Return convolutions under autocast."""
    convolutions = (nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten())
    return _Autocast(nn.Sequential(*convolutions, nn.Linear(32 * 28 * 28, 10)))


def convolutions_1d() -> nn.Module:
    """Return depth-wise and point-wise convolutions of a signal."""
    wide = nn.Conv1d(64, 64, 5, padding=2, groups=64)
    first = nn.Conv1d(16, 64, 5, padding=2)
    return nn.Sequential(first, nn.GroupNorm(8, 64), nn.SiLU(), wide, nn.Dropout(0.2), nn.Conv1d(64, 16, 1))


def convolutions_3d() -> nn.Module:
    """Return convolutions of a volume."""
    pool = nn.AvgPool3d(2)
    first, second = nn.Conv3d(1, 8, 3, padding=1), nn.Conv3d(8, 16, 3, padding=1)
    return nn.Sequential(first, nn.InstanceNorm3d(8), nn.ELU(), pool, second)


def dilated() -> nn.Module:
    """Return grouped, dilated and shuffled convolutions."""
    grouped, point = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 64, 1)
    wide = nn.Conv2d(64, 64, 3, padding=2, dilation=2)
    return nn.Sequential(grouped, point, nn.Hardswish(), nn.BatchNorm2d(64), wide, nn.PixelShuffle(2))


class _Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 8, 8)
        self.start = nn.Parameter(torch.zeros(1, 1, 128))
        self.places = nn.Parameter(torch.zeros(1, 65, 128))
        layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        start = self.start.expand(x.shape[0], -1, -1)
        hidden = self.body(torch.cat([start, patches], 1) + self.places)
        result: Tensor = self.head(hidden[:, 0])
        return result


def vision_transformer() -> nn.Module:
    """Return a transformer of image patches."""
    return _Vit()


class _Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.mean, self.log_variance = nn.Linear(784, 256), nn.Linear(256, 32), nn.Linear(256, 32)
        self.decode = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 784))

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.encode(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        kept = functional.binary_cross_entropy_with_logits(self.decode(drawn), x.sigmoid())
        result: Tensor = kept - 0.5 * (1 + log_variance - mean * mean - log_variance.exp()).mean()
        return result


def autoencoder() -> nn.Module:
    """Return a variational autoencoder with its loss."""
    return _Vae()


class _Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        every = torch.stack([expert(x) for expert in self.experts], 1)
        picked = every.gather(1, chosen[..., None].expand(-1, -1, 64))
        result: Tensor = (picked * weights[..., None]).sum(1)
        return result


def experts() -> nn.Module:
    """Return a mixture of experts, whose backward scatters."""
    return _Experts()


class _Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return 2 * x * gradient


class _Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(256, 512), nn.Linear(512, 64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(_Square.apply(self.first(x)))  # type: ignore[no-untyped-call]  # torch's own stubs
        return result


def own_function() -> nn.Module:
    """Return a model with a backward of its own."""
    return _Own()


def bilinear_upsampling() -> nn.Module:
    """Return a network that makes images larger."""
    first, second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
    wider = nn.Upsample(scale_factor=2, mode="bilinear")
    return nn.Sequential(first, wider, second, nn.Softplus(), nn.Upsample(scale_factor=2))


def channels_last() -> nn.Module:
    """Return convolutions with channels last in memory."""
    first, second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
    body: nn.Module = nn.Sequential(first, nn.BatchNorm2d(32), nn.ReLU(), second)
    return body.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]  # torch's own stubs


def weight_norm() -> nn.Module:
    """Return layers whose weights are computed from others."""
    parametrizations = torch.nn.utils.parametrizations
    first = parametrizations.weight_norm(nn.Linear(256, 512))
    return nn.Sequential(first, nn.Mish(), parametrizations.spectral_norm(nn.Linear(512, 64)))


INPUTS: dict[str, Callable[[], tuple[Tensor, ...]]] = {
    "mlp": _rows(512, 256),
    "mlp_in_place": _rows(512, 256),
    "cnn": _images(16, 3, 64),
    "residual": _images(16, 3, 32),
    "transformer": _rows(8, 64, 128),
    "transformer_norm_first": _rows(8, 64, 128),
    "lstm": _tokens(2000, 8, 32),
    "tied_weights": _tokens(2000, 8, 32),
    "gru": _rows(32, 16, 64),
    "unet": _images(4, 3, 64),
    "attention": _rows(8, 128, 128),
    "attention_masked": _rows(8, 128, 128),
    "attention_by_hand": _rows(8, 128, 128),
    "gpt": _tokens(1000, 8, 64),
    "embedding": _tokens(5000, 256, 20),
    "gan": lambda: (torch.randn(128, 64), torch.randn(128, 784)),
    "checkpointed": _rows(512, 256),
    "frozen": _rows(512, 256),
    "mixed_precision": _rows(512, 256),
    "mixed_precision_cnn": _images(8, 3, 32),
    "convolutions_1d": _rows(16, 16, 512),
    "convolutions_3d": _rows(2, 1, 16, 32, 32),
    "dilated": _images(8, 32, 32),
    "vision_transformer": _images(8, 3, 64),
    "autoencoder": _rows(256, 784),
    "experts": _rows(1024, 64),
    "own_function": _rows(512, 256),
    "bilinear_upsampling": _images(4, 3, 32),
    "channels_last": lambda: (torch.randn(8, 3, 64, 64).to(memory_format=torch.channels_last),),
    "weight_norm": _rows(256, 256),
}
globals().update({f"{name}_inputs": made for name, made in INPUTS.items()})
