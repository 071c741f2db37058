"""ESP901 to ESP903: what runs code that others wrote."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.review.engine import review, review_sources
from tests.review.conftest import reviewed

HEAD = "".join(
    f"import {each}\n" for each in ("argparse", "joblib", "numpy as np", "pickle", "requests", "sys", "torch", "yaml")
)


def severities(rule: str, source: str) -> list[str]:
    return [str(claim.severity) for claim in review_sources({"data.py": f"{HEAD}{source}\n"}, rules=[rule]).claims]


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("torch.load('m.pt', weights_only=False)", ["warning"]),
        ("torch.load(path, map_location='cpu', weights_only=False)", ["warning"]),
        ("torch.load(path)", ["suggestion"]),
        ("torch.load(path, weights_only=None)", ["suggestion"]),
        ("torch.load(path, weights_only=True)", []),
        ("torch.load(path, weights_only=safe)", []),
        ("torch.load(path, **options)", []),
        ("torch.jit.load(path)", []),
        ("safetensors.torch.load_file(path)", []),
        ("torch.hub.load_state_dict_from_url(url)", ["warning"]),
        ("torch.hub.load_state_dict_from_url(url, weights_only=True)", []),
        ("pickle.load(open('model.pkl', 'rb'))", ["warning"]),
    ],
)
def test_a_checkpoint_that_runs_code_is_found(load, expected):
    assert severities("ESP901", f"state = {load}") == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("torch>=2.6", []),
        ("torch==2.7.1", []),
        ("torch<2.6", [Severity.WARNING]),
        ("torch==2.1.0", [Severity.WARNING]),
        ("torch>=2.0", [Severity.SUGGESTION]),
        ("torch", [Severity.SUGGESTION]),
    ],
)
def test_a_load_that_leaves_it_open_counts_by_the_range_of_torch(tmp_path, asked, expected):
    (tmp_path / "train.py").write_text("import torch\n\nstate = torch.load(path)\n")
    (tmp_path / "requirements.txt").write_text(asked)
    assert [claim.severity for claim in review(tmp_path, [tmp_path], rules=["ESP901"]).claims] == expected


def test_a_second_try_for_an_older_torch_is_left_alone():
    source = (
        "try:\n    s = torch.hub.load_state_dict_from_url(url, weights_only=True)\n"
        "except TypeError:\n    s = torch.hub.load_state_dict_from_url(url)\n"
    )
    assert severities("ESP901", source) == []


@pytest.mark.parametrize(
    ("load", "count"),
    [
        ("torch.hub.load('pytorch/vision', 'resnet18')", 1),
        ("torch.hub.load('pytorch/vision:main', 'resnet18')", 1),
        ("torch.hub.load(repo_or_dir='facebookresearch/dinov2', model='dinov2_vits14')", 1),
        ("torch.hub.load('pytorch/vision:v0.24.0', 'resnet18')", 0),
        ("torch.hub.load('checkouts/vision', 'resnet18', source='local')", 0),
        ("AutoModel.from_pretrained('org/model', trust_remote_code=True)", 1),
        ("AutoModel.from_pretrained('org/model', trust_remote_code=True, revision='8f3a')", 0),
        ("AutoModel.from_pretrained('org/model')", 0),
        ("AutoModel.from_pretrained('./local/model', trust_remote_code=True)", 0),
        ("AutoModel.from_pretrained(path, trust_remote_code=True)", 0),
    ],
)
def test_code_from_a_branch_that_may_change_is_found(load, count):
    assert len(severities("ESP902", f"net = {load}")) == count


UNTRUSTED = {
    "an argument": "args = argparse.ArgumentParser().parse_args()\nrows = pickle.load(open(args.rows, 'rb'))",
    "an argument, opened before": "with open(args.rows, 'rb') as file:\n    rows = pickle.load(file)",
    "the command line": "rows = np.load(sys.argv[1], allow_pickle=True).item()",
    "a download": "rows = pickle.loads(requests.get(url, timeout=9).content)",
    "a download, named": "answer = requests.get(url)\nbody = answer.content\nrows = joblib.load(io.BytesIO(body))",
    "a socket": "def receive(sock):\n    return pickle.loads(sock.recv(4096))",
    "a hub": "path = hf_hub_download('a/b', 'rows.pkl')\nwith open(path, 'rb') as f:\n    rows = pickle.load(f)",
    "a helper": "def read(path):\n    with open(path, 'rb') as f:\n        return pickle.load(f)\n\nread(args.rows)",
    "yaml": "settings = yaml.load(open(args.config), Loader=yaml.Loader)",
}


@pytest.mark.parametrize("source", UNTRUSTED.values(), ids=UNTRUSTED)
def test_a_pickle_that_others_may_have_written_is_a_warning(source):
    assert severities("ESP903", source) == ["warning"]


@pytest.mark.parametrize(
    "source",
    [
        "rows = pickle.load(open('rows.pkl', 'rb'))",
        "rows = np.load(path, allow_pickle=True)",
        "def read(path):\n    return joblib.load(path)",
        "settings = yaml.load(file, Loader=yaml.UnsafeLoader)",
    ],
)
def test_a_pickle_of_unknown_origin_is_a_suggestion(source):
    assert severities("ESP903", source) == ["suggestion"]


SAFE = {
    "arrays": "rows = np.load(sys.argv[1])",
    "arrays, said so": "rows = np.load(args.rows, allow_pickle=False)",
    "a cache": "def cached(path):\n    if path.exists():\n        return pickle.load(path.open('rb'))\n"
    "    rows = compute()\n    pickle.dump(rows, path.open('wb'))\n    return rows",
    "a copy": "twin = pickle.loads(pickle.dumps(net))",
    "a store": "class Store:\n    def put(self, x):\n        return pickle.dumps(x)\n\n    def get(self, x):\n"
    "        return pickle.loads(x)",
    "a digest": "def read(path):\n    if hashlib.sha256(path.read_bytes()).hexdigest() != KNOWN:\n"
    "        raise ValueError\n    return pickle.load(path.open('rb'))",
    "yaml": "settings = yaml.safe_load(open(args.config))",
    "yaml with a loader": "settings = yaml.load(open(args.config), Loader=yaml.SafeLoader)",
    "a model, which is another rule's": "net = pickle.load(open('model.pkl', 'rb'))",
    "json": "rows = json.load(open(args.rows))",
}


@pytest.mark.parametrize("source", SAFE.values(), ids=SAFE)
def test_what_runs_no_foreign_code_is_left_alone(source):
    assert severities("ESP903", source) == []


def test_a_project_without_torch_is_left_alone(found):
    assert found("ESP903", "import pickle\nimport sys\n\nrows = pickle.load(open(sys.argv[1], 'rb'))\n") == []


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("torch.hub.load_state_dict_from_url(url, weights_only=False)", 1),
        ("torch.hub.load_state_dict_from_url(url=url)", 1),
        ("torch.hub.load_state_dict_from_url(url, **SAFE)", 0),
        ("torch.load(path, **OPEN)", 1),
        ("torch.load(path, **SAFE)", 0),
        ("torch.load(path, **options)", 0),
    ],
)
def test_what_a_written_dict_says_of_weights_counts(call, count, found):
    source = f"""
    import torch

    OPEN = {{"map_location": "cpu", "weights_only": False}}
    SAFE = {{"weights_only": True}}

    def restore(path, url, options):
        return {call}
    """
    assert len(found("ESP901", source)) == count


def severities_of(source, rule):
    return [str(claim.severity) for claim in reviewed(source, rule).claims]


def test_what_a_web_server_hands_over_comes_from_the_network():
    source = """
    import pickle
    import torch

    async def upload(file: {kind}):
        return torch.as_tensor(pickle.loads(await file.read()))
    """
    assert severities_of(source.replace("{kind}", "UploadFile"), "ESP903") == ["warning"]
    assert severities_of(source.replace("{kind}", "Path"), "ESP903") == ["suggestion"]


def test_a_file_that_the_command_line_names_is_somebody_elses():
    source = """
    import sys
    from pickle import load
    import torch

    with open({path}, "rb") as file:
        words = load(file)
    """
    assert severities_of(source.replace("{path}", "sys.argv[1]"), "ESP903") == ["warning"]
    assert severities_of(source.replace("{path}", "'words.pkl'"), "ESP903") == ["suggestion"]


def test_a_repository_that_a_name_holds_is_trusted_all_the_same(found):
    source = """
    from transformers import pipeline

    MODEL = "acme/reader"
    reader = pipeline("text-generation", model=MODEL, trust_remote_code=True)
    """
    assert len(found("ESP902", source)) == 1
    assert not found("ESP902", source.replace("acme/reader", "./reader"))
    assert not found("ESP902", source.replace("trust_remote_code=True", "trust_remote_code=True, revision='4f2c'"))
