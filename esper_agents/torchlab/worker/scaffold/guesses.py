"""First guess of an argument: from its default, annotation, documentation and name."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
import typing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .plan import BOOL, LONG, Argument, Expression, TensorPlan
from .usage import ParameterUse, uses_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NORMAL = "torch.distributions.Normal(torch.zeros((2, 64)), torch.ones((2, 64)))"
_SQUARE = r"(?:^|_)cov(?:ariance)?(?:_matrix)?$|precision_matrix|scale_tril|cholesky"
_PLAIN_TYPES = (int, float, bool, str)
BATCH, CHANNELS, SIDE, LENGTH, WIDTH = 2, 3, 32, 16, 64
_IMAGE, _SEQUENCE, _ROWS = (BATCH, CHANNELS, SIDE, SIDE), (BATCH, LENGTH, WIDTH), (BATCH, WIDTH)
# The first pattern that matches a name decides. A number is an int or a float; a text is an expression.
_NUMBERS: tuple[tuple[str, str], ...] = (
    (r"spatial_dims?$|^n_?dims?$|^dims$|dimensions$", "2"),
    (r"batch|^bs$|^b$", "2"),
    (r"embd|embed_dim|emb_dim|d_model", "64"),
    (r"vocab|num_emb|n_?token|num_tokens", "100"),
    (r"head", "4"),
    (r"layers|depth|blocks|^repeats?$|num_stages|n_stage|iters?$|iterations", "2"),
    (r"class|labels|num_out", "10"),
    (r"kernel|^ks?$|^k_size", "3"),
    (r"stride|dilation|groups?$|factor|ratio|expansion|multiple", "1"),
    (r"^pad", "1"),
    (r"drop|^p$|prob|rate", "0.1"),
    (r"^eps|epsilon", "1e-6"),
    (r"^lr$|learning", "0.001"),
    (r"temp|alpha|beta|gamma|lamb|sigma|scale|weight|margin|momentum|decay|threshold|tau|std|mean|coef", "0.5"),
    (r"patch|window", "8"),
    (r"ima?ge?_?size|resolution|height|width|^h$|^w$|spatial|side", "32"),
    (r"len|seq|context|max_pos|positions|steps|frames|points|queries|^t$|^l$|^n$", "16"),
    (r"chan|chs$|planes|filters|inp?_?c|out_?c|^c\d?$|^ch|inp$|oup$|in_ch|out_ch", "16"),
    (r"^num_|^n_|count|order|degree|rank|bits|levels|scales", "4"),
    (r"dim|hidden|embed|model|feat|size|units|width|in_|out_|latent|inner|mlp|ffn|input|output|^d", "64"),
)
_WORDS: tuple[tuple[str, str], ...] = (
    (r"^(?:config|cfg|conf|args|opts?|options|hparams|params|settings|model_args)$", "Settings()"),
    (r"norm_layer$|^norm$|_norm$", "nn.BatchNorm2d"),
    (r"act(?:ivation)?_layer$", "nn.ReLU"),
    (r"act(?:ivation)?(?:_fn)?$|nonlinearity", "nn.ReLU()"),
    (r"(?:^|_)(?:model|module|net|network|encoder|decoder|backbone|layer|fn|func|block|head)$", "nn.Linear(64, 64)"),
    (r"criterion|^loss_(?:fn|func|function)$", "nn.MSELoss()"),
    (r"^(?:optim|optimizer|opt)$", "torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)"),
    (r"loader$|^batches$", "[(torch.randn((2, 64)), torch.randn((2, 64)))]"),
    (r"^(?:generator|rng)$", "torch.Generator()"),
    (r"^device$", "torch.device('cpu')"),
    (r"^dtype$", "torch.float32"),
    (r"^(?:is_|use_|with_|has_|do_|return_|no_|bias$|causal|training$|bidirectional|inplace)", "False"),
    (r"shape", "(16, 64)"),
)
_TEXTS: tuple[tuple[str, str], ...] = (
    (r"reduction", '"mean"'),
    (r"act|nonlin", '"relu"'),
    (r"norm", '"batch"'),
    (r"padding|mode", '"reflect"'),
    (r"device", '"cpu"'),
)
_LONG_NAMES = re.compile(
    r"(?:^|_)(?:ids?|tokens?|idx|index|indexes|indices|labels?|targets?|y|classes|timesteps?|positions?|lengths?|lens?)$|^t$|^src$|^tgt$"
)
_LABEL_NAMES = re.compile(r"label|target|^y$|class|truth|^gt")
_LENGTH_NAMES = re.compile(r"(?:^|_)(?:lengths|lens)$")
_MASK_NAMES = re.compile(r"mask|is_|valid")
_IMAGE_NAMES = re.compile(r"^ima?ge?s?|pixel|patch(?:es)?$|frame|fmap|map|heat")
_TENSOR_NAMES = re.compile(
    r"^edge_index$|^[xyzqkvhuas]\d?$|inputs?|outputs?|tensors?|feat|hidden|states?|query|key|value|embed|logits|preds?|prob|"
    r"ima?ge?|pixel|label|target|ids$|tokens?$|mask|src|tgt|points|data|batch|sample|noise|latent|signal|wave|audio|"
    r"(?:^|_)(?:lens|lengths)$|actions?$|rewards?|dones?|obs|grad|mat|pose|homo|boxes|coords?|values|kernel$|memory|source|weight$|other"
)
_SHAPE = re.compile(
    r"[(\[]\s*((?:[A-Za-z*.\\][\w*.\\]*|\d+)(?:\s*,\s*(?:[A-Za-z*.\\][\w*.\\]*|\d+|\.\.\.))*\s*,?)\s*[)\]]"
)
_SIZES = {
    "B": BATCH,
    "N": BATCH,
    "C": CHANNELS,
    "H": SIDE,
    "W": SIDE,
    "D": WIDTH,
    "L": LENGTH,
    "T": LENGTH,
    "S": LENGTH,
    "E": WIDTH,
    "F": WIDTH,
}
_MOST_NESTED = 3
_MOST_DERIVED = 30


def guess(
    name: str,
    parameter: inspect.Parameter,
    hint: Any,
    documentation: str,
    depth: int = 0,
    *,
    use: ParameterUse | None = None,
) -> Argument:
    """Return a first guess of an argument.

    Args:
        name: Name of the parameter.
        parameter: The parameter.
        hint: Its evaluated annotation; `inspect.Parameter.empty` without one.
        documentation: Docstring of the function and its class.
        depth: Depth of nested constructors.
        use: Its uses in the source.
    """
    use = use or ParameterUse()
    if use.texts and hint in (str, parameter.empty):
        return Expression(repr(next(iter(use.texts))))
    if re.search(_SQUARE, name.lower()) and hint in (torch.Tensor, parameter.empty):
        return Expression("torch.eye(64)")
    made = _of_hint(name, hint, documentation, depth)
    if made is None and depth and re.fullmatch(r"(?:\w+_)?(?:loss|criterion)", name.lower()) and not use.shape:
        # A constructor gets the function, a call gets its result.
        return Expression("nn.MSELoss()")
    if made is None and "distribution" in use.kinds:
        return Expression(NORMAL)
    if made is None and "mapping" in use.kinds:
        return Expression("{}")
    is_tensor = bool(use.shape) or "tensor" in use.kinds or _is_tensor_name(name)
    if made is None and is_tensor and _is_missing(parameter):
        made = tensor(name, documentation)
    if isinstance(made, TensorPlan) and use.shape and not made.copies and _documented(name, documentation) is None:
        made = replace(made, shape=sizes_of(use.shape))
    return made if made is not None else by_name(name)


def _is_missing(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty or parameter.default is None


def sizes_of(names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the sizes that the names of dimensions stand for, such as `b`, `c`, `h` and `(p q)`."""
    sizes = [WIDTH if name.startswith("(") else size(name) for name in names]
    low = [name.lower() for name in names]
    if low[0] == "b" and "n" in low:
        sizes[low.index("n")] = LENGTH
    if len(names) in {2, 3} and low[-1] in {"c", "n"}:
        # The features of rows or of a sequence.
        sizes[-1] = WIDTH
    return tuple(sizes)


def _is_tensor_name(name: str) -> bool:
    return (
        _TENSOR_NAMES.search(name.lower()) is not None
        and re.search(r"_(?:dim|size|len|channels|features)s?$|^num_|^n_|_fn$", name) is None
    )


def by_name(name: str) -> Expression:
    """Return the guess for a name alone."""
    low = name.lower()
    return Expression(next((text for pattern, text in (*_WORDS, *_NUMBERS) if re.search(pattern, low)), "4"))


def text_by_name(name: str) -> Expression:
    """Return the guess for a text."""
    found = next((text for pattern, text in _TEXTS if re.search(pattern, name.lower())), '"mean"')
    return Expression(found)


def _of_hint(name: str, hint: Any, documentation: str, depth: int) -> Argument | None:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of annotation
    if hint is inspect.Parameter.empty or hint is Any:
        return None
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return Expression(repr(parts[0]))
    if origin is typing.Annotated:
        return _of_hint(name, parts[0], documentation, depth)
    if origin is typing.Union or (hasattr(hint, "__or__") and type(hint).__name__ == "UnionType"):
        known = [part for part in parts if part is not type(None)]
        if depth:
            known.sort(key=lambda each: (each not in _PLAIN_TYPES, each is not torch.Tensor))
        for each in known:
            # A constructor that takes either a number or a tensor usually gets the number.
            if (each is torch.Tensor and not depth) or each is int:
                return _of_hint(name, each, documentation, depth)
        return _of_hint(name, known[0], documentation, depth) if known else None
    if hint is torch.Tensor or (isinstance(hint, type) and issubclass(hint, torch.Tensor)):
        return tensor(name, documentation)
    if type(hint).__module__.startswith("jaxtyping") or "jaxtyping" in getattr(hint, "__module__", ""):
        dims = str(getattr(hint, "dim_str", "b c h w")).split()
        return TensorPlan(tuple(size(dim.strip("*.")) for dim in dims) or _ROWS)
    if hint is bool:
        return Expression("False")
    if hint is int:
        found = by_name(name)
        return found if re.fullmatch(r"\d+", found.text) else Expression("4")
    if hint is float:
        found = by_name(name)
        # Named as a size and annotated as a float: a share.
        return found if re.fullmatch(r"0\.[\d.e-]+|1e-\d+", found.text) else Expression("0.5")
    if hint is str:
        return text_by_name(name)
    if hint is torch.device:
        return Expression("torch.device('cpu')")
    if hint is torch.dtype:
        return Expression("torch.float32")
    if origin in (list, tuple, typing.get_origin(typing.Sequence[int]), typing.get_origin(typing.Iterable[int]), set):
        return _collection(name, origin, parts, documentation, depth)
    if origin is dict or hint is dict:
        return Expression("{}")
    if origin is type or hint is type:
        return Expression("nn.ReLU" if "act" in name else "nn.BatchNorm2d" if "norm" in name else "nn.Identity")
    if origin is typing.get_origin(typing.Callable[..., Any]) or hint is typing.Callable:
        return Expression("nn.BatchNorm2d" if "norm" in name else "nn.ReLU()" if "act" in name else "torch.relu")
    if inspect.isclass(hint):
        return _object(hint, depth)
    return None


def _collection(name: str, origin: Any, parts: tuple[Any, ...], documentation: str, depth: int) -> Argument:
    count = len(parts) if origin is tuple and Ellipsis not in parts else 2
    inner = parts[0] if parts else int
    made = _of_hint(re.sub(r"s$|_list$", "", name), inner, documentation, depth) or by_name(name)
    if isinstance(made, TensorPlan) and not made.copies:
        return replace(made, copies=max(count, 1))
    texts = ", ".join([made.text] * max(count, 1))
    return Expression(f"({texts},)" if origin is tuple else f"[{texts}]", made.imports)


def _object(hint: type, depth: int) -> Argument | None:  # noqa: PLR0911 - one case for each kind of class
    if issubclass(hint, nn.Module) and hint in (nn.Module, nn.Sequential):
        return Expression("nn.Linear(64, 64)")
    if issubclass(hint, torch.distributions.Distribution) and hint.__module__.startswith("torch."):
        return Expression(NORMAL)
    if issubclass(hint, torch.optim.Optimizer):
        return Expression("torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)")
    if issubclass(hint, torch.Generator):
        return Expression("torch.Generator()")
    if "<" in hint.__qualname__:
        return None
    imports = ((hint.__module__, hint.__qualname__.partition(".")[0]),)
    if issubclass(hint, enum.Enum):
        members = list(hint)
        return Expression(f"{hint.__qualname__}.{members[0].name}", imports) if members else None
    if hint.__module__ in ("builtins", "abc", "typing") or depth >= _MOST_NESTED:
        return None
    made = concrete(hint)
    return construction(made, depth + 1) if made is not None else None


def concrete(kind: type) -> type | None:
    """Return a class, or one derived from it that is not abstract; None if there is none."""
    waiting, seen = [kind], 0
    while waiting and seen < _MOST_DERIVED:
        each, seen = waiting.pop(0), seen + 1
        if not is_abstract(each) and "<" not in each.__qualname__ and (seen == 1 or not each.__name__.startswith("_")):
            return each
        waiting += each.__subclasses__()
    return None


def is_abstract(kind: type) -> bool:
    """Return whether a class has abstract methods, or a `forward` that only raises NotImplementedError."""
    if inspect.isabstract(kind):
        return True
    forward = inspect.unwrap(kind.forward) if issubclass(kind, nn.Module) else None
    if forward is None or getattr(forward, "__name__", "") == "_forward_unimplemented":
        return forward is not None
    try:
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(forward))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    body = [each for each in getattr(function, "body", ()) if not isinstance(each, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0])


def construction(made: type, depth: int = 2) -> Expression | None:
    """Return the expression that creates an object with guessed arguments; None if its signature is unknown."""
    try:
        arguments = list(guessed(made, depth=depth))
    except (TypeError, ValueError):
        return None
    inner = ", ".join(f"{name}={each.text}" for name, each in arguments)
    more = [one for _, each in arguments for one in each.imports]
    imports = [] if _is_torch(made) else [(made.__module__, made.__qualname__.partition(".")[0])]
    return Expression(f"{_shown(made)}({inner})", tuple(dict.fromkeys((*imports, *more))))


def _is_torch(hint: type) -> bool:
    return hint.__module__.startswith("torch.nn.modules")


def _shown(hint: type) -> str:
    return f"nn.{hint.__name__}" if _is_torch(hint) else hint.__qualname__


def guessed(thing: Any, *, depth: int = 0, has_self: bool = False) -> Iterator[tuple[str, Argument]]:
    """Yield a guess for each required parameter of a callable.

    Raises:
        TypeError: It has no signature.
        ValueError: It has no signature.
    """
    uses = uses_of(thing)
    for parameter, hint in parameters(thing, has_self=has_self):
        if parameter.default is parameter.empty:
            name = parameter.name
            yield name, guess(name, parameter, hint, documentation_of(thing), depth, use=uses.get(name))


def parameters(thing: Any, *, has_self: bool = False) -> list[tuple[inspect.Parameter, Any]]:
    """Return the named parameters of a callable with their evaluated annotations.

    Raises:
        TypeError: It has no signature.
        ValueError: It has no signature.
    """
    if isinstance(thing, torch.jit.ScriptFunction):
        return _scripted(thing)
    named = [
        parameter
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    hinted = thing.__init__ if inspect.isclass(thing) and not dataclasses.is_dataclass(thing) else thing
    try:
        hints = typing.get_type_hints(getattr(hinted, "__func__", hinted), include_extras=True)
    except Exception:  # noqa: BLE001 - annotations are code of the project
        hints = {each.name: each.annotation for each in named if not isinstance(each.annotation, str)}
        hints |= {
            each.name: torch.Tensor
            for each in named
            if isinstance(each.annotation, str) and "Tensor" in each.annotation
        }
    return [(each, hints.get(each.name, inspect.Parameter.empty)) for each in named[has_self:]]


def _scripted(function: Any) -> list[tuple[inspect.Parameter, Any]]:
    """Return the parameters of a function that TorchScript compiled."""
    kinds = {"Tensor": torch.Tensor, "int": int, "float": float, "bool": bool, "str": str}
    found = []
    for argument in function.schema.arguments:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        parameter = inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        found.append((parameter, kinds.get(str(argument.type), inspect.Parameter.empty)))
    return found


def documentation_of(thing: Any) -> str:
    """Return the docstrings of a callable, its class and its call."""
    texts = [inspect.getdoc(thing) or ""]
    if inspect.isclass(thing) or isinstance(thing, nn.Module):
        texts += [inspect.getdoc(getattr(thing, each, None)) or "" for each in ("__init__", "forward")]
    if isinstance(thing, nn.Module):
        texts.append(inspect.getdoc(type(thing)) or "")
    owner = getattr(thing, "__self__", None)
    if owner is not None:
        texts.append(inspect.getdoc(type(owner)) or "")
    return "\n".join(texts)


def tensor(name: str, documentation: str = "") -> TensorPlan:
    """Return the guess for a tensor: the shape that the documentation gives, else one by name."""
    shape = _documented(name, documentation)
    low = name.lower()
    if low == "edge_index":
        return TensorPlan((2, LENGTH), LONG, BATCH)
    if _MASK_NAMES.search(low):
        return TensorPlan(shape or (BATCH, LENGTH), BOOL)
    if _LENGTH_NAMES.search(low):
        return TensorPlan(shape or (BATCH,), LONG, LENGTH + 1, low=1)
    if _LONG_NAMES.search(low):
        return TensorPlan(
            shape or ((BATCH,) if _LABEL_NAMES.search(low) or low.startswith("t") else (BATCH, LENGTH)), LONG, 10
        )
    if shape is not None:
        return TensorPlan(shape, is_positive=_IMAGE_NAMES.search(low) is not None)
    return TensorPlan(_IMAGE, is_positive=True) if _IMAGE_NAMES.search(low) else TensorPlan(_ROWS)


def _documented(name: str, documentation: str) -> tuple[int, ...] | None:
    """Return the shape that a docstring gives for a parameter, such as `(B, C, H, W)`."""
    for found in re.finditer(rf"(?<![\w.]){re.escape(name)}(?![\w.])", documentation):
        near = documentation[found.end() : found.end() + 240]
        if not re.match(r"\s*(?:\([^)]*\))?\s*:|\s*\(", near):
            continue
        for shape in _SHAPE.finditer(near):
            parts = [each.strip(" .\\") for each in shape.group(1).split(",")]
            if any(len(part) > 12 or (part.islower() and len(part) > 6) for part in parts):  # noqa: PLR2004 - words of a sentence, such as an "optional"
                continue
            sizes = [size(part) for part in parts if part and part != "*"]
            if "*" in parts or "..." in shape.group(1):
                sizes.insert(0, BATCH)
            if sizes:
                return tuple(sizes)
    return None


def size(symbol: str) -> int:
    """Return the size that a symbol of a documented shape stands for, such as `B` or `num_classes`."""
    if symbol.isdigit():
        return max(int(symbol), 1)
    low = symbol.lower()
    if symbol[:1].upper() in _SIZES and len(symbol) <= 2:  # noqa: PLR2004 - a letter, or one with a digit
        return _SIZES[symbol[:1].upper()]
    for pattern, size in (("batch", BATCH), ("chan", CHANNELS), ("height|width", SIDE), ("len|seq|time", LENGTH)):
        if re.search(pattern, low):
            return size
    found = by_name(symbol).text
    return int(found) if found.isdigit() else LENGTH


_LAYERS: tuple[tuple[tuple[type[nn.Module], ...], Callable[[Any], TensorPlan]], ...] = (
    ((nn.Embedding,), lambda layer: TensorPlan((BATCH, LENGTH), LONG, layer.num_embeddings)),
    ((nn.Conv1d, nn.ConvTranspose1d), lambda layer: TensorPlan((BATCH, layer.in_channels, WIDTH))),
    ((nn.Conv2d, nn.ConvTranspose2d), lambda layer: TensorPlan((BATCH, layer.in_channels, SIDE, SIDE))),
    ((nn.Conv3d, nn.ConvTranspose3d), lambda layer: TensorPlan((BATCH, layer.in_channels, LENGTH, SIDE, SIDE))),
    ((nn.Linear,), lambda layer: TensorPlan((BATCH, LENGTH, layer.in_features))),
    ((nn.LSTM, nn.GRU, nn.RNN), lambda layer: TensorPlan((BATCH, LENGTH, layer.input_size))),
    ((nn.BatchNorm1d,), lambda layer: TensorPlan((BATCH, layer.num_features, WIDTH))),
    ((nn.BatchNorm2d,), lambda layer: TensorPlan((BATCH, layer.num_features, SIDE, SIDE))),
    ((nn.LayerNorm,), lambda layer: TensorPlan((BATCH, LENGTH, *layer.normalized_shape))),
    ((nn.MultiheadAttention,), lambda layer: TensorPlan((BATCH, LENGTH, layer.embed_dim))),
)


def first_layer_shape(module: nn.Module) -> TensorPlan | None:
    """Return the input that the first layer with known sizes takes."""
    for each in module.modules():
        for types, shape in _LAYERS:
            if isinstance(each, types):
                return shape(each)
    return None
