"""Which of the pairs in the code a request is about, and a comparison in a session that nobody asked for in detail."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from torch_toys import anyio_backend, needs_torch, write  # noqa: F401 - a fixture

from esper_agents.api import open_project
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.request import FileReference, ParsedRequest, RequestTopic, SymbolReference, Wish
from esper_agents.domain.status import Status
from esper_agents.git.find_project import find_project
from esper_agents.paths import project_home
from esper_agents.reasoning.alternatives import TOPIC, AlternativePair, pairs_about

ATTENTION = AlternativePair("model.py:attn", "model.py:fast_attn")
LOSS = AlternativePair("losses.py:focal_loss", "losses.py:focal_loss_v2")
ACROSS = AlternativePair("old.py:scan", "new.py:scan")
PAIRS = (ATTENTION, LOSS, ACROSS)
OPS = '''import torch


def cumulate(x):
    """Return the running sums of x (T, B)."""
    out, total = torch.zeros_like(x), torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        total = total + x[t]
        out[t] = total
    return out


def fast_cumulate(x):
    """Return the running sums of x (T, B)."""
    return x.cumsum(0)
'''


def about(text, *paths, wish=Wish.COMPARE, symbols=(), files=(), topics=()):
    request = ParsedRequest(wish=wish, symbols=symbols, files=files, topics=topics)
    return pairs_about(request, text, paths, PAIRS)


def test_a_named_definition_decides():
    symbol = SymbolReference("fast_attn", "fast_attn", "model.py", 1, 2)
    assert about("is it better", "model.py", symbols=(symbol,)) == (ATTENTION,)


def test_words_in_the_plural_name_a_pair():
    assert about("which of these losses should I keep", ".") == (LOSS,)


def test_two_files_mean_the_pair_between_them():
    files = (FileReference("old.py", "old.py"), FileReference("new.py", "new.py"))
    assert about("old.py or new.py?", "old.py", "new.py", files=files) == (ACROSS,)


def test_a_choice_of_other_things_is_about_no_pair():
    assert about("LayerNorm or RMSNorm here?", "model.py") == ()


def test_a_request_to_make_a_file_faster_is_about_the_pair_in_it():
    assert about("make this faster", "model.py", wish=Wish.WRITE) == (ATTENTION,)
    assert about("both compute it", "model.py", topics=(RequestTopic(TOPIC, ()),)) == (ATTENTION,)


@pytest.fixture
def project(tmp_path, migrated_sqlite):
    folder = write(tmp_path / "alternatives", {"ops.py": OPS, "train.py": "from ops import cumulate\n\ncumulate(1)\n"})
    subprocess.run(["git", "init", "-q", "--template=", str(folder)], check=True)
    place = project_home(find_project([folder], folder).key)
    place.mkdir(parents=True, mode=0o700)
    shutil.copy(migrated_sqlite, place / "esper.db")
    return folder


@pytest.mark.slow
@needs_torch
@pytest.mark.anyio
async def test_two_implementations_are_compared_without_being_told_how(project):
    async with open_project(project, publish=False) as opened:
        task = opened.tasks.create("fast_cumulate or cumulate? which should i use", [])
        outcome = await (await opened.tasks.submit(task)).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert certificate.agent == "pytorch-ultimate-performance-engineer"
    (compared,) = [each for each in certificate.evidence if each.tool == "torch-compare"]
    assert compared.outcome is CallOutcome.COMPLETED
    assert (compared.arguments["baseline"], compared.arguments["candidate"]) == (
        "ops.py:cumulate",
        "ops.py:fast_cumulate",
    )
    assert compared.output["synthetic"] is True
    assert compared.output["alternatives"]["inputs"] > 10
    # Python needs some microseconds for each of 128 rows; a cumulative sum takes less for all of them.
    assert "`fast_cumulate` is " in certificate.summary
    assert "x as fast as `cumulate`" in certificate.summary
    assert "The program chose the inputs (x=torch.randn((128, 2)))" in certificate.summary
    assert certificate.verdict.status is not Status.GO
    assert any(
        gap.command.startswith("esper torch compare ops.py:cumulate ops.py:fast_cumulate") for gap in certificate.gaps
    )


@needs_torch
@pytest.mark.anyio
async def test_a_request_for_a_test_drafts_one_runs_it_and_shows_it(project):
    async with open_project(project, publish=False) as opened:
        task = opened.tasks.create("write a test for fast_cumulate", [])
        outcome = await (await opened.tasks.submit(task)).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
        answer = await opened.certificates.answer(certificate.id)
    assert (certificate.agent, certificate.verdict.status) == ("test-engineer", Status.ADVISORY_ONLY)
    assert answer.text.startswith(
        "Tests of ops.py:fast_cumulate are drafted in .esper/tests/test_fast_cumulate.py: all 4 pass"
    )
    assert "Not asserted: values against a reference" in answer.text
    assert answer.draft[0].startswith("def make():")
    assert [part.partition("(")[0] for part in answer.draft[2:]] == [
        "def test_fast_cumulate_returns_what_is_expected",
        "def test_fast_cumulate_is_repeatable_from_a_seed",
        "def test_a_gradient_reaches_the_arguments_of_fast_cumulate",
        "def test_fast_cumulate_does_not_change_its_arguments",
    ]
    assert answer.next_command == "cp .esper/tests/test_fast_cumulate.py test_fast_cumulate.py"
    assert not (project / "test_fast_cumulate.py").exists()
