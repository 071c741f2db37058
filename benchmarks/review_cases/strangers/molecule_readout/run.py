import torch
import torch.nn.functional as F

from gnn import Solubility


def run(loader, epochs=200):
    model = Solubility().cuda()
    optimizer = torch.optim.Adam(model.parameters(), 5e-4)
    for _ in range(epochs):
        model.train()
        for batch in loader:
            pred = model(batch.atoms.cuda(), batch.edges.cuda(), batch.molecule.cuda(), batch.count)
            loss = F.l1_loss(pred, batch.logs.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model
