"""A loop under accelerate and a LightningModule: the frameworks do a part of the work."""

import lightning as L
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F


def main(model, optimizer, train_loader, eval_loader, scheduler, epochs):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler
    )
    for epoch in range(epochs):
        model.train()
        total_loss = 0
        for batch in train_loader:
            with accelerator.accumulate(model):
                outputs = model(**batch)
                loss = outputs.loss
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        model.eval()
        losses = []
        for batch in eval_loader:
            with torch.no_grad():
                outputs = model(**batch)
            losses.append(accelerator.gather_for_metrics(outputs.loss.repeat(8)))
        accelerator.print(epoch, torch.cat(losses).mean().item())


class Classifier(L.LightningModule):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone, self.head = backbone, nn.LazyLinear(classes)
        self.outputs = []

    def forward(self, x):
        return self.head(self.backbone(x))

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        scores = self(x)
        self.outputs.append((scores.argmax(-1) == y).float().mean())
        return F.cross_entropy(scores, y)

    def on_validation_epoch_end(self):
        self.log("accuracy", torch.stack(self.outputs).mean())
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
