# coding: utf-8
# exported from notebook: keyword spotting with a 1d conv net
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, random_split
from torchaudio.datasets import SPEECHCOMMANDS

LABELS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]


def collate(batch):
    waves, ys = [], []
    for wav, sr, label, *_ in batch:
        if label in LABELS:
            waves.append(nn.functional.pad(wav, (0, 16000 - wav.shape[-1])))
            ys.append(LABELS.index(label))
    return torch.stack(waves), torch.tensor(ys)


ds = SPEECHCOMMANDS("./", download=True)
n_val = len(ds) // 10
train_ds, val_ds = random_split(ds, [len(ds) - n_val, n_val])
train_dl = DataLoader(train_ds, 256, shuffle=True, collate_fn=collate, num_workers=4)
val_dl = DataLoader(val_ds, 256, collate_fn=collate, num_workers=4)

# %%
model = nn.Sequential(
    nn.Conv1d(1, 64, 80, stride=16), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(4),
    nn.Conv1d(64, 64, 3), nn.BatchNorm1d(64), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
    nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, len(LABELS)),
).cuda()
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-4)
loss_fn = nn.CrossEntropyLoss()

# %%
for epoch in range(10):  # expect: ESP103
    for x, y in train_dl:
        loss = loss_fn(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()

    model.eval()
    hits = torch.zeros((), device="cuda")
    with torch.no_grad():
        for x, y in val_dl:
            hits += (model(x.cuda()).argmax(-1) == y.cuda()).sum()
    print(f"epoch {epoch}: val accuracy {hits.item() / n_val:.3f}")
