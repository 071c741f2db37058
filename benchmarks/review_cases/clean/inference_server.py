"""A batching inference server; each request is one tensor, they are stacked before the model runs."""
import asyncio

import torch
import torch.nn as nn


class Ranker(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Server:
    def __init__(self, path, device="cuda", max_batch=256, wait_s=0.005):
        self.device, self.max_batch, self.wait_s = torch.device(device), max_batch, wait_s
        model = Ranker()
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        model.to(self.device)
        model.eval()
        self.model = torch.compile(model, dynamic=True)
        self.queue = asyncio.Queue()

    async def rank(self, features):
        future = asyncio.get_running_loop().create_future()
        await self.queue.put((features, future))
        return await future

    async def run(self):
        while True:
            items = [await self.queue.get()]
            await asyncio.sleep(self.wait_s)
            while not self.queue.empty() and len(items) < self.max_batch:
                items.append(self.queue.get_nowait())
            batch = torch.stack([features for features, _ in items]).to(self.device)
            for (_, future), score in zip(items, self._score(batch)):
                future.set_result(score)

    @torch.inference_mode()
    def _score(self, batch):
        return self.model(batch).tolist()
