import torch
from torch.library import Library, impl, register_fake

lib = Library("tok", "DEF")
lib.define("trim(Tensor x, int n) -> Tensor")
lib.define("same(Tensor x) -> Tensor")


@impl(lib, "trim", "CompositeExplicitAutograd")
def trim(x, n):
    return x[:, :n]  # expect: ESP507


@impl(lib, "same", "CompositeExplicitAutograd")
def same(x):
    return x  # expect: ESP507


@register_fake("tok::trim")
def _(x, n):
    return x.new_empty(x.size(0), min(n, x.size(1)), *x.shape[2:])


@register_fake("tok::same")
def _(x):
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb, self.out = torch.nn.Embedding(vocab, d), torch.nn.Linear(d, vocab)

    def forward(self, ids):
        return self.out(torch.ops.tok.same(self.emb(torch.ops.tok.trim(ids, 512))))
