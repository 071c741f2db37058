"""A loader wrapper that copies the next batch while this one is used."""
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


class Prefetcher:
    def __init__(self, loader, device):
        self.loader, self.device, self.stream = loader, device, torch.cuda.Stream(device)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        first, held = True, None
        for batch in self.loader:
            with torch.cuda.stream(self.stream):
                nxt = [t.to(self.device, non_blocking=True) for t in batch]
            if not first:
                yield held
            first = False
            torch.cuda.current_stream().wait_stream(self.stream)
            for t in nxt:
                t.record_stream(torch.cuda.current_stream())
            held = nxt
        if held is not None:
            yield held


def train(model, dataset, epochs=10):
    device = torch.device("cuda")
    loader = Prefetcher(DataLoader(dataset, 256, shuffle=True, num_workers=8, pin_memory=True, drop_last=True), device)
    model = torch.compile(model.to(device, memory_format=torch.channels_last))
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model.train()
    for epoch in range(epochs):
        for images, labels in loader:
            images = images.to(memory_format=torch.channels_last)
            loss = F.cross_entropy(model(images), labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print(epoch, loss.item())


@torch.inference_mode()
def latency(model, x, runs=100):
    model.eval()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(10):
        model(x)
    start.record()
    for _ in range(runs):
        model(x)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / runs
