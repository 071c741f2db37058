"""ESP507 to ESP510, ESP513 and ESP514: operators, optimizers, subclasses, settings and exports that torch refuses."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review, review_sources

OPERATOR = """
import torch
from torch import Tensor
from torch.library import custom_op

@custom_op("mine::op", mutates_args={mutates})
def op(x: Tensor, n: int, out: Tensor | None = None) -> Tensor:
    {line}
"""


def said(rule: str, source: str) -> list[tuple[str, str]]:
    claims = review_sources({"train.py": source}, rules=[rule]).claims
    return [(str(claim.severity), claim.excerpt.strip()) for claim in claims]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return x", "critical"),
        ("return x.view(-1)", "critical"),
        ("return x[1:]", "critical"),
        ("return x[..., None]", "critical"),
        ("return torch.transpose(x, 0, 1)", "critical"),
        ("return x.t().unsqueeze(0)", "critical"),
        ("return x if n else x.clone()", "critical"),
        ("return x.contiguous()", "warning"),
        ("return x.view(-1).to(torch.float16)", "warning"),
        ("return x.clone()", ""),
        ("return x.view(-1).clone()", ""),
        ("return x + 1", ""),
        ("return x[[0, 1]]", ""),
        ("return x[x > 0]", ""),
        ("return x.to(torch.float16, copy=True)", ""),
        ("return torch.empty_like(x)", ""),
        ("return x.sum(-1)", ""),
    ],
)
def test_an_operator_that_returns_its_input_or_a_view_of_it_is_found(line, expected):
    found = said("ESP507", OPERATOR.format(mutates="()", line=line))
    assert found == ([(expected, line)] if expected else [])


def test_a_view_under_another_name_is_followed_and_a_name_bound_anew_is_not():
    view = OPERATOR.format(mutates="()", line="y = x.view(-1)\n    return y")
    assert said("ESP507", view) == [("critical", "return y")]
    assert said("ESP507", view.replace("x.view(-1)", "x.view(-1) * 2")) == []
    assert said("ESP507", OPERATOR.format(mutates="()", line="x = x.clone()\n    return x")) == []


@pytest.mark.parametrize(
    ("mutates", "line", "count"),
    [
        ("()", "x.add_(1)", 1),
        ("[]", "x[0] = 1", 1),
        ("set()", "x += 1", 1),
        ("()", "torch.mul(x, 2, out=out)", 1),
        ('{"x"}', "x.add_(1)", 0),
        ('("x", "out")', "x.copy_(out)", 0),
        ('"unknown"', "x.add_(1)", 0),
        ("()", "y = x.clone(); y.add_(1)", 0),
        ("()", "n += 1", 0),
        ("()", "x.requires_grad_(False)", 0),
    ],
)
def test_an_input_that_is_changed_without_being_named_is_found(mutates, line, count):
    assert len(said("ESP507", OPERATOR.format(mutates=mutates, line=f"{line}\n    return torch.empty(3)"))) == count


SCHEMA = """
import torch
from torch.library import Library, impl

lib = Library("mine", "DEF")
lib.define("same({schema}")

@impl(lib, "same", "CPU")
def same(x):
    return {value}
"""


@pytest.mark.parametrize(
    ("schema", "value", "count"),
    [
        ("Tensor x) -> Tensor", "x", 1),
        ("Tensor x) -> Tensor", "x[:, 1:]", 1),
        ("Tensor x) -> Tensor", "x.clone()", 0),
        ("Tensor(a) x) -> Tensor(a)", "x", 0),
        ("Tensor(a!) x) -> Tensor(a!)", "x", 0),
    ],
)
def test_an_operator_by_schema_must_say_what_it_aliases(schema, value, count):
    assert len(said("ESP507", SCHEMA.format(schema=schema, value=value))) == count


def test_a_kernel_of_an_operator_is_an_operator_and_a_plain_function_is_not():
    kernel = '@op.register_kernel("cuda")\ndef _(x, n):\n    return x\n'
    plain = OPERATOR.format(mutates="()", line="return x.clone()")
    assert said("ESP507", f"{plain}\n{kernel}") == [("critical", "return x")]
    assert said("ESP507", f"{plain}\ndef same(x):\n    return x\n") == []
    assert said("ESP507", f"{plain}\n@op.register_fake\ndef _(x, n):\n    return x\n") == []


NETS = """
import torch
from torch import nn
from torch.optim import Muon

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.last = nn.Linear(8, 8)

class Matrices(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.last = nn.Linear(8, 8, bias=False)

net, plain = Net(), Matrices()
net = Net()
plain = Matrices()
"""


@pytest.mark.parametrize(
    ("handed", "expected"),
    [
        ("net.parameters()", "critical"),
        ("list(net.parameters())", "critical"),
        ("[p for p in net.parameters() if p.requires_grad]", "critical"),
        ("filter(lambda p: p.requires_grad, net.parameters())", "critical"),
        ('[{"params": net.parameters(), "lr": 0.1}]', "critical"),
        ("[p for _, p in net.named_parameters()]", "critical"),
        ("[p for p in net.parameters() if p.ndim >= 2]", "critical"),
        ("model.parameters()", "warning"),
        ("[p for p in net.parameters() if p.ndim == 2]", ""),
        ("[p for p in net.parameters() if p.dim() == 2 and p.requires_grad]", ""),
        ("[p for p in model.parameters() if p.ndim >= 2]", ""),
        ("[p for n, p in net.named_parameters() if 'weight' in n]", ""),
        ("plain.parameters()", ""),
        ("[net.last.weight]", ""),
        ("matrices", ""),
    ],
)
def test_muon_over_what_is_no_matrix_is_found(handed, expected):
    line = f"optimizer = Muon({handed}, lr=0.02)"
    assert said("ESP508", f"{NETS}\n{line}\n") == ([(expected, line)] if expected else [])


BY_NAME = """
from torch import nn
from torch.optim import Muon

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(8), nn.Linear(8, 8)

net = Net()
matrices, others = [], []
for name, p in net.named_parameters():
    (others if {test} else matrices).append(p)
optimizer = Muon(matrices)
"""


@pytest.mark.parametrize(
    ("test", "count"),
    [("name.endswith('bias')", 1), ("'bias' in name or 'norm' in name", 0), ("p.ndim != 2", 0), ("is_other(p)", 0)],
)
def test_parameters_sorted_by_name_alone_may_hold_norms(test, count):
    assert len(said("ESP508", BY_NAME.format(test=test))) == count


def test_another_optimizer_of_that_name_is_left_alone():
    assert said("ESP508", "from muon import Muon\n\noptimizer = Muon(net.parameters())\n") == []


SUBCLASSES = {
    "calls itself": ("return func(*args, **kwargs)", 1),
    "calls itself, guarded": ("kwargs = kwargs or {}\n        return func(*args, **kwargs)", 1),
    "super": ("return super().__torch_function__(func, types, args, kwargs or {})", 0),
    "turned off": (
        "with torch._C.DisableTorchFunctionSubclass():\n            return func(*args, **(kwargs or {}))",
        0,
    ),
    "unwrapped": ("args = tree_map(unwrap, args)\n        return func(*args, **(kwargs or {}))", 0),
    "unwrapped in place": ("return func(*[a.elem for a in args], **(kwargs or {}))", 0),
    "handled": ("return HANDLED[func](*args, **(kwargs or {}))", 0),
}


@pytest.mark.parametrize("base", ["torch.Tensor", "nn.Parameter"])
@pytest.mark.parametrize(("body", "count"), SUBCLASSES.values(), ids=SUBCLASSES)
def test_a_hook_that_asks_itself_again_is_found(body, count, base):
    source = (
        f"import torch\nfrom torch import nn\n\nclass Tagged({base}):\n    @classmethod\n"
        f"    def __torch_function__(cls, func, types, args=(), kwargs=None):\n        {body}\n"
    )
    assert len(said("ESP509", source)) == count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("@staticmethod\n    def __new__(cls, x):\n        return torch.as_tensor(x)", 1),
        ("@staticmethod\n    def __new__(cls, x):\n        return torch.as_tensor(x).as_subclass(cls)", 0),
        ("@staticmethod\n    def __new__(cls, x, tag):\n        return torch.Tensor._make_subclass(cls, x)", 0),
        (
            (
                "def __new__(cls, x, tag):\n        return super().__new__(cls, x)\n\n    def __init__(self, x, tag):\n"
                "        self.tag = tag"
            ),
            0,
        ),
        ("def __init__(self, x, tag):\n        self.tag = tag", 1),
        ("def __init__(self, x, tag=None):\n        self.tag = tag", 0),
        (
            (
                "def __torch_function__(self, func, types, args=(), kwargs=None):\n"
                "        return super().__torch_function__(func, types, args, kwargs)"
            ),
            1,
        ),
        ("pass", 0),
    ],
)
def test_a_subclass_that_is_made_wrongly_is_found(body, count):
    assert len(said("ESP509", f"import torch\n\nclass Tagged(torch.Tensor):\n    {body}\n")) == count


def test_a_mode_may_call_what_it_was_asked_about():
    source = (
        "import torch\nfrom torch.overrides import TorchFunctionMode\n\nclass Log(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        return func(*args, **(kwargs or {}))\n"
    )
    assert said("ESP509", source) == []


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("matmul.fp32_precision = 'ieee'\ntorch.backends.cuda.matmul.allow_tf32 = True", 1),
        ("matmul.fp32_precision = 'ieee'\ntorch.set_float32_matmul_precision('high')", 1),
        ("torch.backends.fp32_precision = 'tf32'\ntorch.backends.cudnn.allow_tf32 = True", 1),
        ("matmul.fp32_precision = 'ieee'\ntorch.backends.cudnn.conv.fp32_precision = 'tf32'", 0),
        ("torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cudnn.allow_tf32 = True", 0),
        ("torch.set_float32_matmul_precision('high')", 0),
        (
            (
                "if hasattr(torch.backends, 'fp32_precision'):\n    matmul.fp32_precision = 'tf32'\n"
                "else:\n    torch.backends.cuda.matmul.allow_tf32 = True"
            ),
            0,
        ),
        ("if NEW:\n    matmul.fp32_precision = 'tf32'\nelse:\n    torch.set_float32_matmul_precision('high')", 0),
    ],
)
def test_old_settings_of_tf32_beside_new_ones_are_found(lines, count):
    source = f"import torch\n\n{lines}\n".replace("matmul.fp32", "torch.backends.cuda.matmul.fp32")
    assert len(said("ESP510", source)) == count


def test_settings_in_two_files_are_joined(found):
    sources = {
        "setup_gpu.py": "import torch\n\n\ndef fast():\n    torch.backends.cuda.matmul.fp32_precision = 'tf32'\n",
        "train.py": "import torch\n\ntorch.backends.cudnn.allow_tf32 = True\n",
    }
    assert found("ESP510", sources) == ["torch.backends.cudnn.allow_tf32 = True"]


MODEL = """
import torch
import torchvision
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 8)

    def forward(self, x):
        return self.last(self.norm(x))

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 8)

    def forward(self, x):
        return self.last(x)

def settle(net):
    net.eval()

def build():
    net = Net()
    net.load_state_dict(torch.load("net.pt", weights_only=True))
    return net

def fit(net):
    net.train()
    net(torch.zeros(1, 8)).sum().backward()
    return net

def export(x, given):
"""


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("net = Net()\nnet.load_state_dict(torch.load('n.pt', weights_only=True))\ntorch.export.export(net, (x,))", 1),
        ("net = Net().cuda()\ntorch.jit.trace(net, x)", 1),
        ("net = Net()\nnet = net.to('cpu')\ntorch.jit.trace(net, x)", 1),
        ("net = torchvision.models.resnet18(weights='DEFAULT')\ntorch.onnx.export(net, x, 'n.onnx', dynamo=True)", 1),
        ("net = Net()\nnet.eval()\nnet.train()\ntorch.export.export(net, (x,))", 1),
        ("torch.export.export(Net(), (x,))", 1),
        ("net = build()\ntorch.export.export(net, (x,))", 1),
        ("net = fit(Net().to('cpu')).cpu()\ntorch.export.export(net, (x,))", 1),
        ("net = Net()\nfit(net)\ntorch.export.export(net, (x,))", 1),
        ("net = build().eval()\ntorch.export.export(net, (x,))", 0),
        ("net = fit(build())\nsettle(net)\ntorch.export.export(net, (x,))", 0),
        ("net = Net()\nnet.eval()\ntorch.export.export(net, (x,))", 0),
        ("net = Net().eval()\ntorch.jit.trace(net, x)", 0),
        ("net = Net()\nnet = net.to('cpu').eval()\ntorch.jit.trace(net, x)", 0),
        ("net = Net()\nnet.train(False)\ntorch.jit.trace(net, x)", 0),
        ("net = Net()\nnet.train(mode=flag)\ntorch.jit.trace(net, x)", 0),
        ("net = Net()\nsettle(net)\ntorch.jit.trace(net, x)", 0),
        ("net = Net()\nprepare_somewhere(net)\ntorch.jit.trace(net, x)", 0),
        ("net = Plain()\ntorch.export.export(net, (x,))", 0),
        ("net = Net()\ntorch.onnx.export(net, x, 'n.onnx', dynamo=False)", 0),
        ("torch.export.export(given, (x,))", 0),
        ("net = load_model()\ntorch.export.export(net, (x,))", 0),
    ],
)
def test_an_export_in_training_mode_is_found(lines, count):
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    assert len(said("ESP513", MODEL + body)) == count


@pytest.mark.parametrize(("asked", "count"), [("torch>=2.9", 1), ("torch<2.9", 0), ("torch>=2.0", 1)])
def test_the_onnx_exporter_of_older_versions_switches_the_mode_itself(tmp_path, asked, count):
    (tmp_path / "train.py").write_text(MODEL + "    net = Net()\n    torch.onnx.export(net, x, 'n.onnx')\n")
    (tmp_path / "requirements.txt").write_text(asked)
    assert len(review(tmp_path, [tmp_path], rules=["ESP513"]).claims) == count


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("torch.onnx.export(net, x, 'n.onnx', dynamo=False)", 1),
        ("torch.onnx.export(net, x, 'n.onnx', dynamo=True)", 0),
        ("torch.onnx.export(net, x, 'n.onnx')", 0),
        ("torch.onnx.export(net, x, 'n.onnx', dynamo=new)", 0),
    ],
)
def test_an_export_by_the_older_exporter_is_found(call, count):
    assert len(said("ESP514", f"import torch\n\n{call}\n")) == count


@pytest.mark.parametrize(
    ("test", "expected"),
    [("x.sum() > 0", [Severity.WARNING]), ("x.shape[0] > 1", []), ("self.training", []), ("mask is None", [])],
)
def test_a_trace_of_code_that_branches_on_values_is_a_warning(test, expected):
    source = (
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x, mask=None):\n"
        f"        if {test}:\n            return x\n        return -x\n\ntraced = torch.jit.trace(Net().eval(), x)\n"
    )
    assert [Severity(severity) for severity, _ in said("ESP514", source)] == expected
