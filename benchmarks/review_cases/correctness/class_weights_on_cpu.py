import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def load(path):
    frame = pd.read_csv(path)
    y = torch.from_numpy(frame.pop("churned").to_numpy())
    x = torch.from_numpy(frame.to_numpy(dtype="float32"))
    return TensorDataset((x - x.mean(0)) / (x.std(0) + 1e-6), y.long())


def main(path="churn.csv"):
    ds = load(path)
    loader = DataLoader(ds, batch_size=512, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(ds.tensors[0].size(1), 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2))
    model.cuda()
    model.train()

    weight = torch.tensor([0.2, 0.8])
    criterion = nn.CrossEntropyLoss(weight=weight)  # expect: ESP104 @w
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(15):
        for xb, yb in loader:
            xb, yb = xb.cuda(), yb.cuda()
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)  # expect: ESP104 @w
            loss.backward()
            optimizer.step()
        print(f"{epoch:2d} {loss.item():.4f}")
    torch.save(model.state_dict(), "churn.pt")


if __name__ == "__main__":
    main()
