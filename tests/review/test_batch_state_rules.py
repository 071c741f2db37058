"""Cases of ESP147: recurrent states of the size of a full batch."""

from __future__ import annotations

import pytest

FILES = {
    "config.py": "BATCH = 32\nOTHER = 32\n",
    "net.py": """
        import torch
        from torch import nn
        from config import BATCH, OTHER

        class Net(nn.Module):
            def __init__(self, batch_size=8):
                super().__init__()
                self.batch_size = batch_size
                self.rnn = nn.{layer}(4, 8, batch_first=True)

            def forward(self, x):
                {state}
                return self.rnn(x, {given})[0]
        """,
    "train.py": """
        from torch.utils.data import DataLoader
        from config import BATCH
        from net import Net

        def train(data):
            size = 16
            net = Net(size)
            loader = DataLoader(data, {loading})
            for x, y in loader:
                net(x)
        """,
}
OF_CONFIG = "batch_size=BATCH, shuffle=True"


def files(layer, state, given, loading):
    net = FILES["net.py"].format(layer=layer, state=state, given=given)
    return {**FILES, "net.py": net, "train.py": FILES["train.py"].format(loading=loading)}


@pytest.mark.parametrize(
    ("layer", "state", "given", "loading"),
    [
        ("GRU", "h = torch.zeros(1, BATCH, 8)", "h", OF_CONFIG),
        ("GRU", "pass", "torch.zeros((1, BATCH, 8)).to(x.device)", "batch_size=BATCH"),
        ("LSTM", "h = torch.zeros(1, BATCH, 8)", "(h, h)", OF_CONFIG),
        ("LSTM", "s = (torch.randn(1, BATCH, 8), torch.randn(1, BATCH, 8))", "s", OF_CONFIG),
        ("RNN", "pass", "hx=torch.zeros(1, BATCH, 8)", OF_CONFIG),
        ("GRU", "h = torch.zeros(1, self.batch_size, 8)", "h", "batch_size=size"),
    ],
)
def test_a_state_of_a_full_batch_is_reported_where_the_loader_keeps_the_last(found, layer, state, given, loading):
    assert len(found("ESP147", files(layer, state, given, loading))) == 1


@pytest.mark.parametrize(
    ("layer", "state", "given", "loading"),
    [
        ("GRU", "h = torch.zeros(1, x.size(0), 8)", "h", OF_CONFIG),
        ("GRU", "h = torch.zeros(1, BATCH, 8)", "h", "batch_size=BATCH, drop_last=True"),
        ("GRU", "h = torch.zeros(1, OTHER, 8)", "h", OF_CONFIG),
        ("GRU", "h = torch.zeros(1, BATCH, 8)[:, : len(x)]", "h", OF_CONFIG),
        ("GRU", "h = torch.zeros(1, BATCH, 8)", "h", "batch_size=4"),
        ("Linear", "h = torch.zeros(1, BATCH, 8)", "h", OF_CONFIG),
    ],
)
def test_states_of_the_input_and_dropped_batches_are_not_reported(found, layer, state, given, loading):
    assert found("ESP147", files(layer, state, given, loading)) == []
