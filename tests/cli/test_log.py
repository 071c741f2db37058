"""`esper log`, and the option `--require-witness`, as people type them."""

from __future__ import annotations

import json
import shutil

import pytest
from clones import asked, git
from command_line import build
from typer.testing import CliRunner

from esper_agents.api import export_key, trust_key
from esper_agents.domain.key_format import KeyFormat
from esper_agents.errors import IntegrityError, UsageError


def esper(*words):
    return CliRunner().invoke(build(), words, env={"COLUMNS": "300"})


@pytest.fixture
def bob(judged_project, tmp_path, monkeypatch):
    """Return the data directory of a witness who trusts the author's key."""
    own = export_key(name="ann@example.org")
    monkeypatch.chdir(judged_project.root)
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    trust_key(own)
    return tmp_path / "bob"


def test_the_owner_publishes_and_the_witness_cosigns_once_and_again(judged_project, bob, home, monkeypatch):
    monkeypatch.setenv("ESPER_HOME", str(home))
    published = esper("log", "publish")
    assert (published.exit_code, "1 entry" in published.output, "esper log witness" in published.output) == (
        0,
        True,
        True,
    )
    monkeypatch.setenv("ESPER_HOME", str(bob))
    first, again = esper("log", "witness"), esper("log", "witness", "--json")
    assert (first.exit_code, "new to you" in first.output) == (0, True)
    # The request starts from nothing, and the same checkpoint may be cosigned again at a later time.
    (cosigned,) = json.loads(again.output)["cosigned"]
    assert (cosigned["before"], cosigned["size"]) == (1, 1)
    monkeypatch.setenv("ESPER_HOME", str(home))
    assert "1 certificate now under a cosigned checkpoint" in esper("log", "publish").output
    found = json.loads(esper("log", "publish", "--json").output)
    assert [each["size"] for each in found["cosigned"]] == [1]


def test_a_log_that_lost_entries_is_refused_with_exit_code_7_and_a_clear_text(judged_project, bob, home, monkeypatch):
    older = home.with_name("older")
    shutil.copytree(home, older)
    monkeypatch.setenv("ESPER_HOME", str(home))
    asked(judged_project.root, lambda certificates: certificates.revoke(judged_project.id, "mislabelled"))
    esper("log", "publish")
    monkeypatch.setenv("ESPER_HOME", str(bob))
    assert esper("log", "witness").exit_code == 0
    monkeypatch.setenv("ESPER_HOME", str(older))
    with pytest.raises(IntegrityError, match="contradicts the cosigned checkpoint"):
        build()(["log", "publish"], standalone_mode=False)
    shutil.rmtree(judged_project.root / "docs/ai/agents/logs")
    esper("log", "publish")
    monkeypatch.setenv("ESPER_HOME", str(bob))
    refused = esper("log", "witness")
    assert refused.exit_code == 7
    assert "has 1 entries, but 2 were cosigned here: it was restored from an older copy" in refused.output


def test_a_witness_is_named_by_fingerprint_by_file_or_by_key(judged_project, bob, home, monkeypatch, tmp_path):
    key, fingerprint = export_key(KeyFormat.WITNESS), f"SHA256:{_fingerprint(export_key(name='bob'))}"
    ssh = export_key(name="bob")
    (tmp_path / "witness.key").write_text(f"{key}\n")
    monkeypatch.setenv("ESPER_HOME", str(home))
    esper("log", "publish")
    monkeypatch.setenv("ESPER_HOME", str(bob))
    esper("log", "witness")
    for named in (key, ssh, str(tmp_path / "witness.key"), fingerprint):
        done = esper("certificates", "verify", judged_project.id, "--require-witness", named, "--json")
        found = json.loads(done.output)
        assert ([each["outcome"] for each in found["witnessed"]], done.exit_code) == (["holds"], 0)
    git(judged_project.root, "rm", "-rqf", "--ignore-unmatch", "--cached", "docs/ai/agents/logs")
    shutil.rmtree(judged_project.root / "docs/ai/agents/logs")
    done = esper("certificates", "verify", judged_project.id, "--require-witness", key)
    assert (done.exit_code, "not cosigned by esper-witness/" in done.output) == (4, True)
    gated = esper("gate", "--require-witness", key, "--json")
    assert json.loads(gated.output)["exit_code"] == gated.exit_code == 3


def test_without_a_log_or_a_request_there_is_nothing_to_do(make_project, monkeypatch, home):
    monkeypatch.chdir(make_project({"train.py": "x = 1\n"}))
    for command in ("publish", "witness"):
        with pytest.raises(UsageError):
            build()(["log", command], standalone_mode=False)


def _fingerprint(ssh):
    from base64 import b64decode, b64encode
    from hashlib import sha256

    return b64encode(sha256(b64decode(ssh.split(" ")[1])).digest()).decode().rstrip("=")
