"""Weights of the router: one row of small integers for each feature, read from a generated file."""

from __future__ import annotations

import json
import sys
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FILE = Path(__file__).with_name("weights.bin")
# Inverse document frequencies are stored in sixteenths.
IDF_UNIT = 16


class FeatureRow(NamedTuple):
    """Weights of one feature.

    Attributes:
        idf: Inverse document frequency, in sixteenths.
        by_label: Weight for each label, in units of `Weights.unit`; it contains the frequency.
    """

    idf: int
    by_label: Sequence[int]


@dataclass(frozen=True)
class Weights:
    """A trained linear model.

    Attributes:
        labels: Names of agents, and `refused`.
        biases: Score of each label for a request without a known feature.
        unit: Value of one step of a stored weight.
        refusal_margin: How far `refused` must exceed the best agent for a refusal.
        close_margin: Agents this close to the best one are equally acceptable.
        digest: SHA-256 of the training data.
        hashes: CRC-32 of the feature names, ascending.
        idfs: Inverse document frequency of each feature.
        rows: Weights of each feature, in the order of the labels.
    """

    labels: tuple[str, ...]
    biases: tuple[float, ...]
    unit: float
    refusal_margin: float
    close_margin: float
    digest: str
    hashes: array[int]
    idfs: bytes
    rows: array[int]

    def row(self, name: str) -> FeatureRow | None:
        """Return the weights of a feature, or None if training did not see it."""
        return self.known((name,)).get(name)

    def known(self, features: Iterable[str]) -> dict[str, FeatureRow]:
        """Return the weights of the features that training saw."""
        rows = {}
        hashes, idfs, table, size, count = self.hashes, self.idfs, self.rows, len(self.labels), len(self.hashes)
        for name in features:
            wanted = crc32(name.encode("utf-8", "surrogatepass"))
            at = bisect_left(hashes, wanted)
            if at < count and hashes[at] == wanted:
                rows[name] = FeatureRow(idfs[at], table[at * size : (at + 1) * size])
        return rows

    def scores(self, features: Mapping[str, int], rows: Mapping[str, FeatureRow]) -> dict[str, float]:
        """Return the score of every label; above 0 it is more likely than not.

        Args:
            features: Features of a request with their weights.
            rows: Those that are `known`.
        """
        by_weight: dict[int, list[Sequence[int]]] = {}
        squares = 0
        for name, row in rows.items():
            weight = features[name]
            squares += (weight * row.idf) ** 2
            by_weight.setdefault(weight, []).append(row.by_label)
        factor = self.unit / (sqrt(squares) or 1.0)
        totals = [0] * len(self.labels)
        for weight, group in by_weight.items():
            totals = [
                total + weight * sum(column) for total, column in zip(totals, zip(*group, strict=True), strict=True)
            ]
        return {
            label: bias + total * factor for label, bias, total in zip(self.labels, self.biases, totals, strict=True)
        }


@cache
def load_weights() -> Weights:
    """Return the weights of this version, read once.

    Raises:
        DefinitionError: The file is missing or damaged.
    """
    try:
        return read_weights(_FILE.read_bytes())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DefinitionError(str(_FILE), "cannot be read", remedy="install esper-agents again") from error


def read_weights(data: bytes) -> Weights:
    """Return the weights in a file: a line of JSON, the hashes, the frequencies, the rows.

    Raises:
        ValueError: The data is damaged.
    """
    head, separator, body = data.partition(b"\n")
    header: dict[str, Any] = json.loads(head)
    labels, count = tuple(header["labels"]), int(header["features"])
    if not separator or len(body) != count * (5 + len(labels)):
        raise ValueError("damaged weights")
    hashes = array("I", body[: 4 * count])
    if sys.byteorder == "big":
        hashes.byteswap()
    return Weights(
        labels=labels,
        biases=tuple(header["biases"]),
        unit=header["unit"],
        refusal_margin=header["refusal_margin"],
        close_margin=header["close_margin"],
        digest=header["digest"],
        hashes=hashes,
        idfs=body[4 * count : 5 * count],
        rows=array("b", body[5 * count :]),
    )


def written_weights(weights: Weights) -> bytes:
    """Return the bytes of a file that `read_weights` reads."""
    header = {
        "labels": weights.labels,
        "biases": weights.biases,
        "unit": weights.unit,
        "refusal_margin": weights.refusal_margin,
        "close_margin": weights.close_margin,
        "digest": weights.digest,
        "features": len(weights.hashes),
    }
    hashes = array("I", weights.hashes)
    if sys.byteorder == "big":
        hashes.byteswap()
    return json.dumps(header, sort_keys=True).encode() + b"\n" + hashes.tobytes() + weights.idfs + bytes(weights.rows)
