"""ESP408: a model is called once for each sample of a batch."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.attributes import holds_layer
from esper_agents.review.blocks import BlockKind
from esper_agents.review.carried import hangs_on_last_round
from esper_agents.review.definitions import owner_of
from esper_agents.review.hot import hot_around
from esper_agents.review.index import argument_for
from esper_agents.review.models import forward_calls, forward_calls_in
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule, RuntimeExpectation
from esper_agents.review.sample_loops import Over, annotation_of, may_be_list, sample_loops
from esper_agents.review.samples import Sample, SampleTrace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_TIME = pattern(
    r"t|time\w*|step\w*|ts|tau|pos|position|layer\w*|level|lvl|scale|head|hop|depth|k|fold|seed|epoch\w*|it|iter\w*"
)
_NO_BATCH = pattern(
    r"(?:\w+_)?(?:data_?loader|loader|paths?|files?|filenames?|urls?|prompts?|texts?|sentences?|docs|documents"
    r"|epochs?|seeds?|folds?|scales?|layers?|models?|modules?|heads?|views?|crops?|levels?|stages?|stream|reader|queue"
    r"|timesteps?|steps|tokens?|words?|sequences?|seqs?|graphs?|episodes?|modalities|augs?|augmentations|transforms)"
    r"|\w*[lL]oader"
)
_TEXTS = pattern(r"(?:\w+_)?(?:texts?|sentences?|docs|documents|prompts?|sequences?|queries|passages)")
_BATCHES = pattern(
    r"x|X|xs|(?:\w+_)?batch(?:_\w+)?|samples?|inputs?|imgs?|images?|frames?|patches|pixel_values|observations|obs|states"
)
_STATEFUL = pattern(r"(?:\w+_)?(?:cell|rnn|lstm|gru|memory|decoder|step|env)(?:_?\d+|_\w+)?", re.IGNORECASE)
_STEPWISE = pattern(r"(?:\w+_)?(?:generate|sample|decode|rollout|unroll|beam_search|stream\w*|online\w*)(?:_\w+)?")
_MODEL = pattern(
    r"(?:\w+_)?(?:encoder|backbone|extractor|classifier|generator|discriminator|unet|vit|resnet|detector|segmenter"
    r"|embedder|transformer|predictor|regressor|cnn|mlp|ae|vae)"
)
_GRADIENTS = frozenset({"backward", "manual_backward", "grad", "jacobian", "hessian", "vjp", "jvp"})


class ModelCalledPerSample(Rule):
    """A loop over the samples of a batch that calls a model with one of them at a time.

    ## Why it costs
    A forward starts its kernels once for each sample, and each of them has too little work to fill the device. One
    call with the whole batch starts them once. In training, batch normalisation also sees batches of one.

    ## When it is right
    The samples differ in size, each depends on the result of the one before, or memory holds no more than one. Time
    steps of a recurrent model, generation, loops over models, layers, views or a loader, and loops that send gradients
    backward for each sample are not reported.

    ## Sources
    PyTorch performance tuning guide; documentation of `torch.func.vmap` for models that take one sample only.
    """

    code, name = "ESP408", "model-called-per-sample"
    severity, category = Severity.WARNING, Category.PERFORMANCE
    shown = RuntimeExpectation.REPEATS
    bad = (
        "def embed(model, batch):\n"
        "    features = []\n"
        "    for image in batch:\n"
        "        features.append(model(image.unsqueeze(0)))\n"
        "    return torch.cat(features)\n"
    )
    good = "def embed(model, batch):\n    return model(batch)\n"

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the calls of models in loops over samples."""
        loops = sample_loops(file, index)
        if not loops or not any(call.block.loop in loops for call in file.calls):
            return
        models = {call.node for call in forward_calls(file, index)}
        done: set[Block] = set()
        for call in file.calls:
            loop = call.block.loop
            if loop is None or loop not in loops or loop in done or not (call.node.args or call.node.keywords):
                continue
            is_model = (call.node in models and not call.path.isupper()) or _is_part(call, index)
            is_model = is_model or _is_handed_model(call)
            found = [self._called(call, each, index, is_model=is_model) for each in loops[loop]]
            for hit in [each for each in found if each is not None][:1]:
                done.add(loop)
                yield hit

    def _called(self, call: Call, over: Over, index: ProjectIndex, *, is_model: bool) -> RuleMatch | None:
        loop, is_followed = call.block.loop, False
        if loop is None:
            return None
        trace = SampleTrace(over, loop, call.function)
        if is_model or _may_be_part(call, index):
            handed = (trace.of(each, call.line + 1) for each in (*call.node.args, *_keywords(call)))
            sample = next((each for each in handed if each.is_sample), Sample())
        else:
            sample, is_followed = _in_helper(call, trace, index), True
        if not sample.is_sample or sample.is_loaded or not (is_model or sample.adds_axis) or _is_excused(call, loop):
            return None
        is_batch = _is_batch(over, sample, call, index)
        return self._found(call, over, sample, index, is_followed=is_followed) if is_batch else None

    def _found(self, call: Call, over: Over, sample: Sample, index: ProjectIndex, *, is_followed: bool) -> RuleMatch:
        is_sure = over.is_tensor or (over.has_shape and bool(over.counter))
        is_advice = sample.is_prepared and not is_sure and hot_around(call.block, index) is None
        is_advice |= sample.is_tokenized
        whole = f"`{over.path}`" if over.path.replace(".", "").isidentifier() else "the whole batch"
        return self.hit(
            call.node,
            f"{call.path!r} {'calls a model' if is_followed else 'is called'} for one sample at a time",
            remedy=f"call it once with {whole}, stacked to one tensor where it is a list",
            confidence=Confidence.HIGH if is_sure and not is_followed else Confidence.MODERATE,
            basis=FOLLOWED if is_followed else SEEN if is_sure else f"{INFERRED}: that the samples have one size",
            severity=Severity.SUGGESTION if is_advice else None,
        )


def _in_helper(call: Call, trace: SampleTrace, index: ProjectIndex) -> Sample:
    """Return how a helper that is handed the sample hands it on to a model; no sample where it does not."""
    if not any(trace.of(each, call.line + 1).is_sample for each in (*call.node.args, *_keywords(call))):
        return Sample()
    for function in index.callees(call):
        inner = [each for each in forward_calls_in(function, index) if each.block.loop is None and each.node.args]
        for name in function.parameters if inner else ():
            handed = argument_for(call, function, name)
            sample = trace.of(handed, call.line + 1) if handed is not None else Sample()
            within = SampleTrace(Over(name, 0, element=name), function.block, function)
            for each in inner if sample.is_sample else ():
                found = within.of(each.node.args[0], each.line + 1)
                if found.is_sample:
                    return sample | found
    return Sample()


def _is_handed_model(call: Call) -> bool:
    """Return whether a call is of a parameter that is named as a model."""
    return call.path in call.function.parameters and _MODEL.fullmatch(call.path) is not None


def _keywords(call: Call) -> list[ast.expr]:
    return [keyword.value for keyword in call.node.keywords]


def _may_be_part(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call inside a model's own method runs something that its class holds: `self.backbone(x)`."""
    owner = owner_of(call.function)
    if call.receiver != "self" or owner is None or not index.is_module(owner):
        return False
    return index.method(owner, call.tail) is None and index.binding(call.path, call.function, call.line) is not None


def _is_part(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call inside a model's own method runs one of its layers: `self.encoder(x)`."""
    return call.receiver == "self" and holds_layer(call.path, call.function, call.line, index)


def _is_excused(call: Call, loop: Block) -> bool:
    """Return whether rounds depend on each other, or gradients are wanted for each sample."""
    function = call.function
    if _STATEFUL.fullmatch(call.tail) or _STEPWISE.fullmatch(function.name):
        return True
    if any(each.tail in _GRADIENTS and each.block.within(loop) for each in function.calls):
        return True
    if any(block.kind is BlockKind.WHILE and block.within(loop) and block is not loop for block in function.blocks):
        return True
    return hangs_on_last_round(call, loop)


def _is_batch(over: Over, sample: Sample, call: Call, index: ProjectIndex) -> bool:
    """Return whether what a loop goes over is a batch of samples of one size."""
    last = tail_of(over.path)
    is_time = bool(over.counter) and _TIME.fullmatch(over.counter) is not None and not sample.adds_axis
    if over.axis != 0 or is_time or (_NO_BATCH.fullmatch(last) and not _is_text(last, sample)):
        return False
    if _is_loader(over, call, index) or may_be_list(over.path, call.block):
        return False
    if sample.adds_axis:
        return True
    if sample.is_prepared:
        return False
    return over.is_tensor or bool(over.has_shape and over.counter) or _is_tensor_by_use(call, over)


def _is_text(name: str, sample: Sample) -> bool:
    """Return whether samples are texts that a tokenizer would pad to one size."""
    return sample.is_tokenized and _TEXTS.fullmatch(name) is not None


def _is_tensor_by_use(call: Call, over: Over) -> bool:
    return _BATCHES.fullmatch(tail_of(over.path)) is not None and _is_one_tensor(call, over)


def _is_one_tensor(call: Call, over: Over) -> bool:
    """Return whether what is gone over is one tensor elsewhere, and the results are put together to one again."""
    function = call.function
    if over.path in function.assignments and not any(over.path in block.targets for block in call.block.loops()):
        return False
    is_tensor = tail_of(annotation_of(over.path, function)) == "Tensor" or any(
        each.receiver == over.path and each.tail in {"size", "dim", "view", "permute", "unsqueeze", "reshape"}
        for each in function.calls
    )
    is_named_so = tail_of(over.path) in {"x", "X"} or "batch" in over.path
    return is_tensor or (is_named_so and _is_stacked(call))


def _is_stacked(call: Call) -> bool:
    """Return whether the comprehension round a call is what `torch.stack` is given."""
    loop = call.block.loop
    return loop is not None and any(
        each.tail in {"stack", "cat", "concat"} and loop.node in each.node.args for each in call.function.calls
    )


def _is_loader(over: Over, call: Call, index: ProjectIndex) -> bool:
    """Return whether what is gone over was made by something named as a loader, or as no batch."""
    if not over.path.isidentifier():
        return False
    return any(
        isinstance(origin.value, ast.Call) and _NO_BATCH.fullmatch(tail_of(dotted(origin.value.func)).lower())
        for origin in index.origins(ast.Name(over.path, ast.Load()), call.function, call.line)
    )
