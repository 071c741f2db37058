"""What training frameworks do for the code they call: everything the rules know of them stands here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.names import tail_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables, Function

# Lightning, HF Trainer, fastai, composer and catalyst name their bases so; their loops call what inherits from them.
_MANAGED_BASES = frozenset(
    {"LightningModule", "LightningDataModule", "Trainer", "Seq2SeqTrainer", "Learner", "Callback", "TrainerCallback"}
    | {"ComposerModel", "SFTTrainer", "DPOTrainer", "Runner", "HuggingFaceModel"}
)
# Hooks in which the framework has already switched the mode and turned gradients off.
_EVALUATION_HOOKS = frozenset(
    {"validation_step", "test_step", "predict_step", "validation_epoch_end", "test_epoch_end", "eval_forward"}
    | {"on_validation_epoch_end", "on_test_epoch_end", "on_validation_batch_end", "on_test_batch_end"}
    | {"prediction_step", "compute_metrics", "on_validation_epoch_start", "on_test_epoch_start"}
)
# Hooks whose returned loss the framework sends backward, step after step.
_TRAINING_HOOKS = frozenset({"training_step", "compute_loss"})
# Hooks that hand a framework the loader to train on.
_LOADER_HOOKS = frozenset({"train_dataloader", "get_train_dataloader"})
# Packages whose own loops feed samplers, place modules and clear gradients.
_LOOP_PACKAGES = frozenset(
    {"lightning", "pytorch_lightning", "accelerate", "ignite", "fastai", "catalyst", "composer", "skorch", "poutyne"}
)
# Those of them that also switch a model between training and evaluation.
_SWITCHING_PACKAGES = _LOOP_PACKAGES - {"accelerate", "ignite"}
# torchtune runs no loop and switches no mode: its recipes are copied and hold both. These are what it does for them.
_PLACING = ("torchtune.utils.batch_to_device", "torchtune.utils._device.batch_to_device")
_COMPILING = ("torchtune.training.compile_model", "torchtune.training.compile_loss")
# Engines of these packages clear the gradients in their `step`.
_SELF_CLEARING = frozenset({"deepspeed"})


def is_managed(owner: Class, index: ProjectIndex) -> bool:
    """Return whether a framework's loop calls the methods of a class."""
    return any(tail_of(base) in _MANAGED_BASES for base in index.lineage(owner).foreign)


def provides_evaluation(function: Function, index: ProjectIndex) -> bool:
    """Return whether a framework calls a function in evaluation mode and without gradients."""
    owner = owner_of(function)
    return owner is not None and function.name in _EVALUATION_HOOKS and is_managed(owner, index)


def repeats_as_training_step(function: Function, index: ProjectIndex) -> bool:
    """Return whether a framework calls a function for every batch and sends what it returns backward."""
    owner = owner_of(function)
    return owner is not None and function.name in _TRAINING_HOOKS and is_managed(owner, index)


def hands_out_training_batches(function: Function, index: ProjectIndex) -> bool:
    """Return whether a framework trains on what a function returns."""
    owner = owner_of(function)
    return owner is not None and function.name in _LOADER_HOOKS and is_managed(owner, index)


def is_framework_step(function: Function, index: ProjectIndex) -> bool:
    """Return whether a framework calls a function with batches that it has put on the model's device."""
    owner = owner_of(function)
    steps = {"training_step", "validation_step", "test_step", "predict_step", "compute_loss", "prediction_step"}
    return owner is not None and function.name in steps and is_managed(owner, index)


def runs_the_loop(file: FileTables) -> bool:
    """Return whether a file leaves its loop to a framework, or wraps it in one."""
    return _imports(file, _LOOP_PACKAGES) or _has_trainer(file)


def switches_modes(file: FileTables) -> bool:
    """Return whether a file leaves it to a framework to switch its models to evaluation and back."""
    return _imports(file, _SWITCHING_PACKAGES) or _has_trainer(file)


def places_batches(file: FileTables) -> bool:
    """Return whether a framework moves what the loaders of a file give to the device."""
    return runs_the_loop(file) or _imports(file, {"deepspeed", "torch_xla"}) or any(file.calls_to(*_PLACING))


def compiles(file: FileTables) -> bool:
    """Return whether a file lets a framework compile its model or its loss."""
    return any(file.calls_to(*_COMPILING))


def _imports(file: FileTables, packages: Collection[str]) -> bool:
    return any(each.split(".")[0] in packages for each in file.imports.values())


def _has_trainer(file: FileTables) -> bool:
    """Return whether a file imports a trainer of transformers or trl; their models alone bring no loop."""
    return any(
        each.split(".")[0] in {"transformers", "trl"} and each.endswith("Trainer") for each in file.imports.values()
    )


def clears_gradients_itself(step: Call) -> bool:
    """Return whether a `step` call belongs to an engine that clears the gradients after it."""
    if _imports(step.function.file, _SELF_CLEARING):
        return True
    engines = (call.receiver for call in step.function.calls if call.tail == "backward")
    return bool(step.receiver) and step.receiver in engines
