import torch
import torch.nn.functional as F
from torch_geometric.datasets import Planetoid
from torch_geometric.nn import GCNConv

from optim_utils import Stepper


class GCN(torch.nn.Module):
    def __init__(self, d_in, d, classes):
        super().__init__()
        self.conv1 = GCNConv(d_in, d)
        self.conv2 = GCNConv(d, classes)

    def forward(self, x, edge_index):
        x = F.dropout(x, 0.5, training=self.training)
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, 0.5, training=self.training)
        return self.conv2(x, edge_index)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ds = Planetoid("data", "Cora")
    data = ds[0].to(device)
    model = GCN(ds.num_features, 16, ds.num_classes).to(device)
    step = Stepper(torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4), max_norm=2.0)

    @torch.no_grad()
    def accuracies():
        model.eval()
        pred = model(data.x, data.edge_index).argmax(-1)
        return [(pred[m] == data.y[m]).float().mean().item() for m in (data.train_mask, data.val_mask, data.test_mask)]

    for epoch in range(1, 201):
        model.train()
        out = model(data.x, data.edge_index)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        loss.backward()
        step()
        if epoch % 20 == 0:
            print(epoch, accuracies())


if __name__ == "__main__":
    main()
