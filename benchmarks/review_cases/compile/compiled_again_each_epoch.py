import torch
import torch.nn.functional as F
import torchvision


def evaluate(net, loader, device):
    net.eval()
    hits = torch.zeros((), device=device)
    with torch.no_grad():
        for x, y in loader:
            fast = torch.compile(net)  # expect: ESP504
            hits += (fast(x.to(device)).argmax(1) == y.to(device)).sum()
    return hits.item() / len(loader.dataset)


def train(loaders, epochs=20, device="cuda"):
    net = torchvision.models.regnet_y_400mf(num_classes=10).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for epoch in range(epochs):
        compiled = torch.compile(net, mode="reduce-overhead")  # expect: ESP504
        compiled.train()
        for x, y in loaders["train"]:
            loss = F.cross_entropy(compiled(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, evaluate(net, loaders["val"], device))
