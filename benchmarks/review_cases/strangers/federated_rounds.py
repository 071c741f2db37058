"""FedAvg over the hospitals of a consortium, simulated on one card."""
import copy

import torch
import torch.nn.functional as F


def average(states, sizes):
    total = sum(sizes)
    merged = copy.deepcopy(states[0])
    for key in merged:
        merged[key] = sum(s[key] * (n / total) for s, n in zip(states, sizes)).to(merged[key].dtype)
    return merged


def local_update(model, loader, lr, epochs, device):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        for scan, label in loader:
            model = model.to(device)  # expect: ESP402
            scan, label = scan.to(device), label.to(device)
            loss = F.cross_entropy(model(scan), label)
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.zero_()  # expect: ESP405
            loss.backward()
            optimizer.step()
    return {k: v.detach().cpu() for k, v in model.state_dict().items()}


def federate(model, clients, rounds=50, lr=0.01, local_epochs=2, device="cuda"):
    shared = copy.deepcopy(model.state_dict())
    for number in range(rounds):
        states, sizes = [], []
        for loader in clients:
            model.load_state_dict(shared)
            states.append(local_update(model, loader, lr, local_epochs, device))
            sizes.append(len(loader.dataset))
        shared = average(states, sizes)
        print(f"round {number} done by {len(clients)} hospitals")
    return shared
