"""Tests of the facts about data and code from outside."""

from __future__ import annotations

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

MUST, CHECK, OPEN, FINE = (
    Assessment.MUST_CHANGE,
    Assessment.SHOULD_CHECK,
    Assessment.OPEN,
    Assessment.FINE,
)


def facts(source, **others):
    sources = {"net.py": source, **{f"{name}.py": text for name, text in others.items()}}
    done = inspect_sources(sources, InspectionSubject(("security",)), names=["outside-data"])
    assert not done.results[0].problem
    return {(fact.line, fact.assessment): fact.text for fact in done.results[0].facts if fact.path == "net.py"}


def test_archives_are_told_by_kind_filter_and_origin():
    told = facts(
        "import sys\nimport tarfile\nimport zipfile\nimport shutil\n\n\ndef unpack(path, to):\n"
        "    tar = tarfile.open(path)\n    tar.extractall(to)\n    tar.extractall(to, filter='data')\n"
        "    with zipfile.ZipFile(path) as packed:\n        packed.extractall(to)\n"
        "    shutil.unpack_archive(sys.argv[1], to)\n    self.features.extract(path)\n",
        main="from net import unpack\n\nunpack('a.tar', 'b')\n",
    )
    assert [key for key in told if key[0] != 12] == [(9, CHECK), (13, CHECK), (10, FINE)]
    assert "its argument is the parameter `path` of `unpack`, called at main.py:3" in told[9, CHECK]
    assert told[9, CHECK].endswith("(if others can write the archive and Python is older than 3.14)")
    assert told[13, CHECK].endswith("the caller of the program (if Python is older than 3.14)")
    assert (12, FINE) in told


def test_yaml_without_a_safe_loader_makes_objects():
    told = facts(
        "import sys\nimport yaml\n\n\ndef read(file, kind):\n    yaml.load(file, Loader=yaml.SafeLoader)\n"
        "    yaml.safe_load(file)\n    yaml.load(file, Loader=yaml.Loader)\n    yaml.load(file, kind)\n"
        "\n\nyaml.load(open(sys.argv[1]), Loader=yaml.UnsafeLoader)\n"
    )
    assert list(told) == [(12, MUST), (8, CHECK), (9, OPEN), (6, FINE), (7, FINE)]


def test_remote_code_is_told_with_its_pin():
    commit = "0" * 40
    told = facts(
        "import sys\nfrom transformers import AutoModel\n\n\ndef load(name, trust):\n"
        "    AutoModel.from_pretrained(name, trust_remote_code=True)\n"
        f"    AutoModel.from_pretrained('a/b', trust_remote_code=True, revision='{commit}')\n"
        "    AutoModel.from_pretrained(name, trust_remote_code=False)\n"
        "    AutoModel.from_pretrained(name, trust_remote_code=trust)\n"
        "    AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True)\n"
    )
    assert set(told) == {(6, CHECK), (7, OPEN), (9, CHECK), (10, MUST)}
    assert "a pinned commit" in told[7, OPEN]


def test_downloads_are_told_by_digest_and_encryption():
    told = facts(
        "import torch\nfrom urllib.request import urlretrieve\n\nURL = 'https://example.org/a.pt'\n"
        "OLD = 'http://example.org/a.pt'\n\n\ndef fetch():\n"
        "    torch.hub.download_url_to_file(URL, 'a.pt', hash_prefix='abc')\n"
        "    torch.hub.download_url_to_file(URL, 'a.pt')\n    urlretrieve(OLD, 'a.pt')\n"
    )
    assert set(told) == {(9, FINE), (10, OPEN), (11, MUST)}
    read = "import requests\n\n\ndef names(url):\n    return requests.get(url).json()\n"
    assert facts(read) == {}
    assert set(
        facts(read.replace("return requests.get(url).json()", "open('a', 'wb').write(requests.get(url).content)"))
    )


def test_pickled_arrays_and_tables_execute_what_they_say():
    told = facts(
        "import numpy as np\nimport pandas as pd\n\n\ndef read(path):\n    np.load(path)\n"
        "    np.load(path, allow_pickle=True)\n    pd.read_pickle(path)\n    pd.read_csv(path)\n"
    )
    assert set(told) == {(7, CHECK), (8, CHECK)}
