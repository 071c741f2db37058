"""Cases of ESP261 and ESP262: time and batch in what layers for sequences give."""

from __future__ import annotations

import pytest

MODEL = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Model(nn.Module):
    def __init__(self, first=False):
        super().__init__()
        layer = {layer}
        self.net = {made}

    def forward(self, x, lengths):
        {body}
        return {result}
"""


def reported(rule, found, *, made="nn.LSTM(8, 16)", layer="None", body="out, _ = self.net(x)", result="out"):
    return found(rule, MODEL.format(layer=layer, made=made, body=body.replace("\n", "\n        "), result=result))


@pytest.mark.parametrize(
    ("made", "body", "result", "excerpt"),
    [
        ("nn.LSTM(8, 16)", "out, _ = self.net(x)", "out[:, -1]", "return out[:, -1]"),
        ("nn.GRU(8, 16, 2)", "out, h = self.net(x)", "out[:, -1, :]", "return out[:, -1, :]"),
        ("nn.RNN(8, 16, batch_first=False)", "out = self.net(x)[0]", "out.mean(dim=1)", "return out.mean(dim=1)"),
        ("nn.LSTM(8, 16)", "out, (h, c) = self.net(x)", "torch.mean(out, 1)", "return torch.mean(out, 1)"),
        ("nn.LSTM(8, 16, batch_first=True)", "out, _ = self.net(x)", "out[-1]", "return out[-1]"),
        ("nn.LSTM(8, 16, batch_first=True)", "_, (h, c) = self.net(x)", "h[:, -1]", "return h[:, -1]"),
        ("nn.GRU(8, 16, batch_first=True)", "out, h = self.net(x)", "h[:, -1]", "return h[:, -1]"),
        ("nn.MultiheadAttention(8, 2)", "out, w = self.net(x, x, x)", "out[:, 0]", "return out[:, 0]"),
    ],
)
def test_a_step_taken_along_the_batch_is_reported(made, body, result, excerpt, found):
    assert reported("ESP261", found, made=made, body=body, result=result) == [excerpt]


def test_a_stack_of_layers_takes_its_axes_from_the_layer(found):
    layer, made, body = "nn.TransformerEncoderLayer(8, 2)", "nn.TransformerEncoder(layer, 3)", "out = self.net(x)"
    assert len(reported("ESP261", found, layer=layer, made=made, body=body, result="out.mean(dim=1)")) == 1
    layer = "nn.TransformerEncoderLayer(8, 2, batch_first=True)"
    assert reported("ESP261", found, layer=layer, made=made, body=body, result="out.mean(dim=1)") == []


@pytest.mark.parametrize(
    ("made", "body", "result"),
    [
        ("nn.LSTM(8, 16, batch_first=True)", "out, _ = self.net(x)", "out[:, -1]"),
        ("nn.LSTM(8, 16)", "out, _ = self.net(x)", "out[-1]"),
        ("nn.LSTM(8, 16)", "out, _ = self.net(x)\nout = out.transpose(0, 1)", "out[:, -1]"),
        ("nn.LSTM(8, 16)", "out, (h, c) = self.net(x)", "h[-1]"),
        ("nn.GRU(8, 16, batch_first=True)", "out, h = self.net(x)", "h[-1]"),
        ("nn.GRU(8, 16, batch_first=first)", "out, h = self.net(x)", "out[:, -1]"),
        ("nn.LSTM(8, 16)", "out, _ = self.net(x.unsqueeze(1))", "out[:, 0]"),
        ("nn.LSTM(8, 16, 1, True, True)", "out, _ = self.net(x)", "out.mean(dim=1)"),
    ],
)
def test_steps_taken_along_the_time_are_right(made, body, result, found):
    assert reported("ESP261", found, made=made, body=body, result=result) == []


PACKED = (
    "packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)\n"
    "out, (h, _) = self.net(packed)\n"
    "out, sizes = pad_packed_sequence(out, batch_first={first})"
)


def test_the_last_step_of_padded_sequences_is_reported(found):
    made = "nn.LSTM(8, 16, batch_first=True)"
    body = PACKED.format(first=True)
    assert reported("ESP262", found, made=made, body=body, result="out[:, -1]") == ["return out[:, -1]"]
    assert reported("ESP262", found, made=made, body=body, result="out[:, -1, :]") == ["return out[:, -1, :]"]
    assert reported("ESP262", found, made=made, body=PACKED.format(first=False), result="out[-1]") == ["return out[-1]"]
    again = "seq = pad_packed_sequence(self.net(x)[0], True)[0]\nlast = seq[:, -1]"
    assert reported("ESP262", found, made=made, body=again, result="last") == ["last = seq[:, -1]"]


@pytest.mark.parametrize("result", ["h[-1]", "out[torch.arange(len(x)), sizes - 1]", "out[:, 0]", "out.sum(1)"])
def test_last_states_and_gathered_steps_are_right(result, found):
    made = "nn.LSTM(8, 16, batch_first=True)"
    assert reported("ESP262", found, made=made, body=PACKED.format(first=True), result=result) == []


def test_a_layer_that_reads_both_ways_has_read_one_element_backward(found):
    made = "nn.LSTM(8, 16, batch_first=True, bidirectional=True)"
    assert reported("ESP262", found, made=made, result="out[:, -1]") == ["return out[:, -1]"]
    assert reported("ESP262", found, made=made, result="out.mean(1)") == []
    assert reported("ESP262", found, made="nn.LSTM(8, 16, batch_first=True)", result="out[:, -1]") == []
