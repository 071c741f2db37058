import torch
import torch.nn.functional as F

from sparse import Model


class Loop:
    def __init__(self, amp=True):
        self.model = Model()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.amp = amp

    def forward_loss(self, ids):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.amp):
            logits = self.model(ids[:, :-1].flatten())
            return F.cross_entropy(logits.float(), ids[:, 1:].flatten())

    def run(self, steps):
        for _ in range(steps):
            loss = self.forward_loss(torch.randint(0, 30, (4, 11)))
            loss.backward()
            self.opt.step()
            self.opt.zero_grad()


if __name__ == "__main__":
    Loop().run(3)
