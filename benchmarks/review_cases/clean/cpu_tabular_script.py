"""A small CPU-only script: reading values costs nothing here."""
import numpy as np
import torch
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

X, y = load_iris(return_X_y=True)
X_tr, X_te, y_tr, y_te = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
mu, sd = X_tr.mean(0), X_tr.std(0)
X_tr = torch.tensor((X_tr - mu) / sd, dtype=torch.float32)
X_te = torch.tensor((X_te - mu) / sd, dtype=torch.float32)
y_tr, y_te = torch.from_numpy(y_tr).long(), torch.from_numpy(y_te).long()

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
curve = []

for epoch in range(200):
    loss = torch.nn.functional.cross_entropy(net(X_tr), y_tr)
    opt.zero_grad()
    loss.backward()
    opt.step()
    curve.append(loss.item())  # allow: ESP305

with torch.no_grad():
    acc = (net(X_te).argmax(1) == y_te).float().mean().item()
print(f"final loss {np.mean(curve[-10:]):.3f}, test accuracy {acc:.3f}")
