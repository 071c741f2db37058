"""ESP262: the last step of padded sequences, or of a layer that reads both ways, stands for the whole sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.sequence_layers import SequencePart, last_steps, mentions_sequences, sequence_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables


class LastStepOfPadding(Rule):
    """The last step of the output of `pad_packed_sequence`, or of a bidirectional layer, taken as a summary.

    ## Why it costs
    `pad_packed_sequence` fills shorter sequences with zeros at their ends. `out[:, -1]` is the last step of the longest
    sequence alone, and zeros for all others. In the output of a bidirectional layer the last step holds a backward
    state that has read one element.

    ## When it is right
    All sequences have the same length. The last states, `h_n`, are right in both cases.

    ## Sources
    PyTorch documentation of `torch.nn.utils.rnn.pad_packed_sequence`, and of `torch.nn.LSTM` on `output` and `h_n`
    of bidirectional layers.
    """

    code, name = "ESP262", "last-step-of-padding"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torch import nn\n"
        "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence\n"
        "\n"
        "\n"
        "class Encoder(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lstm = nn.LSTM(64, 128, batch_first=True)\n"
        "\n"
        "    def forward(self, x, lengths):\n"
        "        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)\n"
        "        out, _ = self.lstm(packed)\n"
        "        out, _ = pad_packed_sequence(out, batch_first=True)\n"
        "        return out[:, -1]\n"
    )
    good = (
        bad.replace("        out, _ = pad_packed_sequence(out, batch_first=True)\n", "")
        .replace("out, _ = self.lstm(packed)", "_, (h, _) = self.lstm(packed)")
        .replace("out[:, -1]", "h[-1]")
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the last steps that are padding, or that a layer has read half of."""
        if not mentions_sequences(file):
            return
        for function in file.functions:
            for node, base, axis in last_steps(function):
                value = sequence_value(base, function, node.lineno, index)
                if value is None or value.part is SequencePart.STATE or axis != int(value.is_batch_first):
                    continue
                if value.layer == "pad_packed_sequence":
                    yield self.hit(
                        node,
                        "the last step is padding, all zeros, for every sequence that is shorter than the longest one",
                        remedy="take the last state, `h_n[-1]`, or gather the step `lengths - 1` of each sequence",
                        basis=SEEN,
                    )
                elif value.is_bidirectional:
                    yield self.hit(
                        node,
                        f"the backward half of the last step of this bidirectional `{value.layer}` read one element",
                        remedy="join the last states of both directions, `torch.cat([h_n[-2], h_n[-1]], dim=-1)`",
                        confidence=Confidence.MODERATE,
                        basis=f"{INFERRED}: that the step stands for the whole sequence",
                        severity=Severity.SUGGESTION,
                    )
