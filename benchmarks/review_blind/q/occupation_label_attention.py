"""Text encoder with per-label attention used to code job titles."""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LabelAttentionConfig:
    n_head: int = 4
    num_classes: int = 436
    n_embd: int = 128


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class LabelAttention(nn.Module):
    """Every class owns a query vector which attends over the token states."""

    def __init__(self, config: LabelAttentionConfig):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.n_head = config.n_head
        self.head_dim = config.n_embd // config.n_head
        self.num_classes = config.num_classes
        self.label_embeds = nn.Embedding(config.num_classes, config.n_embd)
        self.c_q = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_k = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_v = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def _split(self, x):
        B, T, _ = x.shape
        return x.view(B, T, self.n_head, self.head_dim).transpose(1, 2)

    def forward(self, tokens, attention_mask: Optional[torch.Tensor] = None):
        B, T, C = tokens.shape
        labels = self.label_embeds.weight.unsqueeze(0).expand(B, -1, -1)
        q = norm(self._split(self.c_q(labels)))
        k = norm(self._split(self.c_k(tokens)))
        v = self._split(self.c_v(tokens))
        attn_mask = None
        if attention_mask is not None:
            attn_mask = (attention_mask == 0)[:, None, None, :]
            attn_mask = attn_mask.expand(B, 1, self.num_classes, T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        y = y.transpose(1, 2).reshape(B, self.num_classes, C)
        return self.c_proj(y)


class OccupationClassifier(nn.Module):
    def __init__(self, vocab_size, config: LabelAttentionConfig, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embed = nn.Embedding(vocab_size, config.n_embd, padding_idx=pad_id)
        layer = nn.TransformerEncoderLayer(config.n_embd, config.n_head,
                                           dim_feedforward=4 * config.n_embd,
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.label_attention = LabelAttention(config)
        self.score = nn.Linear(config.n_embd, 1)

    def forward(self, input_ids):
        attention_mask = (input_ids != self.pad_id).long()
        x = self.embed(input_ids)
        x = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        per_label = self.label_attention(x, attention_mask)
        return self.score(per_label).squeeze(-1)

    def compute_loss(self, input_ids, targets):
        return F.cross_entropy(self(input_ids), targets)
