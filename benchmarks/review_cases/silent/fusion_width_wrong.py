"""Click prediction with dense features and embeddings of categories."""
import torch
import torch.nn as nn


class DeepFM(nn.Module):
    def __init__(self, n_cat=1000, n_dense=13):
        super().__init__()
        self.user = nn.Embedding(100_000, 64)
        self.item = nn.Embedding(50_000, 64)
        self.dense = nn.Sequential(nn.Linear(n_dense, 64), nn.ReLU(), nn.Linear(64, 32))
        self.deep1 = nn.Linear(64 + 64, 256)  # expect: ESP205
        self.deep2 = nn.Linear(256, 1)

    def forward(self, user, item, dense):
        u, i = self.user(user), self.item(item)
        d = self.dense(dense)
        h = torch.cat([u, i, d], dim=1)
        h = torch.relu(self.deep1(h))
        return self.deep2(h).squeeze(1)


def train(loader, device="cuda", epochs=1):
    net = DeepFM().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    bce = nn.BCEWithLogitsLoss()
    net.train()
    for _ in range(epochs):
        for user, item, dense, click in loader:
            logit = net(user.to(device), item.to(device), dense.to(device))
            loss = bce(logit, click.float().to(device))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
    return net
