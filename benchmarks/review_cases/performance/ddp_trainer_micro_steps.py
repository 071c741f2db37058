import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class DistributedTrainer:
    def __init__(self, model, loader, rank, micro_steps=8):
        self.rank, self.micro_steps = rank, micro_steps
        self.device = torch.device("cuda", rank)
        self.model = nn.parallel.DistributedDataParallel(model.to(self.device), device_ids=[rank])
        self.loader = loader
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)

    def get_batches(self):
        while True:
            yield from self.loader

    def run(self, updates):
        self.model.train()
        batches = self.get_batches()
        for update in range(updates):
            self.optimizer.zero_grad(set_to_none=True)
            for _ in range(self.micro_steps):
                x, y = next(batches)
                logits = self.model(x.to(self.device, non_blocking=True))
                loss = F.cross_entropy(logits, y.to(self.device, non_blocking=True)) / self.micro_steps
                loss.backward()  # expect: ESP412
            self.optimizer.step()
            if self.rank == 0 and update % 100 == 0:
                torch.save(self.model.module.state_dict(), "latest.pt")
        dist.barrier()
