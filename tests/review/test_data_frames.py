"""ESP105: what columns of data frames show of the shapes of targets."""

from __future__ import annotations

import pytest

SOURCE = """
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn

frame = pd.read_csv("hours.csv")
columns = ["season", "temp"]
x = torch.tensor(frame[columns].values, dtype=torch.float32)
y = {target}
model = nn.Sequential(nn.Linear(len(columns), 8), nn.ReLU(), nn.Linear(8, 1))
loss = F.mse_loss(model(x), y)
"""


@pytest.mark.parametrize(
    "target",
    [
        'torch.log1p(torch.tensor(frame["count"].values))',
        'torch.from_numpy(np.log1p(frame["count"].fillna(0).to_numpy()))',
        "torch.tensor(frame.loc[:, 'count'].astype('float32').to_numpy())",
    ],
)
def test_a_column_is_no_table_with_one_column(found, target):
    assert found("ESP105", SOURCE.format(target=target)) == ["loss = F.mse_loss(model(x), y)"]


@pytest.mark.parametrize(
    "target",
    [
        'torch.tensor(frame[["count"]].values)',
        'torch.tensor(frame["count"].values).unsqueeze(1)',
        "torch.tensor(frame[targets].values)",
    ],
)
def test_a_table_with_one_column_is_none(found, target):
    assert found("ESP105", "targets = ['count']\n" + SOURCE.format(target=target)) == []
