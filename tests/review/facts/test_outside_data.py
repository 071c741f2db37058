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


LOADER = (
    "import torch\nimport urllib.request\n\n\ndef load(path):\n    return torch.load(path)\n\n\n"
    "def fetch(url, folder):\n    return urllib.request.urlretrieve(url, folder)\n\n\n"
    "def main(config):\n    return load(config.path)\n"
)


def facts_about(source, query, *symbols):
    subject = InspectionSubject(("security",), symbols=symbols)
    done = inspect_sources({"a.py": source}, subject)
    return next(result.facts for result in done.results if result.name == query), done


def test_facts_outside_what_a_named_function_runs_are_beside_the_question():
    loads, done = facts_about(LOADER, "checkpoint-loads", "a.py:load")
    assert {fact.line for fact in loads} == {6}
    assert not next(result.facts for result in done.results if result.name == "outside-data")


def test_facts_of_the_whole_file_are_told_if_none_is_in_the_named_function():
    source = LOADER + "\n\ndef add(a, b):\n    return a + b\n"
    loads, _ = facts_about(source, "checkpoint-loads", "a.py:add")
    assert {fact.line for fact in loads} == {6}


def test_a_load_is_told_with_its_callers():
    loads, _ = facts_about(LOADER, "checkpoint-loads")
    assert any("`torch.load` loads `path`" in fact.text and "called at a.py:14" in fact.text for fact in loads)


def test_an_address_that_loses_its_encryption_before_a_download_must_change():
    source = (
        "import torch\n\n\ndef load(url):\n    try:\n        return torch.hub.load_state_dict_from_url(url)\n"
        "    except OSError:\n        url = url.replace('https', 'http')\n"
        "        return torch.hub.load_state_dict_from_url(url)\n"
    )
    found, _ = facts_about(source, "checkpoint-loads")
    (fact,) = [each for each in found if "encryption" in each.text]
    assert (fact.line, "before line 9 downloads it" in fact.text) == (8, True)
    other, _ = facts_about(source.replace("'https', 'http'", "'http', 'https'"), "checkpoint-loads")
    assert all("encryption" not in each.text for each in other)


def test_an_evaluated_text_is_told_by_its_origin_and_the_mode_of_a_model_is_not_one():
    source = "import sys\n\n\ndef main(model):\n    model.eval()\n    eval('1 + 1')\n    exec(sys.argv[1])\n"
    facts, _ = facts_about(source, "executed-text")
    assert [(fact.line, fact.assessment) for fact in facts] == [(7, "must change"), (6, "fine")]


def test_a_command_is_handed_to_a_shell_only_if_the_call_says_so():
    source = "import subprocess\n\n\ndef main(name):\n    subprocess.run(name)\n    subprocess.run(name, shell=True)\n"
    facts, _ = facts_about(source, "executed-text")
    assert [fact.line for fact in facts] == [6]
