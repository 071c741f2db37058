import torch
from torch import nn
from torch.utils.data import DataLoader

from data import Ratings
from factors import NeuralFactors


def train(path, readers, books, epochs=10, device="cuda"):
    loader = DataLoader(Ratings(path), batch_size=1024, shuffle=True, num_workers=4, pin_memory=True)
    net = NeuralFactors(readers, books).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    loss_fn = nn.SmoothL1Loss()
    for epoch in range(epochs):
        net.train()
        for reader, book, stars in loader:
            reader, book, stars = reader.to(device), book.to(device), stars.to(device)
            score = net(reader, book)
            loss = loss_fn(score, stars)  # expect: ESP105
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
    return net
