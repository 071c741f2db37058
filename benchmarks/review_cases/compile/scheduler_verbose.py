import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import ReduceLROnPlateau


class LSTMAutoencoder(nn.Module):
    def __init__(self, n_features, latent=32):
        super().__init__()
        self.enc = nn.LSTM(n_features, latent, batch_first=True)
        self.dec = nn.LSTM(latent, n_features, batch_first=True)

    def forward(self, x):
        _, (h, _) = self.enc(x)
        z = h[-1].unsqueeze(1).expand(-1, x.size(1), -1)
        return self.dec(z)[0]


def fit(model, train_loader, val_loader, device, epochs=100):
    model.to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = ReduceLROnPlateau(opt, mode="min", factor=0.5, patience=5, verbose=True)  # expect: ESP511
    for epoch in range(epochs):
        model.train()
        for (x,) in train_loader:
            x = x.to(device)
            opt.zero_grad()
            loss = F.mse_loss(model(x), x)
            loss.backward()
            opt.step()
        model.eval()
        with torch.inference_mode():
            val = torch.stack([F.mse_loss(model(x.to(device)), x.to(device)) for (x,) in val_loader]).mean().item()
        sched.step(val)
        print(epoch, val)
