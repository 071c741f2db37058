"""Arguments of the first calls of a target by a script or test, as source text and tensors."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import math
import re
import sys
from argparse import Namespace
from dataclasses import dataclass, field
from types import FrameType, FunctionType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from ..target.captured_calls import CallWatcher, CodePosition, EnoughError, arguments
from .plan import Argument, CallPlan, Expression

# The lab refuses more in a harness; see `torchlab/harness.py`.
_DTYPES = frozenset(
    ("float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "complex64", "bool")
)
_MOST_CALLS = 8
_MOST_OBJECTS = 1_000
_MOST_PARTS = 64
_MOST_TEXT = 200
_DEEPEST = 5
_SETTINGS = re.compile(r"Config|config|Cfg|Args|Options|Settings|Params")
_SAVED = re.compile(r'captured\("(\w+)"\)')
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class CapturedCall:
    """One call of the target.

    Attributes:
        make: Arguments of the constructor, by name; empty for a function.
        call: Arguments of the call, by name.
        unwritten: Parameters whose values have no source text, with their types.
        tensors: Saved tensors, by name.
        has_constructor: Whether the call of the constructor was seen, or the target has none.
    """

    make: dict[str, Argument] = field(default_factory=dict)
    call: dict[str, Argument] = field(default_factory=dict)
    unwritten: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    has_constructor: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of the saved tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @property
    def plan(self) -> CallPlan:
        """The arguments."""
        return CallPlan(tuple(self.make.items()), tuple(self.call.items()))

    def with_shapes(self) -> CapturedCall:
        """Return it with synthetic tensors of the same shapes and types."""

        def written(argument: Argument) -> Argument:
            text = _SAVED.sub(lambda match: _synthetic(self.tensors[match.group(1)]), argument.text)
            return Expression(text, argument.imports)

        make, call = ({name: written(each) for name, each in part.items()} for part in (self.make, self.call))
        return CapturedCall(make, call, self.unwritten, {}, self.has_constructor)


class ArgumentRecorder(CallWatcher):
    """Recorder of the arguments of a target's first calls, and of the constructor of the first called object.

    Attributes:
        first: The first call; None if there was none.
        seen: Number of calls.
        most_calls: Number of calls after which `EnoughError` is raised in the calling code.
        shapes: Different shapes of the calls, in words.
    """

    def __init__(self, made_from: type | None, callee: Any) -> None:
        """Find the code to watch.

        Args:
            made_from: Class of the called objects; None for a function.
            callee: The function or unbound method.

        Raises:
            TargetError: The callable is not written in Python.
        """
        self._call = CodePosition(callee)
        made: Any = getattr(made_from, "__init__", None)
        is_written = made is not None and isinstance(inspect.unwrap(made), FunctionType)
        self._make = CodePosition(made) if is_written else None
        self._class = made_from
        self._made: dict[int, CapturedCall] = {}
        self.first: CapturedCall | None = None
        self.seen = 0
        self.most_calls = _MOST_CALLS
        self.shapes: dict[str, None] = {}

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or self.seen >= _MOST_CALLS:
            return
        if self._make is not None and self._make.is_at(frame.f_code):
            self._note_constructor(frame)
        elif self._call.is_at(frame.f_code):
            self._note_call(frame)
            if self.seen >= _MOST_CALLS:
                raise EnoughError

    def _note_constructor(self, frame: FrameType) -> None:
        known = _named(frame)
        made = known.pop(next(iter(known)), None)
        # The constructor of a subclass calls that of the target with its own arguments.
        if type(made).__name__ == getattr(self._class, "__name__", "") and len(self._made) < _MOST_OBJECTS:
            self._made[id(made)] = _written(known, "make")

    def _note_call(self, frame: FrameType) -> None:
        known = _named(frame)
        made = None
        if self._class is not None:
            owner = known.pop(next(iter(known)), None)
            made = self._made.get(id(owner))
        self.seen += 1
        self.shapes[_shapes(known)] = None
        if self.first is None:
            self.first = _written(known, "call")
            if made is not None:
                self.first.make = made.make
                self.first.unwritten = {**made.unwritten, **self.first.unwritten}
                self.first.tensors = {**made.tensors, **self.first.tensors}
            self.first.has_constructor = made is not None or self._make is None


def _synthetic(tensor: torch.Tensor) -> str:
    """Return the expression that creates a tensor of the same shape and type, and of the same range if it is whole."""
    shape, dtype = tuple(tensor.shape), str(tensor.dtype)
    kind = "" if tensor.dtype in {torch.float32, torch.int64} else f", dtype={dtype}"
    if tensor.dtype == torch.bool:
        return f"torch.ones({shape}{kind})"
    if tensor.is_floating_point() or tensor.is_complex():
        return f"torch.randn({shape}{kind})"
    low, high = (int(tensor.min()), int(tensor.max())) if tensor.numel() else (0, 1)
    return f"torch.randint({low}, {high + 1}, {shape}{kind})"


def _named(frame: FrameType) -> dict[str, Any]:
    """Return the arguments of a frame that is just starting, by name."""
    given, code = arguments(frame), frame.f_code
    names = code.co_varnames[: code.co_argcount]
    extra = {f"argument_{number}": value for number, value in enumerate(given.args[len(names) :], len(names))}
    return {**dict(zip(names, given.args, strict=False)), **extra, **given.kwargs}


def _shapes(known: dict[str, Any]) -> str:
    parts = (f"{name} {tuple(value.shape)}" for name, value in known.items() if isinstance(value, torch.Tensor))
    return ", ".join(parts)[:_MOST_TEXT]


def _written(known: dict[str, Any], stage: str) -> CapturedCall:
    captured = CapturedCall()
    for name, value in known.items():
        argument = _argument(value, f"{stage}.{name}", captured.tensors, 0)
        if argument is None or not _NAME.fullmatch(name):
            captured.unwritten[name] = type(value).__name__
        else:
            getattr(captured, stage)[name] = argument
    return captured


def _argument(value: Any, name: str, tensors: dict[str, torch.Tensor], depth: int) -> Argument | None:
    """Return the source text of a value; None if it has none."""
    if isinstance(value, torch.Tensor):
        return _tensor(value, name, tensors)
    if (text := _constant(value)) is not None:
        return Expression(text)
    if isinstance(value, nn.Module):
        return _layer(value)
    if isinstance(value, enum.Enum):
        imports = _imports(type(value))
        return Expression(f"{type(value).__name__}.{value.name}", imports) if imports else None
    if inspect.isclass(value) or isinstance(value, FunctionType):
        return _global(value)
    return _container(value, name, tensors, depth) if depth < _DEEPEST else None


def _constant(value: Any) -> str | None:
    if value is None or isinstance(value, bool) or type(value) is int:
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else None
    if type(value) is str:
        return repr(value) if len(value) <= _MOST_TEXT and value.isprintable() else None
    if isinstance(value, torch.dtype):
        return str(value) if str(value).removeprefix("torch.") in _DTYPES else None
    if isinstance(value, torch.device):
        return "torch.device('cpu')"
    return None


def _tensor(value: torch.Tensor, name: str, tensors: dict[str, torch.Tensor]) -> Argument | None:
    plain = value.detach()
    if plain.layout != torch.strided or str(plain.dtype).removeprefix("torch.") not in _DTYPES:
        return None
    name = re.sub(r"\W", "_", name)
    tensors[name] = plain.to("cpu", copy=True).contiguous()
    return Expression(f'captured("{name}")')


def _layer(value: nn.Module) -> Argument | None:
    """Return the constructor of a layer of torch, which its text shows."""
    text = f"nn.{value!r}"
    if type(value).__module__.startswith("torch.nn.modules") and not any(value.children()) and len(text) <= _MOST_TEXT:
        try:
            ast.parse(text, mode="eval")
        except SyntaxError:
            return None
        return Expression(text)
    return None


def _global(value: Any) -> Argument | None:
    name = str(value.__name__)
    if getattr(nn, name, None) is value:
        return Expression(f"nn.{name}")
    imports = _imports(value)
    return Expression(name, imports) if imports else None


def _imports(value: Any) -> tuple[tuple[str, str], ...]:
    """Return the import of a class or function; empty if it cannot be imported by its name."""
    module, name = str(value.__module__), str(value.__name__)
    if module in {"__main__", "builtins"} or getattr(sys.modules.get(module), name, None) is not value:
        return ()
    return ((module, name),)


def _container(value: Any, name: str, tensors: dict[str, torch.Tensor], depth: int) -> Argument | None:
    if type(value) in {list, tuple, torch.Size}:
        parts = {str(number): each for number, each in enumerate(value)}
        inner = _parts(parts, name, tensors, depth)
        if inner is None:
            return None
        text, imports = ", ".join(inner[0].values()), inner[1]
        if type(value) is list:
            return Expression(f"[{text}]", imports)
        return Expression(f"({text}{',' if len(parts) == 1 else ''})", imports)
    if type(value) is dict and all(type(each) in {str, int} for each in value):
        inner = _parts({str(each): value[each] for each in value}, name, tensors, depth)
        if inner is None or len(inner[0]) != len(value):
            return None
        pairs = ", ".join(f"{key!r}: {inner[0][str(key)]}" for key in value)
        return Expression(f"{{{pairs}}}", inner[1])
    return _record(value, name, tensors, depth)


def _record(value: Any, name: str, tensors: dict[str, torch.Tensor], depth: int) -> Argument | None:
    """Return the constructor of a data class, or a configuration object with the same attributes."""
    kind: Any = type(value)
    is_dataclass = dataclasses.is_dataclass(kind)
    if is_dataclass:
        imports = _imports(kind)
        shown = str(kind.__name__)
        known = {each.name: getattr(value, each.name) for each in dataclasses.fields(kind) if each.init}
    else:
        is_settings = isinstance(value, (Namespace, SimpleNamespace)) or _SETTINGS.search(kind.__name__)
        imports, shown = (), "Settings"
        known = dict(getattr(value, "__dict__", {})) if is_settings else {}
    inner = _parts(known, name, tensors, depth) if known else None
    if inner is None or (is_dataclass and not imports):
        return None
    if not all(_NAME.fullmatch(each) and not each.startswith("_") for each in inner[0]):
        return None
    text = ", ".join(f"{each}={text}" for each, text in inner[0].items())
    return Expression(f"{shown}({text})", (*imports, *inner[1]))


def _parts(
    parts: dict[str, Any], name: str, tensors: dict[str, torch.Tensor], depth: int
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]] | None:
    """Return the texts of the parts of a container and their imports; None if one has no text."""
    if len(parts) > _MOST_PARTS:
        return None
    written = {each: _argument(value, f"{name}.{each}", tensors, depth + 1) for each, value in parts.items()}
    if any(each is None for each in written.values()):
        return None
    known = [each for each in written.values() if each is not None]
    imports = tuple(dict.fromkeys(pair for each in known for pair in each.imports))
    return {key: each.text for key, each in zip(written, known, strict=True)}, imports
