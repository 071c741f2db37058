"""Regress house prices with a small MLP."""
import pandas as pd
import torch
import torch.nn as nn
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset


class PriceNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.layers(x)


df = pd.read_csv("housing.csv")
X_train, X_val, y_train, y_val = train_test_split(df.drop(columns="price").values, df["price"].values, test_size=0.2)
scaler = StandardScaler().fit(X_train)
train_ds = TensorDataset(
    torch.tensor(scaler.transform(X_train), dtype=torch.float32),
    torch.tensor(y_train, dtype=torch.float32),
)
train_dl = DataLoader(train_ds, batch_size=64, shuffle=True)

model = PriceNet(X_train.shape[1])
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(200):
    for xb, yb in train_dl:
        pred = model(xb)
        loss = loss_fn(pred, yb)  # expect: ESP105
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 20 == 0:
        print(epoch, loss.item())

model.eval()
with torch.no_grad():
    x_val = torch.tensor(scaler.transform(X_val), dtype=torch.float32)
    rmse = (model(x_val).squeeze(-1) - torch.tensor(y_val, dtype=torch.float32)).pow(2).mean().sqrt()
print("rmse", rmse.item())
