"""Weights of the router: the file matches the training data and reads back as written."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from zlib import crc32

import pytest

from esper_agents.agents.registry import load_registry
from esper_agents.agents.routing.weights import Weights, load_weights, read_weights, written_weights

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from train_router import training_digest, training_requests

HASHES = sorted(crc32(name.encode()) for name in ("w:slow", "w:nan"))
SMALL = Weights(
    labels=("profiler", "nan-debugger"),
    biases=(-0.5, -0.25),
    unit=0.01,
    refusal_margin=0.0,
    close_margin=0.1,
    digest="0" * 64,
    hashes=array("I", HASHES),
    idfs=bytes((32, 32)),
    rows=array("b", (100, -100) * 2),
)


def test_the_weights_were_trained_on_the_requests_and_definitions_of_this_version():
    assert load_weights().digest == training_digest(training_requests()), "run `make router`"


def test_every_label_is_a_bundled_agent_or_a_refusal():
    assert {"refused", *load_registry(None).agents} >= set(load_weights().labels)


def test_weights_read_back_as_written():
    again = read_weights(written_weights(SMALL))
    assert (again.labels, again.biases, again.hashes, again.idfs) == (
        SMALL.labels,
        SMALL.biases,
        SMALL.hashes,
        SMALL.idfs,
    )
    assert bytes(again.rows) == bytes(SMALL.rows)


@pytest.mark.parametrize("damage", [b"", b"{}", b"no json\n", written_weights(SMALL)[:-1]], ids=len)
def test_damaged_weights_are_an_error(damage: bytes):
    with pytest.raises((ValueError, KeyError)):
        read_weights(damage)


def test_a_score_is_the_bias_and_the_normalised_sum_of_the_weights():
    found = {"w:slow": 10, "w:unheard": 10}
    rows = SMALL.known(found)
    assert list(rows) == ["w:slow"]
    scores = SMALL.scores(found, rows)
    # One known feature: its weight over its own length.
    assert scores["profiler"] == pytest.approx(-0.5 + 0.01 * 100 / 32, abs=1e-9)


def test_the_file_is_small():
    folder = Path(sys.modules["esper_agents.agents.routing.weights"].__file__).parent
    assert (folder / "weights.bin").stat().st_size < 2_000_000
