"""What training frameworks do for the code they call: everything the rules know of them stands here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.names import tail_of

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables, Function

# Lightning, HF Trainer and fastai name their bases so; what inherits from them is called by a loop of theirs.
_MANAGED_BASES = frozenset(
    {"LightningModule", "LightningDataModule", "Trainer", "Seq2SeqTrainer", "Learner", "Callback", "TrainerCallback"}
)
# Hooks in which the framework has already switched the mode and turned gradients off.
_EVALUATION_HOOKS = frozenset(
    {
        "validation_step",
        "test_step",
        "predict_step",
        "validation_epoch_end",
        "test_epoch_end",
        "on_validation_epoch_end",
        "on_test_epoch_end",
        "on_validation_batch_end",
        "prediction_step",
        "compute_metrics",
    }
)
# Hooks whose returned loss the framework sends backward, step after step.
_TRAINING_HOOKS = frozenset({"training_step", "compute_loss"})
# Packages whose own loops feed samplers, place modules and clear gradients.
_LOOP_PACKAGES = ("lightning", "pytorch_lightning", "accelerate", "ignite", "fastai", "transformers", "catalyst")
# Objects of these packages whose `step` clears the gradients itself.
_SELF_CLEARING = ("deepspeed",)


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


def runs_the_loop(file: FileTables) -> bool:
    """Return whether a file leaves its loop to a framework, or wraps it in one."""
    return any(each.split(".")[0] in _LOOP_PACKAGES for each in file.imports.values())


def clears_gradients_itself(step: Call) -> bool:
    """Return whether a `step` call belongs to an engine that clears the gradients after it."""
    if any(each.split(".")[0] in _SELF_CLEARING for each in step.function.file.imports.values()):
        return True
    engines = (call.receiver for call in step.function.calls if call.tail == "backward")
    return bool(step.receiver) and step.receiver in engines
