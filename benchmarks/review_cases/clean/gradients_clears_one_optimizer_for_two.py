import torch
from torch import nn
def train(encoder, decoder, loader):
    both = nn.ModuleList([encoder, decoder])
    first = torch.optim.SGD(encoder.parameters(), lr=0.1)
    second = torch.optim.Adam(decoder.parameters())
    for batch in loader:
        both.zero_grad()
        decoder(encoder(batch)).sum().backward()
        first.step()
        second.step()
