"""Hourly rentals of a bike-sharing system (tabular playground entry)."""
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

frame = pd.read_csv("hour.csv")
columns = ["season", "hr", "weekday", "workingday", "weathersit", "temp", "hum", "windspeed"]
features = torch.tensor(frame[columns].values, dtype=torch.float32)
rentals = torch.log1p(torch.tensor(frame["cnt"].values, dtype=torch.float32))

features = (features - features.mean(0)) / (features.std(0) + 1e-6)  # expect: ESP229
cut = int(0.8 * len(features))
train_loader = DataLoader(TensorDataset(features[:cut], rentals[:cut]), batch_size=256, shuffle=True)

model = nn.Sequential(
    nn.Linear(len(columns), 128),
    nn.ReLU(),
    nn.Linear(128, 64),
    nn.ReLU(),
    nn.Linear(64, 1),
)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

curve = []
for epoch in range(50):
    epoch_loss = 0
    for xb, yb in train_loader:
        pred = model(xb)
        loss = criterion(pred, yb)  # expect: ESP105
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += loss  # expect: ESP301
    curve.append(epoch_loss / len(train_loader))  # allow: ESP301
    print(f"epoch {epoch + 1:02d}  loss {curve[-1]:.4f}")  # allow: ESP305

model.eval()
with torch.no_grad():
    guess = torch.expm1(model(features[cut:]).squeeze(1))
    truth = torch.expm1(rentals[cut:])
    print("MAE", (guess - truth).abs().mean().item())
