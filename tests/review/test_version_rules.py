"""ESP511 and ESP512, the range of torch that a project asks for, and that what is said of torch's names is so."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import warnings
from textwrap import dedent

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review
from esper_agents.review.symbols import symbols
from esper_agents.review.versions import TorchSettings

SYMEIG = "import torch\n\nvalues = torch.symeig(a)\n"

ASKED = {
    "pyproject.toml": {
        '[project]\nname = "x"\ndependencies = ["torch>=2.6"]': (True, True),
        '[project]\nname = "x"\ndependencies = ["torch>=2.0", "numpy"]': (True, False),
        '[project]\nname = "x"\ndependencies = ["torch>=1.8,<2.0"]': (False, False),
        '[project]\nname = "x"\ndependencies = ["torch"]': (True, False),
        '[project]\nname = "x"\n[project.optional-dependencies]\ntorch = ["torch==2.4.1"]': (True, False),
        '[project]\nname = "x"\ndependencies = ["torch>=2.6"]\n[dependency-groups]\ndev = ["torch==2.1"]': (True, True),
        '[tool.poetry.dependencies]\ntorch = "^1.10"': (False, False),
        '[tool.poetry.dependencies]\ntorch = {version = "~2.1", source = "pytorch"}': (True, False),
        '[tool.poetry.group.train.dependencies]\ntorch = [{version = "2.7.*"}]': (True, True),
    },
    "setup.cfg": {
        "[options]\ninstall_requires =\n    torch>=2.7\n    numpy": (True, True),
        "[options.extras_require]\nall =\n    torch<1.13": (False, False),
    },
    "setup.py": {
        'from setuptools import setup\nsetup(install_requires=["numpy", "torch>=2.6"])': (True, True),
        'from setuptools import setup\nneeds = ["torch<1.10"]\nsetup(install_requires=needs)': (False, False),
        'from setuptools import setup\nsetup(extras_require={"all": ["torch>=2.0"]})': (True, False),
    },
    "requirements.txt": {
        "torch==1.12.1+cu113\nnumpy": (False, False),
        "# torch\ntorch >= 2.6  # newer\n": (True, True),
        "torch[opt-einsum]~=2.6": (True, True),
        "torch==2.0.1; python_version < '3.12'": (True, False),
    },
    "requirements-train.txt": {"torch>=2.8": (True, True)},
    "environment.yml": {
        "dependencies:\n  - pytorch=1.10\n": (False, False),
        "dependencies:\n  - pytorch::pytorch=2.7.0=py3.11_cuda12\n": (True, True),
        "dependencies:\n  - pip:\n    - torch>=2.6\n": (True, True),
    },
}
EACH = [(name, text, expected) for name, texts in ASKED.items() for text, expected in texts.items()]


@pytest.mark.parametrize(("name", "text", "expected"), EACH)
def test_the_range_of_torch_is_read_from_the_settings(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    asked = TorchSettings(tmp_path).asked_near("src/pkg/train.py")
    assert asked is not None
    assert (asked.reaches("2.0"), asked.starts_at("2.6")) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project\ntorch"),
        ("pyproject.toml", '[project]\ndependencies = "torch"'),
        ("pyproject.toml", 'torch = 1\nproject = "torch"'),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["torchvision>=0.9"]'),
        ("setup.py", "from setuptools import (torch"),
        ("setup.py", "setup(install_requires=open('torch.txt').read())"),
        ("setup.cfg", "torch>=2"),
        ("environment.yml", "torch: [\n"),
        ("environment.yml", "- torch"),
        ("requirements.txt", "torch @ https://example.com/torch.whl"),
        ("requirements.txt", "pytorch-lightning>=2.0"),
        ("requirements.txt", "\x00\x01torch"),
    ],
)
def test_settings_that_cannot_be_read_or_say_nothing_of_torch_are_no_error(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert TorchSettings(tmp_path).asked_near("train.py") is None


def test_the_nearest_folder_with_a_range_decides_and_nothing_above_the_root_counts(tmp_path):
    root = tmp_path / "project"
    (root / "examples" / "old").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch==1.0\n")
    settings = TorchSettings(root)
    assert settings.asked_near("train.py") is None
    (root / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["torch>=2.6"]\n')
    (root / "examples" / "old" / "requirements.txt").write_text("torch==1.8.1\n")
    settings = TorchSettings(root)
    assert settings.asked_near("pkg/train.py").starts_at("2.6")
    assert not settings.asked_near("examples/old/train.py").reaches("1.9")


def test_a_package_counts_before_an_environment_beside_it(tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==2.1\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\ndependencies = ["torch>=2.6"]\n')
    assert TorchSettings(tmp_path).asked_near("train.py").starts_at("2.6")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, [Severity.WARNING]),
        ("torch>=1.8", [Severity.CRITICAL]),
        ("torch", [Severity.CRITICAL]),
        ("torch==2.3.0", [Severity.CRITICAL]),
        ("torch<2.0", []),
        ("torch==1.9.0", []),
    ],
)
def test_a_removed_name_counts_by_the_range_the_project_asks_for(tmp_path, asked, expected):
    (tmp_path / "train.py").write_text(SYMEIG)
    if asked is not None:
        (tmp_path / "requirements.txt").write_text(f"{asked}\n")
    assert [claim.severity for claim in review(tmp_path, [tmp_path], rules=["ESP511"]).claims] == expected


@pytest.mark.parametrize(
    ("asked", "count"), [("torch>=2.4", 1), ("torch>=2.0", 0), ("torch<2.4", 0), ("torch>=2.3,<2.4", 0)]
)
def test_a_deprecated_name_counts_where_all_versions_have_its_replacement(tmp_path, asked, count):
    source = "import torch\n\nwith torch.backends.cuda.sdp_kernel():\n    pass\n"
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "requirements.txt").write_text(f"{asked}\n")
    assert len(review(tmp_path, [tmp_path], rules=["ESP512"]).claims) == count


REMOVED = [
    "values, vectors = torch.symeig(a, eigenvectors=True)",
    "values, vectors = a.symeig(eigenvectors=True)",
    "x, _ = torch.solve(b, a)",
    "x, _ = torch.lstsq(b, a)",
    "rank = torch.matrix_rank(a)",
    "y = torch.rfft(x, 2)",
    "y = torch.fft(x, 2)",
    "from torch._six import string_classes",
    "import torch._six",
    "is_text = isinstance(x, torch._six.string_classes)",
    "s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, mode='min', verbose=True)",
    "s = StepLR(o, 10, verbose=False)",
    "spectrum = torch.stft(x, 512, hop_length=128)",
    "x = Variable(y, volatile=True)",
    "from torchvision.transforms.functional_tensor import rgb_to_grayscale",
    "from torchvision.models.utils import load_state_dict_from_url",
    "program = torch.onnx.dynamo_export(model, x)",
    "torch.onnx.export(model, x, 'm.onnx', example_outputs=y)",
    "from torch.distributed.pipeline.sync import Pipe",
    "program = torch.export.export_for_training(model, (x,))",
    "torch.distributed.all_reduce_multigpu([x])",
    "torch.set_deterministic(True)",
    "torchaudio.set_audio_backend('sox_io')",
]
HEAD = """import torch
import torchaudio
from torch.autograd import Variable
from torch.optim.lr_scheduler import StepLR

"""


@pytest.mark.parametrize("line", REMOVED)
def test_what_current_torch_no_longer_has_is_found(found, line):
    assert found("ESP511", f"{HEAD}{line}\n") == [line]


KEPT = [
    "values = torch.linalg.eigh(a)",
    "y = torch.fft.fft(x)",
    "y = numpy.linalg.lstsq(a, b)",
    "x = scipy.linalg.solve(a, b)",
    "s = StepLR(o, 10)",
    "s = torch.optim.lr_scheduler.StepLR(o, step_size=10, gamma=0.1)",
    "s = MyScheduler(o, verbose=True)",
    "spectrum = torch.stft(x, 512, return_complex=True)",
    "spectrum = torch.stft(x, **options)",
    "spectrum = librosa.stft(x)",
    "torch.onnx.export(model, x, 'm.onnx', opset_version=17)",
    "torch.set_default_dtype(torch.float32)",
]


@pytest.mark.parametrize("line", KEPT)
def test_what_current_torch_has_is_left_alone(found, line):
    assert found("ESP511", f"{HEAD}{line}\n") == []


GUARDED = {
    "a try": "try:\n    from torch._six import inf\nexcept ImportError:\n    from torch import inf\n",
    "a version": "if torch.__version__ < '2':\n    y = torch.symeig(a)\nelse:\n    y = torch.linalg.eigh(a)\n",
    "a flag": "if TORCH_VERSION >= (2, 0):\n    y = torch.linalg.eigh(a)\nelse:\n    y = torch.symeig(a)\n",
    "hasattr": "eigh = torch.linalg.eigh if hasattr(torch, 'linalg') else None\nif hasattr(torch, 'symeig'):\n"
    "    y = torch.symeig(a)\n",
    "a return": "def f(a):\n    if is_torch_greater_equal(2):\n        return torch.linalg.eigh(a)\n"
    "    return torch.symeig(a)\n",
    "a function": "def f(a):\n    try:\n        return torch.linalg.eigh(a)\n    except AttributeError:\n"
    "        return torch.symeig(a)\n",
}


@pytest.mark.parametrize("source", GUARDED.values(), ids=GUARDED)
def test_code_that_asks_for_the_version_is_left_alone(found, source):
    assert found("ESP511", f"import torch\n\n{source}") == []


CHOSEN = {
    "an import in a try": "try:\n    from torch.func import vmap\nexcept ImportError:\n"
    "    from functorch import vmap\n\n"
    "y = vmap(f)(x)\n",
    "a module in a try": "try:\n    import torch.func as ft\nexcept ModuleNotFoundError:\n"
    "    import functorch as ft\n\n"
    "y = ft.vmap(f)(x)\n",
    "any error": "try:\n    from torch.func import grad as slope\nexcept Exception:\n"
    "    from functorch import grad as slope\n"
    "\ndef f(x):\n    return slope(x)\n",
    "an import by the version": "if parse(torch.__version__) >= parse('2.0'):\n    from torch.func import vmap\nelse:\n"
    "    from functorch import vmap\n\ny = vmap(f)(x)\n",
    "a flag of an import": "try:\n    import torch.func\n    HAS_FUNC = True\nexcept ImportError:\n"
    "    HAS_FUNC = False\n\n"
    "if not HAS_FUNC:\n    import functorch\n    y = functorch.vmap(f)(x)\n",
    "a flag of the version": "MODERN = torch.__version__ >= '2.0'\nif MODERN:\n    y = torch.outer(a, b)\n"
    "else:\n    y = torch.ger(a, b)\n",
    "an attribute in a try": "try:\n    has = torch.backends.cuda.is_built()\nexcept AttributeError:\n"
    "    has = torch.has_cuda\n",
    "an attribute by the version": "if torch.__version__ >= '2.1':\n    has = torch.backends.cuda.is_built()\nelse:\n"
    "    has = torch.has_cuda\n",
    "a decorator in a try": "try:\n    compiled = torch.compile\nexcept ImportError:\n    @torch.jit.script\n"
    "    def f(x):\n        return x\n",
    "suppressed": "import contextlib\nwith contextlib.suppress(ImportError):\n    from functorch import vmap\n",
}
NOT_CHOSEN = {
    "an optional package": "try:\n    import functorch\nexcept ImportError:\n    functorch = None\n\n"
    "y = functorch.vmap(f)(x)\n",
    "a try for something else": "try:\n    import fast\nexcept ImportError:\n    fast = None\n\ny = torch.ger(a, b)\n",
    "a try for numbers": "try:\n    y = torch.ger(a, b)\nexcept ValueError:\n    y = None\n",
    "a flag for something else": "verbose = True\nif verbose:\n    y = torch.ger(a, b)\n",
}


@pytest.mark.parametrize("source", CHOSEN.values(), ids=CHOSEN)
def test_a_deprecated_name_that_stands_in_for_a_missing_one_is_left_alone(found, source):
    assert found("ESP512", f"import torch\n\n{source}") == []


@pytest.mark.parametrize("source", NOT_CHOSEN.values(), ids=NOT_CHOSEN)
def test_a_deprecated_name_beside_a_try_or_a_test_for_something_else_is_found(found, source):
    assert len(found("ESP512", f"import torch\n\n{source}")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "nn.init.xavier_uniform(w)",
        "init.kaiming_normal(w)",
        "torch.nn.utils.clip_grad_norm(net.parameters(), 1.0)",
        "torch.set_default_tensor_type(torch.cuda.FloatTensor)",
        "y = F.upsample(x, scale_factor=2)",
        "x = torch.autograd.Variable(x)",
        "from torch.autograd import Variable",
        "criterion = nn.CrossEntropyLoss(size_average=False)",
        "loss = F.mse_loss(x, y, reduce=False)",
        "net = torchvision.models.resnet18(pretrained=True)",
        "net = models.vgg16(pretrained=False)",
        "traced = torch.jit.trace(net, x)",
        "@torch.jit.script",
        "small = torch.quantization.quantize_dynamic(net)",
        "grids = torch.meshgrid(x, y)",
        "grad = functorch.grad(f)",
        "steps = torch.range(0, 10)",
        "q, r = torch.qr(a)",
        "net.register_backward_hook(hook)",
        "torch.testing.assert_allclose(a, b)",
        "from functorch import make_functional",
        "peak = torch.cuda.max_memory_cached()",
    ],
)
def test_what_torch_has_deprecated_is_found(found, line):
    head = (
        "import functorch\nimport torch\nimport torchvision\nfrom torch import nn\n"
        "from torch.nn import functional as F\nfrom torch.nn import init\nfrom torchvision import models\n\n"
    )
    more = "\ndef f(x):\n    return x\n" if line.startswith("@") else "\n"
    assert found("ESP512", f"{head}{line}{more}") == [line]


@pytest.mark.parametrize(
    "line",
    [
        "nn.init.xavier_uniform_(w)",
        "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
        "criterion = nn.CrossEntropyLoss(reduction='sum')",
        "net = models.resnet18(weights=None)",
        "net = timm.create_model('resnet18', pretrained=True)",
        "grids = torch.meshgrid(x, y, indexing='ij')",
        "net.register_full_backward_hook(hook)",
        "d = torch.norm(x)",
        "self.register_backward_hook(hook)",
        "x = numpy.random.normal(0, 1)",
        "reduced = torch.distributed.all_gather_into_tensor(out, x)",
    ],
)
def test_what_torch_has_not_deprecated_is_left_alone(found, line):
    head = "import numpy\nimport timm\nimport torch\nfrom torch import nn\nfrom torchvision import models\n\n"
    assert found("ESP512", f"{head}{line}\n") == []


def _resolved(path: str) -> object:
    parts = path.rstrip(".").split(".")
    for end in range(len(parts), 0, -1):
        with contextlib.suppress(ImportError):
            found = importlib.import_module(".".join(parts[:end]))
            for part in parts[end:]:
                found = getattr(found, part)
            return found
    raise ImportError(path)


def _is_there(path: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _resolved(path)
    except (ImportError, AttributeError):
        return False
    return True


OWN = [(symbol, name) for symbol in symbols() for name in symbol.names if name.startswith(("torch.", "functorch."))]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_is_said_of_torchs_names_is_so_in_the_installed_torch():
    """A name that is gone cannot be found, and one that is deprecated or fails in use can."""
    pytest.importorskip("torch")
    wrong = [name for each, name in OWN if _is_there(name) is (bool(each.removed) and not each.importable)]
    assert wrong == []


def test_the_table_is_large_and_whole():
    assert len({name for symbol in symbols() for name in symbol.names}) >= 60
    for symbol in symbols():
        assert symbol.source
        assert symbol.instead
        assert symbol.removed or symbol.deprecated
        assert not (symbol.keyword and symbol.absent)
        for snippet in re.findall(r"`([^`]+)`", symbol.replacement(symbol.names[0])):
            ast.parse(snippet)


def test_a_removed_name_in_a_module_of_another_file_is_read_through_its_imports(found):
    sources = {
        "ops.py": "from torch.autograd import Variable as V\nimport torch as th\n",
        "train.py": dedent(
            """
            import torch as th
            from torch.optim import lr_scheduler as sched

            values = th.symeig(a)
            plateau = sched.ReduceLROnPlateau(optimizer, patience=3, verbose=True)
            """
        ),
    }
    assert found("ESP511", sources) == [
        "values = th.symeig(a)",
        "plateau = sched.ReduceLROnPlateau(optimizer, patience=3, verbose=True)",
    ]
