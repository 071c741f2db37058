"""Tests of targets that import although the `__init__.py` of their package does not."""

import sys
import textwrap

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING of targets was loaded")

from esper_agents.torchlab.worker.target import bare_packages  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.bare_packages import packages_not_run  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.result import PackageNotRun  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.target import load  # noqa: E402 - wants torch

MISSING = "ModuleNotFoundError: No module named 'absent_package'"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return what writes the files of a project; modules, import path and finders are restored afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(bare_packages, "_not_run", {})
    before = set(sys.modules)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(path.name.replace("init", "__init__")).write_text(textwrap.dedent(text))
        return str(tmp_path)

    yield write
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"pack", "harness"}:
            del sys.modules[name]


def loaded(root, name):
    return load(root, name, texts=["ones(2)"], inputs_from=None, seed=0)


def test_a_module_is_loaded_without_the_init_of_its_package_that_imports_an_absent_package(written):
    root = written(
        pack__init="from .attend import double\nfrom .trainer import train\n",
        pack__trainer="import absent_package\n",
        pack__attend="from pack.helpers import two\nfrom . import more\n\n\ndef double(x):\n"
        "    return two * x * more.one\n",
        pack__helpers="two = 2\n",
        pack__more="one = 1\n",
    )
    target = loaded(root, "pack/attend.py:double")
    assert target.call(3) == 6
    assert packages_not_run() == (PackageNotRun("pack/__init__.py", MISSING),)


def test_every_package_on_the_way_that_fails_is_left_bare(written):
    root = written(
        pack__init="raise RuntimeError('operator torchvision::nms does not exist')\n",
        pack__sub__init="import absent_package\n",
        pack__sub__inner="def same(x):\n    return x\n",
    )
    assert loaded(root, "pack.sub.inner:same").call(3) == 3
    assert packages_not_run() == (
        PackageNotRun("pack/__init__.py", "RuntimeError: operator torchvision::nms does not exist"),
        PackageNotRun("pack/sub/__init__.py", MISSING),
    )


def test_a_file_outside_the_package_that_imports_one_of_its_modules_is_loaded(written):
    root = written(
        pack__init="import absent_package\n",
        pack__attend="def same(x):\n    return x\n",
        harness="from pack.attend import same\n\n\ndef make():\n    return same\n",
    )
    assert loaded(root, "harness.py:make").call(3) == 3
    assert [each.file for each in packages_not_run()] == ["pack/__init__.py"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import absent_package\n", id="the target imports it, too"),
        pytest.param("from .helpers import two\n", id="a file that the target imports imports it"),
        pytest.param("from . import VERSION\n", id="the target uses a name of the init"),
        pytest.param("undefined_name\n", id="the target is faulty"),
    ],
)
def test_the_first_error_is_raised_if_the_module_needs_more_than_its_package_provides(written, text):
    root = written(
        pack__init="VERSION = 1\nimport absent_package\n",
        pack__helpers="import absent_package\ntwo = 2\n",
        pack__attend=f"{text}\n\ndef same(x):\n    return x\n",
    )
    with pytest.raises(ModuleNotFoundError, match="No module named 'absent_package'") as raised:
        loaded(root, "pack/attend.py:same")
    assert raised.traceback[-1].path.name == "__init__.py"
    assert packages_not_run() == ()
    assert not [name for name in sys.modules if name.partition(".")[0] == "pack"]


def test_an_error_of_the_target_that_its_package_meets_first_is_raised(written):
    root = written(
        pack__init="from .attend import same\n",
        pack__attend="same = undefined_name\n",
    )
    with pytest.raises(NameError, match="undefined_name"):
        loaded(root, "pack/attend.py:same")
    assert packages_not_run() == ()


def test_the_init_runs_if_it_is_the_target(written):
    root = written(pack__init="import absent_package\n\n\ndef same(x):\n    return x\n")
    for name in ("pack:same", "pack/__init__.py:same"):
        with pytest.raises(ModuleNotFoundError, match="absent_package"):
            loaded(root, name)


def test_a_name_that_the_target_takes_from_a_bare_package_when_it_runs_says_what_was_not_run(written):
    root = written(
        pack__init="import absent_package\n",
        pack__attend="import pack\n\n\ndef version(x):\n    return pack.VERSION\n",
    )
    target = loaded(root, "pack/attend.py:version")
    with pytest.raises(AttributeError, match=f"pack/__init__.py was not run, because it raised {MISSING}"):
        target.call(1)


def test_a_package_that_runs_is_not_left_bare(written):
    root = written(
        pack__init="VERSION = 7\n", pack__attend="from . import VERSION\n\n\ndef version(x):\n    return VERSION\n"
    )
    assert loaded(root, "pack/attend.py:version").call(1) == 7
    assert packages_not_run() == ()
