"""CTC training on the utterance stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from stream import UtteranceStream

BLANK = 0


class ConvSubsample(nn.Module):
    def __init__(self, n_mels, dim):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(n_mels, dim, 3, 2, 1), nn.GELU(),
                                  nn.Conv1d(dim, dim, 3, 2, 1), nn.GELU())

    def forward(self, x, lengths):
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        for _ in range(2):
            lengths = (lengths + 1) // 2
        return x, lengths


class CTCModel(nn.Module):
    def __init__(self, n_mels, vocab, dim=512, depth=12, heads=8):
        super().__init__()
        self.subsample = ConvSubsample(n_mels, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.pos = nn.Conv1d(dim, dim, 31, padding=15, groups=dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, feats, lengths):
        x, lengths = self.subsample(feats, lengths)
        x = x + self.pos(x.transpose(1, 2)).transpose(1, 2)
        pad = torch.arange(x.size(1), device=x.device)[None] >= lengths[:, None]
        return self.out(self.encoder(x, src_key_padding_mask=pad)), lengths


def collate(items):
    feats = pad_sequence([i["feats"] for i in items], batch_first=True)
    ids = [torch.as_tensor(i["ids"]) for i in items]
    return {"feats": feats, "feat_len": torch.tensor([i["feats"].size(0) for i in items]),
            "ids": torch.cat(ids), "id_len": torch.tensor([len(i) for i in ids])}


def run(args, tokenizer, device):
    dataset = UtteranceStream(args.root, tokenizer)
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.workers,
                        collate_fn=collate, pin_memory=True)
    model = CTCModel(80, tokenizer.vocab_size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        dataset.set_epoch(epoch)
        for batch in loader:
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            logits, lengths = model(batch["feats"], batch["feat_len"])
            logp = F.log_softmax(logits.float(), dim=-1).transpose(0, 1)
            loss = F.ctc_loss(logp, batch["ids"], lengths, batch["id_len"],
                              blank=BLANK, zero_infinity=True)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
