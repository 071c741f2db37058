import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from loaders import make_loader


class MaskedAutoencoder(torch.nn.Module):
    def __init__(self, dim=256, patches=196, patch_dim=768):
        super().__init__()
        self.embed = torch.nn.Linear(patch_dim, dim)
        layer = torch.nn.TransformerEncoderLayer(dim, 8, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 6)
        self.decode = torch.nn.Linear(dim, patch_dim)
        self.pos = torch.nn.Parameter(torch.zeros(1, patches, dim))

    def forward(self, patches, mask):
        x = self.embed(patches) * ~mask[..., None] + self.pos
        return self.decode(self.encoder(x))


def run(dataset, epochs, rank):
    dist.init_process_group("nccl")
    device = torch.device("cuda", rank)
    loader = make_loader(dataset, 64, training=True)
    model = DistributedDataParallel(MaskedAutoencoder().to(device), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters(), 1.5e-4, betas=(0.9, 0.95))
    for epoch in range(epochs):  # expect: ESP204 @s
        model.train()
        for patches in loader:
            patches = patches.to(device, non_blocking=True)
            mask = torch.rand(patches.shape[:2], device=device) < 0.75
            loss = F.mse_loss(model(patches, mask)[mask], patches[mask])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
