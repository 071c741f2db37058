"""The model that DDP or FSDP wraps: process group, attributes, batch norm, unused layers, optimizer."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.definitions import owner_of
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_files
from esper_agents.review.ranks import (
    DDP,
    FSDP,
    is_distributed,
    is_for_one_process,
    leaves_it_to_engine,
    wraps,
)
from esper_agents.review.training import backward_calls_in, innermost_training_loops, losses_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Class, FileTables, Function

# What both wrappers have themselves: the methods of a module, and those of DDP.
_MODULE_ATTRIBUTES = frozenset(
    word
    for line in (
        "add_module apply bfloat16 buffers call_super_init children compile cpu cuda device device_ids double",
        "dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule",
        "half ipu load_state_dict modules module named_buffers named_children named_modules named_parameters",
        "no_sync join parameters register_backward_hook register_buffer register_forward_hook",
        "register_forward_pre_hook register_full_backward_hook register_comm_hook register_module",
        "register_parameter requires_grad_ set_extra_state share_memory state_dict to to_empty train training",
        "type xpu zero_grad require_backward_grad_sync find_unused_parameters static_graph _set_static_graph",
        "process_group register_load_state_dict_post_hook register_state_dict_pre_hook clip_grad_norm_",
        "reducer logger set_requires_gradient_sync unshard reshard __class__ __name__ __dict__",
    )
    for word in line.split()
)
_NORMS = tuple(f"torch.nn.BatchNorm{n}d" for n in (1, 2, 3))
_WITH_WEIGHTS = pattern(
    r"torch\.nn\.(?:Linear|Conv\w+|Embedding|LSTM|GRU|LayerNorm|BatchNorm\w+|Bilinear|MultiheadAttention|Parameter)"
)
_BY_NAME = pattern(r"getattr\(|__dict__|\.(?:named_)?children\(|_modules")
_GUARD = pattern(r"hasattr|isinstance|distributed|ddp|parallel|world_size|n_?gpus?", re.IGNORECASE)
_FLAGS = pattern(
    r"--(?:local[-_]rank|dist[-_]url|dist[-_]backend|world[-_]size|sync[-_]bn|distributed|find[-_]unused[-_]parameters|nproc\w*)"
)


class WrappedModel(FactQuery):
    """Where a model is wrapped for several processes or must be, and what the wrapper changes for its callers."""

    name = "wrapped-model"
    topics = ("distributed training",)
    claim = "the model is not ready for several processes"
    category = Category.CORRECTNESS
    rules = ("ESP412",)
    bad = (
        "import torch\n"
        "import torch.distributed as dist\n"
        "from torch import nn\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(8, 8)\n"
        "\n"
        "    def forward(self, x):\n"
        "        return self.layer(x).sum()\n"
        "\n"
        "    def save(self, path):\n"
        "        torch.save(self.state_dict(), path)\n"
        "\n"
        "\n"
        "def fit(loader):\n"
        '    dist.init_process_group("nccl")\n'
        "    model = DistributedDataParallel(Net())\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    for x in loader:\n"
        "        model(x).backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
        '    model.save("model.pt")\n'
    )
    good = bad.replace("model.save(", "model.module.save(")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about wrapped models, and about models that are to be wrapped."""
        training = training_files(index)
        asked = [each for each in files if not leaves_it_to_engine(each)]
        if not is_distributed(index):
            for file in asked:
                if (unwrapped := _unwrapping(file)) is not None:
                    text = f"`{ast.unparse(unwrapped)}` is the module in a wrapper, which no file that was read makes"
                    yield self.fact(file, unwrapped, Assessment.DESCRIPTION, text)
                elif file in training:
                    yield from self._to_wrap(file, index)
            return
        for file in asked:
            for call in file.calls_to(*DDP, *FSDP):
                yield from self._wrap(file, call, index)
            yield from self._group(file, index)
            yield from self._flags(file, index)
            if file in training:
                yield from self._bypasses(file)
        yield from self._norms(asked, index)

    def _to_wrap(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield where a model of one process gets its optimizer, and what its wrapper will not have."""
        seen: set[str] = set()
        for call in file.calls:
            model = _optimized(call)
            if not model or model in seen or model == "self" or _is_example(call):
                continue
            seen.add(model)
            shown = ast.unparse(_model_given(call))
            text = f"`{shown}` is not wrapped and nothing starts a process group: several processes would train apart"
            remedy = (
                f'call `dist.init_process_group("nccl")`, then `{shown} = DistributedDataParallel({shown}, '
                "device_ids=[local_rank])`, and start with `torchrun`"
            )
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
            owner = index.class_of(_model_given(call), call.function, call.line)
            if owner is not None:
                yield from self._unwrapped(call, model, owner, index, since=0)
                yield from self._unused(owner, index)
        loops = innermost_training_loops(file)
        sent = next((each for sent in loops.values() for each in sent if not _is_example(each)), None)
        if not seen and sent is not None:
            text = "nothing wraps the model of this loop or starts a process group: several processes would train apart"
            remedy = 'call `dist.init_process_group("nccl")` and wrap the model in `DistributedDataParallel`'
            yield self.fact(file, sent.node, Assessment.SHOULD_CHECK, text, remedy)

    def _wrap(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        finding = call.argument(-1, "find_unused_parameters")
        if isinstance(finding, ast.Constant) and finding.value is True:
            text = "`find_unused_parameters=True` walks the graph after every forward to find unused layers"
            remedy = "remove it, unless DDP then reports unused parameters"
            yield self.fact(file, finding, Assessment.SHOULD_CHECK, text, remedy)
        model = call.argument(0, "module")
        if model is None:
            return
        owner = index.class_of(model, call.function, call.line)
        targets = [dotted(each) for each in call.statement.targets] if isinstance(call.statement, ast.Assign) else []
        # FSDP passes the attributes that it lacks on to the module in it.
        for target in targets if call.name in DDP else ():
            if owner is not None:
                yield from self._unwrapped(call, target, owner, index, since=call.line)
        if owner is not None and not (isinstance(finding, ast.Constant) and finding.value) and finding is None:
            yield from self._unused(owner, index)
        if call.name in FSDP:
            yield from self._optimized_before(file, call, dotted(model))

    def _unwrapped(self, made: Call, path: str, owner: Class, index: ProjectIndex, *, since: int) -> Iterator[Fact]:
        """Yield the attributes of a wrapped model that its wrapper does not have."""
        function = made.function
        own = {name for cls in index.lineage(owner).classes for name in cls.methods}
        held = {name.removeprefix("self.") for cls in index.lineage(owner).classes for name in cls.attributes}
        functions = [function, *function.inner]
        if path.startswith("self.") and function.owner is not None:
            functions = list(function.owner.methods.values())
        for each in functions:
            if each is not function and path in each.parameters:
                continue
            first = since if each is function else 0
            calls = [call for call in each.calls if call.receiver == path and call.line > first]
            for call in calls:
                if call.tail in own - _MODULE_ATTRIBUTES and _may_be_wrapped(path, made, call, since):
                    yield self._attribute(call, call.node, path, call.tail, made if since else None)
            for call in (one for one in each.calls if one.line > first and _may_be_wrapped(path, made, one, since)):
                # An attribute is read in the statement of a call, such as `print(model.size)`.
                for node in walk(call.node):
                    is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
                    if is_read and dotted(node.value) == path and node.attr in held - own - _MODULE_ATTRIBUTES:
                        yield self._attribute(call, node, path, node.attr, made if since else None)

    def _attribute(self, call: Call, node: ast.AST, path: str, name: str, made: Call | None) -> Fact:
        text = f"DDP wraps `{path}` and has no `{name}` itself: this line raises AttributeError"
        assumption = ""
        if made is None:
            text = f"DDP has no `{name}` itself: this line raises AttributeError"
            assumption = f"`{path}` is wrapped under this name"
        elif call.function is not made.function:
            assumption = f"`{made.function.name}` runs before `{call.function.name}`"
        return self.problem(call.function.file, node, text, f"write `{path}.module.{name}`", assumption=assumption)

    def _unused(self, owner: Class, index: ProjectIndex) -> Iterator[Fact]:
        """Yield layers of a model that nothing runs: DDP waits for their gradients."""
        for part in _parts(owner, index):
            text = " ".join(ast.unparse(cls.node) for cls in index.lineage(part).classes)
            if _BY_NAME.search(text) or "requires_grad" in text:
                continue
            for path, given in part.attributes.items():
                if len(given) == 1 and _is_layer(given[0]) and _mentions(path.removeprefix("self."), index) == 1:
                    text = f"nothing runs `{path}`, so it gets no gradient: DDP raises in the second step"
                    yield self.problem(part.file, given[0].statement, text, f"remove `{path}`")

    def _optimized_before(self, file: FileTables, call: Call, model: str) -> Iterator[Fact]:
        for other in call.function.calls:
            if model and _optimized(other) == model and other.line < call.line:
                text = f"the optimizer holds parameters of `{model}` from before FSDP shards them: they do not train"
                yield self.problem(file, other.node, text, "make the optimizer after FSDP wraps the model")

    def _group(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        calls = [each for each in file.calls_ending("init_process_group") if "distributed" in each.name]
        for call in calls:
            backend = call.argument(0, "backend")
            if isinstance(backend, ast.Constant) and backend.value == "gloo" and "cuda" in file.text:
                text = "the backend `gloo` copies gradients over the host; `nccl` keeps them on the GPUs"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, 'write `init_process_group("nccl")`')
            else:
                yield self.fact(file, call.node, Assessment.DESCRIPTION, "a process group is started here")
        is_started = any(
            re.search(r"init_process_group|init_distributed|init_device_mesh|Accelerator\(|launch", each.text)
            for each in index.files.values()
        )
        if not is_started:
            for call in file.calls_to(*DDP, *FSDP)[:1]:
                text = "nothing in the project starts a process group, and this call raises without one"
                yield self.problem(file, call.node, text, 'call `dist.init_process_group("nccl")` first')

    def _flags(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        for call in file.calls_ending("add_argument"):
            flag = next((each for each in map(_text, call.node.args) if _FLAGS.fullmatch(each)), "")
            name = flag.removeprefix("--").replace("-", "_")
            read = rf"""\.{name}\b|["']{name}["']|\*\*vars|\*\*kwargs|__dict__"""
            if not flag or call.argument(-1, "dest") is not None:
                continue
            if not any(re.search(read, each.text) for each in index.files.values()):
                remedy = 'read `os.environ["LOCAL_RANK"]`, which torchrun sets' if "rank" in flag else "remove it"
                text = f"nothing reads `{flag}`, so it changes nothing"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _bypasses(self, file: FileTables) -> Iterator[Fact]:
        """Yield losses that come from the wrapped model's own module, past the wrapper."""
        for function in file.functions:
            sources = [
                made.value
                for sent in backward_calls_in(function)
                for path in losses_of(sent)
                if (made := function.last_assignment(path, sent.line)) is not None
            ]
            nodes = {each for value in sources for each in walk(value)}
            for call in function.calls:
                if call.node in nodes and f"{call.path}.".find(".module.") > 0 and not _is_guarded(call):
                    text = f"`{call.path}(...)` skips the wrapper's forward, so its gradients may not be averaged"
                    remedy = "call the wrapped model, and move what this computes into its `forward`"
                    yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _norms(self, files: Sequence[FileTables], index: ProjectIndex) -> Iterator[Fact]:
        """Yield one fact about batch norm that normalises by the batch of one rank."""
        if any("SyncBatchNorm" in each.text or "convert_syncbn" in each.text for each in index.files.values()):
            for file in files:
                for call in file.calls_ending("convert_sync_batchnorm"):
                    yield self.fact(file, call.node, Assessment.DESCRIPTION, "batch norm is computed over all ranks")
            return
        for call in wraps(index):
            model = call.argument(0, "module")
            owner = index.class_of(model, call.function, call.line) if model is not None else None
            parts = _parts(owner, index) if owner is not None else []
            for part in parts:
                for norm in (each for method in part.methods.values() for each in method.calls if each.name in _NORMS):
                    if part.file in files:
                        text = f"`{norm.tail}` normalises by the batch of one rank, which matters if that is small"
                        remedy = "write `torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)` before DDP"
                        yield self.fact(part.file, norm.node, Assessment.SHOULD_CHECK, text, remedy)
                        return


def _unwrapping(file: FileTables) -> ast.Attribute | None:
    """Return the first place that takes a model out of its wrapper, such as `model.module`."""
    for call in file.calls:
        for node in walk(call.node):
            match node:
                case ast.Attribute(value, "module", ast.Load()) if dotted(value) not in {"", "self", "cls"}:
                    if not _is_guarded(call):
                        return node
    return None


def _is_example(call: Call) -> bool:
    """Return whether a call stands below `if __name__`, or in an optimizer, which trains no model itself."""
    tests = [ast.unparse(each.node.test) for each in call.block.chain() if isinstance(each.node, ast.If)]
    owner = owner_of(call.function)
    is_optimizer = owner is not None and any("Optimizer" in ast.unparse(base) for base in owner.node.bases)
    return is_optimizer or any("__name__" in test for test in tests)


def _optimized(call: Call) -> str:
    """Return the path of the model whose parameters a call gives to an optimizer; empty if it is no such call."""
    if not (call.name.startswith("torch.optim.") and call.tail[:1].isupper()):
        return ""
    given = call.argument(0, "params")
    path = dotted(given) if given is not None else ""
    return path.removesuffix(".parameters()") if path.endswith(".parameters()") and "(" not in path[:-13] else ""


def _model_given(call: Call) -> ast.expr:
    """Return the model in `SGD(model.parameters())`."""
    given = call.argument(0, "params")
    is_call = isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute)
    return given.func.value if is_call else call.node  # type: ignore[union-attr]


def _is_guarded(call: Call) -> bool:
    """Return whether a call stands where a test tells the wrapped model from the plain one."""
    if is_for_one_process(call):
        return True
    tests = [each.node.test for each in call.block.chain() if isinstance(each.node, ast.If)]
    arms = [each.test for each in walk(call.statement) if isinstance(each, ast.IfExp)]
    tries = any(str(each.kind) in {"try", "except"} for each in call.block.chain())
    return tries or any(_GUARD.search(ast.unparse(each)) for each in (*tests, *arms))


def _may_be_wrapped(path: str, made: Call, call: Call, since: int) -> bool:
    """Return whether a path may hold the wrapper at a call: no test tells, and it was not bound to something else."""
    if _is_guarded(call):
        return False
    if not since or call.function is not made.function:
        return True
    last = call.function.last_assignment(path, call.line)
    return last is not None and last.value is made.node and not are_alternatives(made.block, call.block)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_layer(given: Assignment) -> bool:
    """Return whether an `__init__` always binds a layer with weights."""
    function = given.block.function
    is_always = function.name == "__init__" and given.block is function.block and given.target.startswith("self.")
    return (
        is_always
        and isinstance(given.value, ast.Call)
        and _WITH_WEIGHTS.fullmatch(_made(given.value, function)) is not None
    )


def _mentions(name: str, index: ProjectIndex) -> int:
    """Return how often the files mention an attribute, as such or in a string."""
    read = rf"""\.{re.escape(name)}\b|["']{re.escape(name)}["'.]"""
    return index.once(
        ("mentions", name), lambda: sum(len(re.findall(read, file.text)) for file in index.files.values())
    )


def _made(value: ast.Call, function: Function) -> str:
    return resolve(dotted(value.func), function)


def _parts(owner: Class, index: ProjectIndex, most: int = 40) -> list[Class]:
    """Return the class of a model and those of the parts that it makes."""
    found = [owner]
    for each in found:
        if len(found) > most:
            break
        methods = [method for one in index.lineage(each).classes for method in one.methods.values()]
        for call in (call for method in methods for call in method.calls):
            made = index.class_called(call.node, call.function)
            if made is not None and made not in found and index.is_module(made):
                found.append(made)
        found += [one for one in index.lineage(each).classes if one not in found and index.is_module(one)]
    return found
