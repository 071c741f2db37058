import torch
import torch.nn as nn


class TCN(nn.Module):
    def __init__(self, cin, ch=64, levels=5, horizon=24):
        super().__init__()
        layers = []
        for i in range(levels):
            d = 2**i
            layers += [nn.ConstantPad1d((2 * d, 0), 0.0), nn.Conv1d(cin if i == 0 else ch, ch, 3, dilation=d), nn.ReLU(), nn.Dropout(0.1)]
        self.net, self.out = nn.Sequential(*layers), nn.Linear(ch, horizon)

    def forward(self, x):
        return self.out(self.net(x)[..., -1])


def run(model, loaders, device, epochs, lr=1e-3):
    opt = torch.optim.Adam(model.parameters(), lr)
    crit = nn.L1Loss()
    best, patience = float("inf"), 0
    for epoch in range(epochs):
        model.train()
        for x, y in loaders["train"]:
            opt.zero_grad()
            crit(model(x.to(device)), y.to(device)).backward()
            opt.step()

        model.eval()
        val_loss, count = 0.0, 0
        for x, y in loaders["val"]:
            out = model(x.to(device))  # expect: ESP302
            val_loss += crit(out, y.to(device)).item() * len(x)  # allow: ESP305
            count += len(x)
        val_loss /= count
        if val_loss < best:
            best, patience = val_loss, 0
            torch.save(model.state_dict(), "tcn.pt")
        else:
            patience += 1
            if patience == 5:
                break
    return best


run(TCN(7).cuda(), torch.load("loaders.pt", weights_only=False), "cuda", 50)  # expect: ESP901
