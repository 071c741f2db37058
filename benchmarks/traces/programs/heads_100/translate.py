import torch
from torch import nn

from opts import get_opts


class Translator(nn.Module):
    def __init__(self, opts, vocab=40):
        super().__init__()
        self.src = nn.Embedding(vocab, opts.embed)
        layer = nn.TransformerEncoderLayer(opts.embed, opts.heads, 4 * opts.embed, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, opts.layers)
        self.out = nn.Linear(opts.embed, vocab)

    def forward(self, ids):
        return self.out(self.enc(self.src(ids)))


def main():
    opts = get_opts()
    model = Translator(opts)
    print(model(torch.randint(0, 40, (2, 9))).shape)


if __name__ == "__main__":
    main()
