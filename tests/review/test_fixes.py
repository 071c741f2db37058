"""Each fix parses, silences its rule and nothing else, and leaves the rest of the file as it was, to the byte."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from esper_agents.review import rewriting
from esper_agents.review.catalogue import catalogue
from esper_agents.review.engine import review, review_sources
from esper_agents.review.fixes import plan_fixes, write

FIXABLE = [rule for rule in catalogue() if rule.is_fixable]

# Before and after, by rule.
CASES = [
    ("ESP405", "optimizer.zero_grad(set_to_none=False)\n", "optimizer.zero_grad()\n"),
    ("ESP405", "self.optimizer.zero_grad(False)\n", "self.optimizer.zero_grad()\n"),
    ("ESP405", "wrap(optimizer).zero_grad(set_to_none=False)\n", "wrap(optimizer).zero_grad()\n"),
    (
        "ESP502",
        "from torch.cuda.amp import autocast\n\nwith autocast():\n    y = f(x)\n",
        'import torch\n\nwith torch.amp.autocast("cuda"):\n    y = f(x)\n',
    ),
    (
        "ESP502",
        "import torch\n\nwith torch.cuda.amp.autocast(use_amp, torch.bfloat16):\n    y = f(x)\n",
        'import torch\n\nwith torch.amp.autocast("cuda", enabled=use_amp, dtype=torch.bfloat16):\n    y = f(x)\n',
    ),
    (
        "ESP502",
        "from torch.cuda import amp\n\nscaler = amp.GradScaler(2.0, enabled=False)\n",
        'import torch\n\nscaler = torch.amp.GradScaler("cuda", 2.0, enabled=False)\n',
    ),
    (
        "ESP502",
        (
            '"""Doc."""\n\nfrom __future__ import annotations\n\nimport os\nfrom torch.cpu.amp import autocast\n\n\n'
            "@autocast(enabled=os.name)\ndef f(x):\n    return x\n"
        ),
        (
            '"""Doc."""\n\nfrom __future__ import annotations\n\nimport torch\nimport os\n\n\n'
            '@torch.amp.autocast("cpu", enabled=os.name)\ndef f(x):\n    return x\n'
        ),
    ),
    (
        "ESP502",
        "from torch.cuda.amp import GradScaler, custom_fwd\n\nscaler = GradScaler()\nuse(custom_fwd)\n",
        (
            "import torch\nfrom torch.cuda.amp import custom_fwd\n\n"
            'scaler = torch.amp.GradScaler("cuda")\nuse(custom_fwd)\n'
        ),
    ),
    (
        "ESP502",
        "import torch\nfrom torch.cuda.amp import autocast\n\nAMP = autocast\nwith autocast():\n    y = f(x)\n",
        (
            "import torch\nfrom torch.cuda.amp import autocast\n\nAMP = autocast\n"
            'with torch.amp.autocast("cuda"):\n    y = f(x)\n'
        ),
    ),
    (
        "ESP505",
        "from torch.utils.checkpoint import checkpoint\n\ny = checkpoint(block, x)\n",
        "from torch.utils.checkpoint import checkpoint\n\ny = checkpoint(block, x, use_reentrant=False)\n",
    ),
    (
        "ESP505",
        "import torch.utils.checkpoint as cp\n\ny = cp.checkpoint(\n    block,\n    x,  # the input\n)\n",
        (
            "import torch.utils.checkpoint as cp\n\ny = cp.checkpoint(\n    block,\n    x,  # the input\n"
            "    use_reentrant=False,\n)\n"
        ),
    ),
    (
        "ESP505",
        "import torch.utils.checkpoint as cp\n\ny = cp.checkpoint(block,\n                  (x))  # two\n",
        (
            "import torch.utils.checkpoint as cp\n\ny = cp.checkpoint(block,\n                  (x),\n"
            "                  use_reentrant=False)  # two\n"
        ),
    ),
    (
        "ESP505",
        "import torch.utils.checkpoint as cp\n\ny = cp.checkpoint(\n    block, x  # the input\n)\n",
        (
            "import torch.utils.checkpoint as cp\n\n"
            "y = cp.checkpoint(\n    block, x, use_reentrant=False  # the input\n)\n"
        ),
    ),
    (
        "ESP505",
        "from torch.utils.checkpoint import checkpoint\n\ny = checkpoint(block, *inputs)\n",
        "from torch.utils.checkpoint import checkpoint\n\ny = checkpoint(block, *inputs, use_reentrant=False)\n",
    ),
    (
        "ESP901",
        'import torch\n\nstate = torch.load("a.pt", map_location="cpu")\n',
        'import torch\n\nstate = torch.load("a.pt", map_location="cpu", weights_only=True)\n',
    ),
    (
        "ESP901",
        'import torch\n\nmodel.load_state_dict(torch.load("a.pt", weights_only=False))\n',
        'import torch\n\nmodel.load_state_dict(torch.load("a.pt", weights_only=True))\n',
    ),
    (
        "ESP413",
        (
            "from torch.utils.data import DataLoader\n\nmodel.cuda()\n"
            "for x in DataLoader(data, 64, num_workers=8):\n    use(x.cuda(non_blocking=True))\n"
        ),
        (
            "from torch.utils.data import DataLoader\n\nmodel.cuda()\n"
            "for x in DataLoader(data, 64, num_workers=8, pin_memory=True):\n    use(x.cuda(non_blocking=True))\n"
        ),
    ),
    (
        "ESP512",
        "from torch import nn\n\nnn.init.xavier_uniform(layer.weight, gain=2)\n",
        "from torch import nn\n\nnn.init.xavier_uniform_(layer.weight, gain=2)\n",
    ),
    (
        "ESP512",
        "from torch.nn.init import normal\n\nnormal(layer.weight)\n",
        "import torch\n\ntorch.nn.init.normal_(layer.weight)\n",
    ),
    (
        "ESP512",
        "import torch as t\n\nx, y = t.meshgrid(a, b)\n",
        'import torch as t\n\nx, y = t.meshgrid(a, b, indexing="ij")\n',
    ),
    (
        "ESP512",
        "import torch\n\nkind = torch.get_autocast_gpu_dtype()\nq, r = torch.qr(a)\n",
        'import torch\n\nkind = torch.get_autocast_dtype("cuda")\nq, r = torch.linalg.qr(a)\n',
    ),
    (
        "ESP512",
        "from functorch import vmap\n\ny = vmap(f)(x)\n",
        "import torch\n\ny = torch.func.vmap(f)(x)\n",
    ),
    (
        "ESP404",
        "import torch\n\n# looking for NaN\ntorch.autograd.set_detect_anomaly(True)  # slow\nrun()\n",
        "import torch\n\n# looking for NaN\nrun()\n",
    ),
    (
        "ESP404",
        "import torch\n\n\ndef main():\n    torch.autograd.set_detect_anomaly(True)\n\n\nmain()\n",
        "import torch\n\n\ndef main():\n    pass\n\n\nmain()\n",
    ),
    (
        "ESP404",
        "import torch\n\nx = 1; torch.autograd.set_detect_anomaly(True)\n",
        "import torch\n\nx = 1\n",
    ),
]
LEFT_ALONE = [
    # A name that stands for something else at times.
    "from torch.cuda.amp import autocast\n\nif old:\n    autocast = other\nwith autocast():\n    y = f(x)\n",
    "from torch.cuda.amp import autocast\n\n\ndef f(torch):\n    with autocast():\n        return torch\n",
    (
        "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    autocast = None\n\n"
        "with autocast():\n    y = f(x)\n"
    ),
    # Somebody asked for it.
    'import torch\n\nstate = torch.load("a.pt", weights_only=False)\n',
    "import torch\n\nq, r = torch.qr(a, True)\n",
    # What is left for an older torch.
    (
        "import torch\n\n\ndef load(path):\n    try:\n        return torch.load(path, weights_only=True)\n"
        "    except TypeError:\n        return torch.load(path)\n"
    ),
    # What else the `with` does is not ours to say.
    "import torch\n\nwith torch.autograd.detect_anomaly():\n    for x in loader:\n        model(x).backward()\n",
    'import pickle\nimport torch\n\nmodel = pickle.load(open("model.pkl", "rb"))\n',
]


@pytest.fixture
def mended(tmp_path):
    """Return a function that mends files in a folder and returns what they hold then."""

    def do(files, **more):
        for path, content in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        report = review(tmp_path, [tmp_path / path for path in files], **more)
        mending = plan_fixes(tmp_path, report)
        assert write(tmp_path, mending.patches) == []
        do.left = mending.left
        return {path: (tmp_path / path).read_bytes() for path in files}

    return do


def rules_of(source):
    report = review_sources({"train.py": source})
    assert not report.unreadable
    return sorted(claim.rule for claim in report.claims)


@pytest.mark.parametrize(("rule", "before", "after"), CASES)
def test_a_fix_writes_what_a_person_would(mended, rule, before, after):
    assert rule in rules_of(before)
    assert mended({"train.py": before}, rules=[rule])["train.py"].decode() == after


@pytest.mark.parametrize(("rule", "before", "after"), CASES)
def test_a_fix_parses_and_silences_its_rule_and_nothing_else(rule, before, after):
    ast.parse(after)
    remaining = rules_of(before)
    while rule in remaining:
        remaining.remove(rule)
    assert rules_of(after) == remaining


def test_every_rule_with_a_fix_has_a_case():
    assert {rule.code for rule in FIXABLE} <= {rule for rule, _, _ in CASES}


@pytest.mark.parametrize("rule", FIXABLE, ids=lambda rule: rule.code)
def test_the_bad_example_of_a_rule_with_a_fix_is_mended_or_left_with_a_reason(mended, rule):
    source = rule.bad
    assert isinstance(source, str)
    after = mended({"train.py": source})["train.py"].decode()
    ast.parse(after)
    assert after != source or mended.left


@pytest.mark.parametrize("source", LEFT_ALONE)
def test_what_takes_a_person_is_left(mended, source):
    assert mended({"train.py": source})["train.py"].decode() == source


def test_all_fixes_of_a_file_are_made_at_once(mended):
    before = dedent("""\
        import torch
        from torch.cuda.amp import GradScaler, autocast

        scaler = GradScaler()
        state = torch.load("a.pt")
        for x in loader:
            optimizer.zero_grad(set_to_none=False)
            with autocast():
                loss = model(x)
        """)
    after = mended({"train.py": before})["train.py"].decode()
    assert not {"ESP405", "ESP502", "ESP901"} & set(rules_of(after))
    assert "cuda.amp" not in after


def test_line_ends_marks_and_encodings_stay(mended):
    sources = {
        "crlf.py": "# é\r\noptimizer.zero_grad(set_to_none=False)\r\nx = 'é'\r\n".encode(),
        "mark.py": b"\xef\xbb\xbfoptimizer.zero_grad(set_to_none=False)\n",
        "latin.py": "# -*- coding: latin-1 -*-\nx = 'é'; optimizer.zero_grad(set_to_none=False)\n".encode("latin-1"),
        "bare.py": b"\toptimizer.zero_grad(set_to_none=False)"[1:],
        "end.py": b"x = 1\noptimizer.zero_grad(set_to_none=False)  \n\n\n",
    }
    after = mended(sources)
    assert after == {path: each.replace(b"set_to_none=False", b"") for path, each in sources.items()}


def test_what_could_not_be_written_back_as_it_is_is_left_with_a_reason(mended):
    source = b"x = 1\n\x0coptimizer.zero_grad(set_to_none=False)\n"
    assert mended({"feed.py": source})["feed.py"] == source
    assert [each.why for each in mended.left] == ["it cannot be written back as it is"]


def test_the_mode_stays_and_a_link_goes_on_to_lead_there(tmp_path):
    (tmp_path / "real.py").write_text("optimizer.zero_grad(set_to_none=False)\n")
    (tmp_path / "real.py").chmod(0o755)
    (tmp_path / "link.py").symlink_to("real.py")
    mending = plan_fixes(tmp_path, review(tmp_path, [tmp_path / "link.py"]))
    assert write(tmp_path, mending.patches) == []
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real.py").read_text() == "optimizer.zero_grad()\n"
    assert (tmp_path / "real.py").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "real.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("optimizer.zero_grad(set_to_none=False)\n")
    report = review(tmp_path, [file])
    mending = plan_fixes(tmp_path, report)
    file.write_text("somebody = 'else'\n")
    assert [each.why for each in write(tmp_path, mending.patches)] == ["the file has changed since it was reviewed"]
    assert file.read_text() == "somebody = 'else'\n"
    assert [each.why for each in plan_fixes(tmp_path, report).left] == ["the file has changed since it was reviewed"]


def test_a_name_that_another_file_takes_from_here_stays_imported(mended):
    utils = "from torch.cuda.amp import autocast\n\n\ndef run(x):\n    with autocast():\n        return x\n"
    train = "from utils import (\n    autocast,\n    run,\n)\n\nuse(autocast, run)\n"
    after = mended({"utils.py": utils, "train.py": train})["utils.py"].decode()
    assert after.startswith("import torch\nfrom torch.cuda.amp import autocast\n")
    assert 'torch.amp.autocast("cuda")' in after


def test_a_package_keeps_what_it_offers(mended):
    source = "from torch.cuda.amp import GradScaler\n\nscaler = GradScaler()\n"
    after = mended({"pkg/__init__.py": source, "a.py": "x = 1\n"})["pkg/__init__.py"].decode()
    assert "from torch.cuda.amp import GradScaler\n" in after


def test_what_all_names_stays_imported(mended):
    source = 'from torch.cuda.amp import GradScaler\n\n__all__ = ["GradScaler"]\nscaler = GradScaler()\n'
    assert "from torch.cuda.amp import GradScaler\n" in mended({"a.py": source})["a.py"].decode()


def test_a_suppressed_finding_is_not_mended(mended):
    source = "optimizer.zero_grad(set_to_none=False)  # esper: ignore[ESP405] read by the logger\n"
    assert mended({"train.py": source})["train.py"].decode() == source


def test_a_fix_that_would_bring_something_else_is_not_made(mended, monkeypatch):
    wrong = "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    honest = rewriting.rewrite

    def spoiled(text, wanted, **more):
        done = honest(text, wanted, **more)
        return rewriting.RewriteResult(done.text + wrong, done.done)

    monkeypatch.setattr("esper_agents.review.fixes.rewrite", spoiled)
    sources = {"a.py": "optimizer.zero_grad(set_to_none=False)\n"}
    assert mended(sources)["a.py"].decode() == sources["a.py"]
    assert [each.why for each in mended.left] == ["the review reports other problems in the fixed source"]


def test_a_notebook_is_not_written_to(mended):
    notebook = (
        '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "metadata": {},'
        ' "outputs": [], "source": ["optimizer.zero_grad(set_to_none=False)"]}]}'
    )
    assert mended({"a.ipynb": notebook})["a.ipynb"].decode() == notebook
    assert [each.why for each in mended.left] == ["notebooks are not written to"]
