import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    def __init__(self, cin, cout, heads=4):
        super().__init__()
        self.heads, self.cout = heads, cout
        self.lin = nn.Linear(cin, heads * cout, bias=False)
        self.src, self.dst = nn.Parameter(torch.empty(heads, cout)), nn.Parameter(torch.empty(heads, cout))
        nn.init.xavier_uniform_(self.src)
        nn.init.xavier_uniform_(self.dst)
        self.attention_log = []

    def forward(self, x, adj):
        n = x.size(0)
        h = self.lin(x).view(n, self.heads, self.cout)
        s, d = (h * self.src).sum(-1), (h * self.dst).sum(-1)
        e = F.leaky_relu(s[:, None] + d[None], 0.2)
        e = e.masked_fill(~adj[..., None], float("-inf"))
        alpha = F.softmax(e, dim=1)
        self.attention_log.append(alpha)  # expect: ESP303
        return torch.einsum("ijh,jhc->ihc", alpha, h).flatten(1)


class GAT(nn.Module):
    def __init__(self, cin, hidden, classes):
        super().__init__()
        self.a, self.b = GraphAttention(cin, hidden), GraphAttention(4 * hidden, classes, heads=1)

    def forward(self, x, adj):
        return self.b(F.elu(self.a(x, adj)), adj)


def train(x, adj, y, mask, epochs=200):
    model = GAT(x.size(1), 8, int(y.max()) + 1)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    for epoch in range(epochs):
        model.train()
        loss = F.cross_entropy(model(x, adj)[mask], y[mask])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return model
