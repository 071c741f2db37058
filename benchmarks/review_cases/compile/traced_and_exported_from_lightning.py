import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F


class Lit(L.LightningModule):
    def __init__(self, d=32, classes=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, classes))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


def train_and_ship(loader, out="net.onnx"):
    model = Lit()
    L.Trainer(max_epochs=20, logger=False).fit(model, loader)
    net = model.net.cpu()
    net.train()
    torch.onnx.export(net, (torch.randn(4, 32),), out, dynamo=True)  # expect: ESP513
    return out
