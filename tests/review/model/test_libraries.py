"""Facts about libraries: names, versions, classes of receivers, and the library files of a project."""

from __future__ import annotations

import pytest

from esper_agents.errors import UsageError
from esper_agents.review.model.knowledge import (
    DeviceEffect,
    Effect,
    GradEffect,
    GraphEffect,
    InitialMode,
    ResultKind,
)
from esper_agents.review.model.libraries import LibraryKnowledge, read_library

KNOWN = LibraryKnowledge()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler"),
        ("torch.autograd.grad_mode.no_grad", "torch.no_grad"),
        ("pytorch_lightning.LightningModule", "lightning.LightningModule"),
        ("lightning.pytorch.LightningModule", "lightning.LightningModule"),
    ],
)
def test_a_name_has_the_facts_of_what_it_stands_for(one, other):
    assert KNOWN.call(other) is not None
    assert KNOWN.call(one) == KNOWN.call(other)


def test_constructors_say_kind_and_mode():
    assert KNOWN.call("torch.nn.BatchNorm2d").acts_by_mode is True
    assert KNOWN.call("torch.nn.Linear").has_parameters is True
    assert KNOWN.call("torch.nn.Dropout").has_parameters is False
    assert KNOWN.call("transformers.AutoModel.from_pretrained").mode is InitialMode.EVALUATION
    assert KNOWN.call("transformers.BertForMaskedLM").mode is InitialMode.TRAINING
    assert KNOWN.call("timm.create_model").mode is InitialMode.TRAINING
    assert KNOWN.call("torch.optim.AdamW").result is ResultKind.OPTIMIZER
    assert KNOWN.call("torch.nn.Parameter").graph is GraphEffect.LEAF


def test_a_tokenizer_is_no_module():
    assert KNOWN.call("transformers.AutoTokenizer.from_pretrained").result is ResultKind.UNKNOWN


def test_functions_say_what_they_write_and_which_grad_mode_holds():
    assert KNOWN.call("torch.nn.init.xavier_uniform_").writes == (0,)
    assert KNOWN.call("torch.nn.init.xavier_uniform_").grad_mode is GradEffect.OFF
    assert KNOWN.call("torch.no_grad").grad_mode is GradEffect.OFF
    assert KNOWN.call("torch.nn.functional.relu").result is ResultKind.TENSOR


def test_methods_go_by_kind_and_class_of_the_receiver():
    assert KNOWN.method(ResultKind.MODULE, "eval").effects == {Effect.TO_EVALUATION}
    assert KNOWN.method(ResultKind.TENSOR, "item").effects == {Effect.FETCH}
    assert KNOWN.method(ResultKind.TENSOR, "add_").writes == (-1,)
    assert KNOWN.method(ResultKind.SCALER, "unscale_").effects == {Effect.UNSCALE}
    backward = KNOWN.method(ResultKind.UNKNOWN, "backward", "accelerate.Accelerator")
    assert backward.effects == {Effect.BACKWARD}
    assert KNOWN.method(ResultKind.MODULE, "generate", "transformers.GPT2LMHeadModel").graph is GraphEffect.CUTS
    assert KNOWN.method(ResultKind.MODULE, "no_such_method") is None


def test_attributes_are_readable():
    assert KNOWN.attribute(ResultKind.LOADER, "dataset").result is ResultKind.DATASET
    assert KNOWN.attribute(ResultKind.TENSOR, "data").graph is GraphEffect.CUTS


def test_hooks_of_frameworks():
    hooks = {hook.method: hook for hook in KNOWN.hooks("pytorch_lightning.LightningModule")}
    assert hooks["validation_step"].grad is GradEffect.OFF
    assert hooks["validation_step"].mode is InitialMode.EVALUATION
    assert hooks["training_step"].result_goes_backward
    assert KNOWN.hooks("project.Base") == ()


def test_what_is_not_known_has_no_facts():
    assert KNOWN.call("project.helpers.run") is None
    assert KNOWN.call("torch.no_such_function") is None


def test_a_row_beyond_its_version_range_does_not_count():
    assert KNOWN.call("transformers.AdamW") is None
    old = LibraryKnowledge(versions={"transformers": "4.30.0"})
    assert old.call("transformers.AdamW").result is ResultKind.OPTIMIZER
    assert LibraryKnowledge(versions={"torch": "2.4.1"}).call("torch.nn.Buffer").result is ResultKind.MODULE


def test_a_project_describes_its_own_library(tmp_path):
    file = tmp_path / "rows.toml"
    file.write_text(
        '[[call]]\nnames = ["ours.build"]\nresult = "module"\nmode = "evaluation"\n'
        '[[method]]\nkind = "module"\nclass = "ours.build"\nnames = ["fit"]\nresult = "none"\neffects = ["backward"]\n'
        'check = "raise SystemExit"\n'
    )
    known = LibraryKnowledge([file])
    assert known.call("ours.build").mode is InitialMode.EVALUATION
    assert known.method(ResultKind.MODULE, "fit", "ours.build").effects == {Effect.BACKWARD}
    assert known.call("torch.nn.Linear") == KNOWN.call("torch.nn.Linear")


@pytest.mark.parametrize(
    "row",
    [
        '[[call]]\nnames = ["torch.load"]\nresult = "number"\n',
        '[[call]]\nnames = ["transformers.Trainer"]\nresult = "none"\n',
        '[[call]]\nnames = ["*"]\nresult = "none"\n',
        '[[method]]\nkind = "tensor"\nnames = ["item"]\nresult = "number"\n',
        '[[method]]\nkind = "tensor"\nclass = "tor*"\nnames = ["item"]\nresult = "number"\n',
        '[aliases]\n"torch.load" = "ours.load"\n',
    ],
)
def test_a_project_cannot_describe_what_is_bundled(tmp_path, row):
    (tmp_path / "rows.toml").write_text(row)
    with pytest.raises(UsageError, match=r"describes|without 'class'"):
        LibraryKnowledge([tmp_path / "rows.toml"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[call]\n", "cannot read library file"),
        ('[[call]]\nresult = "module"\n', "has no 'names'"),
        ('[[call]]\nnames = ["ours.f"]\nresult = "thing"\n', "is 'thing', not one of unknown, none, tensor"),
        ('[[call]]\nnames = ["ours.f"]\nwrites = ["x"]\n', "'writes = "),
        ('[[call]]\nnames = ["ours.f"]\nruns = "os.system"\n', "'runs = 'os.system'' is not one of the facts"),
        ('call = "ours.f"\n', "'call' is not a list of tables"),
        ("aliases = 3\n", "'aliases' is not a table of names"),
        ('[[hooks]]\nbases = ["ours.B"]\n[[hooks.hook]]\nspeed = 3\n', "a hook has no methods"),
        ('[[hooks]]\nbases = "ours.B"\n', "has no 'bases'"),
    ],
)
def test_a_row_that_is_not_valid_is_an_error_with_its_file(tmp_path, text, problem):
    file = tmp_path / "rows.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_library(file)
    assert problem in str(error.value)
    assert "rows.toml" in str(error.value)


def test_a_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="cannot read library file"):
        read_library(tmp_path / "none.toml")


def test_a_device_goes_by_argument():
    assert KNOWN.method(ResultKind.TENSOR, "to").device is DeviceEffect.ARGUMENT
    assert KNOWN.method(ResultKind.TENSOR, "cpu").device is DeviceEffect.CPU
