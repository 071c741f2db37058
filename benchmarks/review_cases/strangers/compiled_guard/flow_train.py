import torch

from losses import robust_flow_loss, smoothness


class FlowTask:
    def __init__(self, net, device="cuda"):
        self.net = net.to(device).train()
        self.device = device
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=4e-4)

    @torch.compile
    def loss(self, first, second, truth, valid):
        flow = self.net(first, second)
        return robust_flow_loss(flow, truth, valid) + 0.05 * smoothness(flow, first)  # expect: ESP501 @break

    def fit(self, loader, steps):
        for _, batch in zip(range(steps), loader):
            loss = self.loss(*(x.to(self.device, non_blocking=True) for x in batch))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
