"""Confusion matrix shared by the processes."""
import torch
import torch.distributed as dist


class ConfusionMatrix:
    def __init__(self, n_classes, device, ignore=255):
        self.n, self.ignore = n_classes, ignore
        self.table = torch.zeros(n_classes, n_classes, dtype=torch.int64, device=device)

    @torch.no_grad()
    def update(self, target, prediction):
        keep = target != self.ignore
        index = self.n * target[keep] + prediction[keep]
        self.table += torch.bincount(index, minlength=self.n ** 2).view(self.n, self.n)

    def reduce(self):
        if dist.is_initialized():
            dist.all_reduce(self.table)
        return self

    def compute(self):
        table = self.table.double()
        inter = table.diag()
        union = table.sum(0) + table.sum(1) - inter
        present = union > 0
        iou = (inter[present] / union[present]).mean()
        accuracy = inter.sum() / table.sum().clamp(min=1)
        return {"miou": iou.item(), "accuracy": accuracy.item()}


@torch.no_grad()
def evaluate(net, loader, n_classes, device):
    net.eval()
    matrix = ConfusionMatrix(n_classes, device)
    for image, mask in loader:
        logits = net(image.to(device, non_blocking=True))
        matrix.update(mask.to(device), logits.argmax(1))
    net.train()
    return matrix.reduce().compute()
