"""Trains the weights of the router from the requests in `benchmarks/routing` and the agents' definitions.

Run it with `make router` after a change of either. `--cross-validate` trains once for each author on the requests of
the others, and prints how many of the author's requests reach an acceptable agent.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from array import array
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from esper_agents.agents.registry import load_registry
from esper_agents.agents.router import REFUSED, TRIAGE
from esper_agents.agents.routing.features import features, read_request
from esper_agents.agents.routing.weights import IDF_UNIT, Weights, written_weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.agent import Agent

REQUESTS = Path(__file__).with_name("routing")
WEIGHTS = Path(__file__).parents[1] / "esper_agents" / "agents" / "routing" / "weights.bin"

# Chosen by leaving out one author at a time.
_REFUSAL_MARGIN, _CLOSE_MARGIN = 0.05, 0.1
_REGULARISATION, _POSITIVE_WEIGHT = 1.0, 3.0
_DEFINITION_WEIGHT, _SECOND_WEIGHT = 0.4, 0.5
# Features of fewer requests are not stored.
_LEAST_REQUESTS = 2
_LARGEST = 127
# Features with smaller weights are not stored.
_LEAST_STEPS = 3


@dataclass(frozen=True, slots=True)
class LabelledRequest:
    """A request with the labels that are right for it.

    Attributes:
        text: The request.
        labels: Acceptable agents, best first; `refused` for a request that is not about software.
        weight: Weight in training.
    """

    text: str
    labels: tuple[str, ...]
    weight: float = 1.0


def read_requests(path: Path) -> list[LabelledRequest]:
    """Return the requests in a file: `text` and `agents` (or `acceptable`), best first, in a JSON object per line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines if line]
    return [
        LabelledRequest(entry["text"], tuple(map(_label, entry.get("agents") or entry["acceptable"])))
        for entry in entries
    ]


def _label(name: str) -> str:
    return REFUSED if name == REFUSED.upper() else name


def requests_by_author() -> dict[str, list[LabelledRequest]]:
    """Return all requests by author."""
    return {path.stem: read_requests(path) for path in sorted(REQUESTS.glob("author_*.jsonl"))}


def definition_requests(agents: Iterable[Agent]) -> Iterator[LabelledRequest]:
    """Yield the sentences of definitions as requests: descriptions, examples, and what an agent handles or declines."""
    for agent in agents:
        for text in (agent.description, *agent.handles):
            yield LabelledRequest(text, (agent.name,), _DEFINITION_WEIGHT)
        for text in agent.declines:
            sentence, _, other = text.rstrip(")").rpartition("(")
            if sentence and " " not in other:
                yield LabelledRequest(sentence, (other,), _DEFINITION_WEIGHT)
        for example in agent.examples:
            label = agent.name if example.is_for else example.instead or TRIAGE
            yield LabelledRequest(example.text, (label,), _DEFINITION_WEIGHT)


def training_requests(authors: Iterable[str] | None = None) -> list[LabelledRequest]:
    """Return the requests of authors, then the sentences of the agents that they are for.

    Args:
        authors: Names of the authors; None for all.
    """
    by_author = requests_by_author()
    requests = [request for author in (by_author if authors is None else authors) for request in by_author[author]]
    labels = {label for request in requests for label in request.labels}
    agents = [agent for name, agent in sorted(load_registry(None).agents.items()) if name in labels]
    return requests + [sentence for sentence in definition_requests(agents) if labels.issuperset(sentence.labels)]


def training_digest(requests: Sequence[LabelledRequest]) -> str:
    """Return the SHA-256 of training data."""
    entries = [(request.text, request.labels, request.weight) for request in requests]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


@dataclass(frozen=True)
class FeatureTable:
    """Features of the training requests.

    Attributes:
        columns: Column of each feature.
        idfs: Inverse document frequency of each column, in sixteenths.
    """

    columns: dict[str, int]
    idfs: list[int]

    def matrix(self, texts: Sequence[str]) -> Any:
        """Return a sparse matrix of normalised feature weights, one row for each text."""
        import numpy as np
        from scipy.sparse import csr_matrix

        data, columns, starts = [], [], [0]
        for text in texts:
            found = [
                (self.columns[name], weight * self.idfs[self.columns[name]])
                for name, weight in features(read_request(text)).items()
                if name in self.columns
            ]
            length = math.sqrt(sum(value * value for _, value in found)) or 1.0
            columns += [column for column, _ in found]
            data += [value / length for _, value in found]
            starts.append(len(data))
        values = np.array(data, dtype=np.float32)
        return csr_matrix((values, columns, starts), shape=(len(texts), len(self.columns)))


def feature_table(requests: Sequence[LabelledRequest]) -> FeatureTable:
    """Return the features that at least two requests contain."""
    counted = Counter(name for request in requests for name in features(read_request(request.text)))
    names = sorted(name for name, count in counted.items() if count >= _LEAST_REQUESTS)
    idfs = [round(IDF_UNIT * (math.log((1 + len(requests)) / (1 + counted[name])) + 1)) for name in names]
    return FeatureTable({name: column for column, name in enumerate(names)}, idfs)


@dataclass(frozen=True)
class LinearModel:
    """One linear classifier for each label.

    Attributes:
        labels: The labels.
        table: Features.
        weights: Array of shape (features, labels).
        biases: One for each label.
    """

    labels: tuple[str, ...]
    table: FeatureTable
    weights: Any
    biases: Any

    def scores(self, texts: Sequence[str]) -> Any:
        """Return an array of shape (texts, labels)."""
        return self.table.matrix(texts) @ self.weights + self.biases


def train(requests: Sequence[LabelledRequest]) -> LinearModel:
    """Return a model: one support vector machine for each label, against all other requests."""
    import numpy as np
    from sklearn.svm import LinearSVC

    labels = tuple(sorted({label for request in requests for label in request.labels}))
    table = feature_table(requests)
    matrix = table.matrix([request.text for request in requests])
    weights = np.zeros((matrix.shape[1], len(labels)))
    biases = np.zeros(len(labels))
    for place, label in enumerate(labels):
        right = np.array([label in request.labels for request in requests])
        importance = np.array(
            [request.weight * (_SECOND_WEIGHT if label in request.labels[1:] else 1.0) for request in requests]
        )
        machine = LinearSVC(C=_REGULARISATION, class_weight={True: _POSITIVE_WEIGHT, False: 1.0}, random_state=0)
        machine.fit(matrix, right, sample_weight=importance)
        weights[:, place], biases[place] = machine.coef_[0], machine.intercept_[0]
    return LinearModel(labels, table, weights, biases)


def quantised(model: LinearModel, digest: str) -> Weights:
    """Return the weights as the program stores them: one byte for each label of each feature."""
    import numpy as np

    scaled = model.weights * np.array(model.table.idfs)[:, None]
    # A few large weights are cut off: the others keep more of their precision.
    unit = float(np.quantile(np.abs(scaled).max(axis=1), 0.999)) / _LARGEST
    steps = np.clip(np.rint(scaled / unit), -_LARGEST, _LARGEST).astype(np.int8)
    rows: dict[int, tuple[int, bytes]] = {}
    for name, column in model.table.columns.items():
        if np.abs(steps[column]).max() >= _LEAST_STEPS:
            # Of two names with one hash, the first is stored.
            rows.setdefault(crc32(name.encode()), (model.table.idfs[column], steps[column].tobytes()))
    hashes = sorted(rows)
    return Weights(
        labels=model.labels,
        biases=tuple(round(float(bias), 4) for bias in model.biases),
        unit=unit,
        refusal_margin=_REFUSAL_MARGIN,
        close_margin=_CLOSE_MARGIN,
        digest=digest,
        hashes=array("I", hashes),
        idfs=bytes(rows[each][0] for each in hashes),
        rows=array("b", b"".join(rows[each][1] for each in hashes)),
    )


def cross_validate(authors: Sequence[str]) -> None:
    """Print, for each author, how a model without that author's requests does on them."""
    for author in authors:
        model = train(training_requests([other for other in requests_by_author() if other != author]))
        requests = requests_by_author()[author]
        chosen = [model.labels[place] for place in model.scores([request.text for request in requests]).argmax(axis=1)]
        print(author, AuthorResult.of(requests, chosen), flush=True)


@dataclass(frozen=True, slots=True)
class AuthorResult:
    """Result of routing the requests of one author.

    Attributes:
        requests: Number of requests.
        acceptable: Number that reached an acceptable agent, or were refused rightly.
        off_topic: Number of requests that are not about software.
        refused: Number of those that were refused.
        in_scope_refused: Number of other requests that were refused.
    """

    requests: int
    acceptable: int
    off_topic: int
    refused: int
    in_scope_refused: int

    @classmethod
    def of(cls, requests: Sequence[LabelledRequest], chosen: Sequence[str]) -> AuthorResult:
        """Count the results of requests with the chosen labels."""
        pairs = list(zip(requests, chosen, strict=True))
        off_topic = [label for request, label in pairs if request.labels == (REFUSED,)]
        return cls(
            len(pairs),
            sum(label in request.labels for request, label in pairs),
            len(off_topic),
            off_topic.count(REFUSED),
            sum(label == REFUSED and REFUSED not in request.labels for request, label in pairs),
        )

    def __str__(self) -> str:
        return (
            f"{self.acceptable / self.requests:.1%} of {self.requests} acceptable, "
            f"{self.refused} of {self.off_topic} off-topic refused, {self.in_scope_refused} in scope refused"
        )


def main() -> None:
    """Train the weights and write them, or cross-validate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cross-validate", action="store_true", help="leave out one author at a time")
    parser.add_argument("--author", action="append", help="only this author of the cross-validation")
    options = parser.parse_args()
    if options.cross_validate:
        cross_validate(options.author or list(requests_by_author()))
        return
    requests = training_requests()
    data = written_weights(quantised(train(requests), training_digest(requests)))
    WEIGHTS.write_bytes(data)
    print(f"{WEIGHTS}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
