"""Embeds the proteome once and finds remote homologues by nearest neighbour."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from proteome import Proteome, collate


class ProteinEncoder(nn.Module):
    def __init__(self, residues=26, dim=320, depth=6):
        super().__init__()
        self.embed = nn.Embedding(residues, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 8, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, ids):
        padded = ids == 0
        h = self.layers(self.embed(ids), src_key_padding_mask=padded)
        kept = (~padded).unsqueeze(-1)
        return (h * kept).sum(1) / kept.sum(1).clamp(min=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fasta")
    parser.add_argument("--weights", default="encoder.pt")
    parser.add_argument("--out", default="bank.pt")
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = ProteinEncoder().to(device)
    encoder.load_state_dict(torch.load(args.weights, map_location=device, weights_only=True))
    encoder.eval()

    names, bank = [], []
    loader = DataLoader(Proteome(args.fasta), batch_size=64, collate_fn=collate, num_workers=4)
    for batch_names, ids in loader:
        vectors = encoder(ids.to(device))  # expect: ESP302
        bank.append(F.normalize(vectors, dim=1))  # expect: ESP303
        names.extend(batch_names)
    torch.save({"names": names, "vectors": torch.cat(bank).detach().cpu()}, args.out)


if __name__ == "__main__":
    main()
