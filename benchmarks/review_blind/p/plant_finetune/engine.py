import torch
import torch.nn.functional as F

from backbones import adapt_head, create, set_trainable


class Engine:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.net = create(cfg["backbone"])
        set_trainable(self.net, False)
        set_trainable(self.net.layer4, True)
        set_trainable(self.net.fc, True)
        self.opt = self._optimizer()
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg["epochs"])

    def _optimizer(self):
        params = [p for p in self.net.parameters() if p.requires_grad]
        return torch.optim.AdamW(params, lr=self.cfg["lr"], weight_decay=1e-2)

    def setup(self, n_classes):
        adapt_head(self.net, n_classes)
        self.net.to(self.device)

    def train_epoch(self, loader):
        self.net.train()
        total = torch.zeros((), device=self.device)
        for x, y in loader:
            x, y = x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)
            loss = F.cross_entropy(self.net(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.detach()
        self.sched.step()
        return total.item() / len(loader)

    @torch.inference_mode()
    def evaluate(self, loader):
        self.net.eval()
        hit, n = 0, 0
        for x, y in loader:
            pred = self.net(x.to(self.device)).argmax(dim=1).cpu()
            hit += int((pred == y).sum())
            n += len(y)
        return hit / n
