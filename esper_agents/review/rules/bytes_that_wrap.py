"""ESP230: two images of unsigned bytes are subtracted or added, and the result wraps around."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables, Function

_READING = frozenset(
    {"cv2.imread", "cv2.imdecode", "imageio.imread", "imageio.v2.imread", "imageio.v3.imread", "skimage.io.imread"}
    | {"torchvision.io.read_image", "torchvision.io.decode_image", "torchvision.io.decode_jpeg"}
    | {"torchvision.io.image.read_image", "torchvision.io.decode_png", "scipy.misc.imread"}
)
_ARRAYS = frozenset({"numpy.array", "numpy.asarray", "numpy.ascontiguousarray", "numpy.asanyarray"})
_OPENING = frozenset({"PIL.Image.open", "PIL.Image.fromarray"})
_BYTES = frozenset({"numpy.uint8", "torch.uint8", "'uint8'", "numpy.ubyte"})
# Calls with a dtype whose result has it.
_WITH_DTYPE = frozenset(
    {"zeros", "ones", "empty", "full", "randint", "tensor", "array", "asarray", "as_tensor", "frombuffer"}
)
# Methods and functions of an image that return bytes for bytes.
_KEEPING = frozenset(
    {
        "copy",
        "clone",
        "transpose",
        "permute",
        "reshape",
        "view",
        "flatten",
        "ravel",
        "squeeze",
        "unsqueeze",
        "contiguous",
    }
    | {"flip", "flipud", "fliplr", "roll", "expand", "repeat", "numpy", "cpu", "detach", "resize", "cvtColor"}
    | {"from_numpy", "GaussianBlur", "medianBlur", "blur", "stack", "concatenate", "cat", "rot90", "warpAffine"}
)
_OF_IMAGES = frozenset({"convert", "resize", "crop", "rotate", "transpose", "filter"})
_STEPS = 4


class BytesThatWrap(Rule):
    """A sum or difference of two tensors or arrays of unsigned bytes.

    ## Why it costs
    Bytes are computed modulo 256: 10 - 12 is 254, and 200 + 100 is 44. Small negative differences become the largest
    values of the image, and the model trains on them. Neither numpy nor torch raises.

    ## When it is right
    One of the two is converted before: `a.float() - b`, `a.astype(np.int16) - b`, or the operation is meant to be
    computed modulo 256. Only values are reported that both are surely bytes: images as they are read, or an explicit
    `uint8`. Differences with a constant are not reported, nor are those of morphological filters.

    ## Sources
    NumPy documentation, "Data types", section "Overflow errors". torchvision documentation of `read_image`, which
    returns `uint8`.
    """

    code, name = "ESP230", "bytes-that-wrap"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torchvision.io import read_image\n"
        "\n"
        "\n"
        "def motion(first, second):\n"
        "    a, b = read_image(first), read_image(second)\n"
        "    return (b - a).float() / 255\n"
    )
    good = bad.replace("(b - a).float() / 255", "(b.float() - a.float()) / 255")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the sums and differences of two values of bytes."""
        if (
            "uint8" not in file.text
            and "imread" not in file.text
            and "Image" not in file.text
            and "_image" not in file.text
        ):
            return
        for function in file.functions:
            seen: set[ast.AST] = set()
            for node, line in _operations(function):
                if node in seen:
                    continue
                seen.add(node)
                left, right = _operands(node)
                if _is_cast(left) or _is_cast(right):
                    continue
                if _is_bytes(left, function, line, index) and _is_bytes(right, function, line, index):
                    yield self._found(node, left, right)

    def _found(self, node: ast.BinOp | ast.AugAssign, left: ast.expr, right: ast.expr) -> RuleMatch:
        is_difference = isinstance(node.op, ast.Sub)
        what = "below 0" if is_difference else "above 255"
        first, second = ast.unparse(left), ast.unparse(right)
        is_plain = all(isinstance(each, ast.Name) for each in (left, right))
        return self.hit(
            node,
            f"both `{first}` and `{second}` are unsigned bytes, so results {what} wrap around modulo 256",
            remedy="convert both to a signed or floating type before: `.float()`, or `.astype(np.int16)`",
            confidence=Confidence.HIGH if is_plain else Confidence.MODERATE,
            basis=SEEN if is_plain else FOLLOWED,
        )


def _operations(function: Function) -> Iterator[tuple[ast.BinOp | ast.AugAssign, int]]:
    """Yield the sums and differences in the statements of a function, with their lines."""
    statements: dict[ast.AST, None] = {}
    for call in function.calls:
        statements[call.statement] = None
    for assignments in function.assignments.values():
        for each in assignments:
            statements[each.statement] = None
    for returned, _ in function.returns:
        statements[returned] = None
    for statement in statements:
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Sub | ast.Add):
            yield statement, statement.lineno
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr):
            for node in ast.walk(statement):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Add):
                    yield node, statement.lineno


def _operands(node: ast.BinOp | ast.AugAssign) -> tuple[ast.expr, ast.expr]:
    return (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)


def _is_cast(value: ast.expr) -> bool:
    """Return whether an operand is made bytes in the very sum: that is arithmetic modulo 256 on purpose."""
    is_method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    return is_method and dotted(value).rstrip("()").rpartition(".")[2] in {"astype", "to", "byte", "type"}


def _is_bytes(value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS) -> bool:
    """Return whether a value is surely a tensor or an array of unsigned bytes."""
    if isinstance(value, ast.Subscript):
        return _is_bytes(value.value, function, line, index, steps)
    if isinstance(value, ast.Attribute) and value.attr in {"T", "mT", "data"}:
        return _is_bytes(value.value, function, line, index, steps)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        return all(_is_bytes(each, function, line, index, steps) for each in (value.left, value.right))
    if isinstance(value, ast.Name | ast.Attribute) and steps:
        return _is_bound_to_bytes(value, function, line, index, steps)
    if isinstance(value, ast.Call):
        return _returns_bytes(value, function, line, index, steps)
    return False


def _is_bound_to_bytes(
    value: ast.Name | ast.Attribute, function: Function, line: int, index: ProjectIndex, steps: int
) -> bool:
    """Return whether all that a path may hold is bytes: the last binding above, which nothing else replaces."""
    path = dotted(value)
    made = [each for each in function.assignments.get(path, ()) if each.line < line]
    if not made and path.startswith("self.") and function.owner is not None:
        everywhere = function.owner.attributes.get(path, [])
        return len(everywhere) == 1 and _is_bytes(
            everywhere[0].value, everywhere[0].block.function, everywhere[0].line, index, steps - 1
        )
    if not made or any(each.is_augmented for each in made[-1:]) or isinstance(made[-1].statement, ast.For):
        return False
    last = made[-1]
    if last.is_unpacked and not isinstance(last.value, ast.Tuple) and isinstance(last.value, ast.Call):
        return False
    # A binding in a branch leaves what was bound before it on the other way.
    reaching = [last] if last.block.within(function.block) and last.block is function.block else made
    return all(_is_bytes(each.value, function, each.line, index, steps - 1) for each in reaching)


def _returns_bytes(value: ast.Call, function: Function, line: int, index: ProjectIndex, steps: int) -> bool:
    name = resolve(dotted(value.func), function)
    tail = tail_of(name)
    dtype = _dtype(value, function)
    if name in _READING:
        # `cv2.imread(path, cv2.IMREAD_UNCHANGED)` may give 16 bits.
        return not any("UNCHANGED" in ast.unparse(each) or "ANYDEPTH" in ast.unparse(each) for each in value.args[1:])
    if dtype:
        is_made = tail in _WITH_DTYPE or tail in {"astype", "to", "type"}
        return is_made and dtype in _BYTES
    if tail == "byte" and isinstance(value.func, ast.Attribute):
        return True
    if name in _ARRAYS and value.args:
        return _is_image(value.args[0], function, line, steps) or _is_bytes(value.args[0], function, line, index, steps)
    if tail in _KEEPING:
        of_module = isinstance(value.func, ast.Attribute) and dotted(value.func.value) in function.file.imports
        subject = value.args[0] if of_module and value.args else getattr(value.func, "value", None)
        parts = subject.elts if isinstance(subject, ast.List | ast.Tuple) else [subject]
        return bool(parts) and all(each is not None and _is_bytes(each, function, line, index, steps) for each in parts)
    called = index.function_named(value, function) if steps else None
    returned = [each.value for each, _ in called.returns] if called is not None else []
    return bool(returned) and all(
        each is not None and called is not None and _is_bytes(each, called, each.lineno + 1, index, steps - 1)
        for each in returned
    )


def _dtype(value: ast.Call, function: Function) -> str:
    """Return the dtype that a call names, resolved; empty without one."""
    for keyword in value.keywords:
        if keyword.arg == "dtype":
            return _resolved(keyword.value, function)
    tail = tail_of(dotted(value.func))
    if tail in {"astype", "to", "type"} and value.args:
        return _resolved(value.args[0], function)
    if tail in {"array", "asarray", "zeros", "ones"} and len(value.args) > 1:
        found = _resolved(value.args[1], function)
        return found if found.startswith(("numpy.", "'")) else ""
    return ""


def _resolved(node: ast.expr, function: Function) -> str:
    return repr(node.value) if isinstance(node, ast.Constant) else resolve(dotted(node), function) or ast.unparse(node)


def _is_image(value: ast.expr, function: Function, line: int, steps: int) -> bool:
    """Return whether a value is an image of PIL whose pixels are bytes."""
    if isinstance(value, ast.Name) and steps:
        made = function.last_assignment(value.id, line)
        return made is not None and not made.is_unpacked and _is_image(made.value, function, made.line, steps - 1)
    if not isinstance(value, ast.Call):
        return False
    if resolve(dotted(value.func), function) in _OPENING:
        return True
    if isinstance(value.func, ast.Attribute) and value.func.attr in _OF_IMAGES:
        modes = [each.value for each in value.args if isinstance(each, ast.Constant)]
        if value.func.attr == "convert" and set(modes) & {"F", "I", "I;16", "1"}:
            return False
        return _is_image(value.func.value, function, line, steps)
    return False
