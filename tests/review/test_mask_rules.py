"""Cases of ESP221, masks of the wrong polarity."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review_sources

HEAD = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_padding_mask(ids, pad_idx):
    return ids.eq(pad_idx)


def make_token_mask(lengths, n):
    positions = torch.arange(n, device=lengths.device)
    return positions.unsqueeze(0) < lengths.unsqueeze(1)


class Net(nn.Module):
    def __init__(self, d, pad_idx):
        super().__init__()
        self.pad_idx = pad_idx
        self.embed = nn.Embedding(100, d)
        self.attention = nn.MultiheadAttention(d, 4)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4), 2)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, 4), 2)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(d, 4) for _ in range(2)])
        self.register_buffer("causal", torch.tril(torch.ones(512, 512, dtype=torch.bool)))

    def forward(self, ids, lengths, memory, mask=None):
        x = self.embed(ids)
        n = ids.shape[1]
"""

WRONG = {
    "tokens are ignored": "return self.attention(x, x, x, key_padding_mask=(ids != self.pad_idx))",
    "tokens are ignored, by position": "return self.attention(x, x, x, ids.ne(self.pad_idx))",
    "lengths": "return self.encoder(x, src_key_padding_mask=torch.arange(n)[None, :] < lengths[:, None])",
    "lengths first": "return self.encoder(x, src_key_padding_mask=lengths[:, None] > torch.arange(n)[None, :])",
    "a helper": "return self.encoder(x, src_key_padding_mask=make_token_mask(lengths, n))",
    "a helper, turned round": (
        "return self.decoder(memory, x, memory_key_padding_mask=~make_padding_mask(ids, self.pad_idx))"
    ),
    "a loop over layers": """for layer in self.layers:
            x = layer(x, src_key_padding_mask=ids != self.pad_idx)
        return x""",
    "the past is ignored": "return self.attention(x, x, x, attn_mask=self.causal[:n, :n])",
    "the past is ignored, in a decoder": (
        "return self.decoder(x, memory, tgt_mask=torch.tril(torch.ones(n, n, device=x.device)).bool())"
    ),
    "the future is read": (
        "return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.triu(torch.ones(n, n), diagonal=1).bool())"
    ),
    "padding is read": (
        "return F.scaled_dot_product_attention(x, x, x, "
        "attn_mask=make_padding_mask(ids, self.pad_idx)[:, None, None, :])"
    ),
    "a triangle of numbers": "return F.scaled_dot_product_attention(x, x, x, attn_mask=torch.tril(torch.ones(n, n)))",
    "scores of tokens are hidden": """scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[-1])
        scores = scores.masked_fill((ids != self.pad_idx).unsqueeze(1), float("-inf"))
        return scores.softmax(-1) @ x""",
    "scores of the past are hidden": """scores = x @ x.transpose(1, 2)
        scores = scores.masked_fill(self.causal[:n, :n], -1e9)
        return F.softmax(scores, dim=-1) @ x""",
    "ids that are not 0": "return self.attention(x, x, x, key_padding_mask=(ids != 0))",
}

RIGHT = {
    "padding is ignored": "return self.attention(x, x, x, key_padding_mask=(ids == self.pad_idx))",
    "a helper": "return self.encoder(x, src_key_padding_mask=make_padding_mask(ids, self.pad_idx))",
    "a helper, turned round": "return self.encoder(x, src_key_padding_mask=~make_token_mask(lengths, n))",
    "logical_not": "return self.encoder(x, src_key_padding_mask=make_token_mask(lengths, n).logical_not())",
    "compared with False": "return self.encoder(x, src_key_padding_mask=make_token_mask(lengths, n) == False)",
    "positions past the lengths": (
        "return self.encoder(x, src_key_padding_mask=torch.arange(n)[None] >= lengths[:, None])"
    ),
    "the past is read": "return F.scaled_dot_product_attention(x, x, x, attn_mask=self.causal[:n, :n])",
    "the future is ignored": (
        "return self.attention(x, x, x, attn_mask=torch.triu(torch.ones(n, n), diagonal=1).bool())"
    ),
    "an added mask": """m = torch.triu(torch.ones(n, n) * float("-inf"), diagonal=1)
        return self.encoder(x, mask=m)""",
    "filled scores": """scores = x @ x.transpose(1, 2)
        scores = scores.masked_fill(self.causal[:n, :n] == 0, float("-inf"))
        return scores.softmax(-1)""",
    "a mask that is changed later": """m = ids != self.pad_idx
        m = torch.where(m, False, True)
        return self.encoder(x, src_key_padding_mask=m)""",
    "a mask of a caller": "return self.encoder(x, src_key_padding_mask=mask)",
    "a mask of either kind": """m = ids != self.pad_idx
        if self.training:
            m = ids == self.pad_idx
        return self.encoder(x, src_key_padding_mask=m)""",
    "padding on the left": "return self.encoder(x, src_key_padding_mask=torch.arange(n)[None] < pad_lens[:, None])",
    "filled with zeros, for a mean": """m = ids != self.pad_idx
        x = x.masked_fill(~m[..., None], 0.0)
        return F.softmax(x, -1)""",
    "an end that must not come too early": """scores = self.out(x)
        scores[..., 2].masked_fill_(torch.arange(n) < self.min_len, float("-inf"))
        return F.log_softmax(scores, -1)""",
    "an attention of the project": "return Own(4)(x, src_key_padding_mask=(ids != self.pad_idx))",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_mask_that_hides_what_counts_is_found(found, body):
    assert len(found("ESP221", f"{HEAD}        {body}\n")) == 1


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_masks_of_the_right_or_an_unknown_meaning_are_left_alone(found, body):
    own = "\n\nclass Own(nn.Module):\n    def forward(self, x, src_key_padding_mask):\n        return x\n"
    assert found("ESP221", f"{HEAD}        {body}\n{own}") == []


def test_a_mask_of_another_file_is_followed(found):
    files = {
        "masks.py": "def tokens(ids, pad_id):\n    return ids != pad_id\n",
        "net.py": (
            "from torch import nn\nfrom masks import tokens\n\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n        super().__init__()\n        self.a = nn.MultiheadAttention(8, 2)\n"
            "    def forward(self, x, ids):\n        return self.a(x, x, x, key_padding_mask=tokens(ids, 0))\n"
        ),
    }
    assert len(found("ESP221", files)) == 1


def test_the_remedy_turns_the_mask_round():
    source = f"{HEAD}        {WRONG['tokens are ignored']}\n"
    report = review_sources({"train.py": source}, rules=["ESP221"])
    assert [claim.remedy for claim in report.claims] == ["pass `~(ids != self.pad_idx)`"]


KEYED = {
    "batches.py": """
        PAD = 0

        def collate(ids):
            {made}
        """,
    "model.py": """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.core = nn.Transformer(8, 2, batch_first=True)

            def forward(self, src, tgt, mask):
                return self.core(src, tgt, src_key_padding_mask=mask)

        def loss(model, batch):
            return model(batch["src"], batch["tgt"][:, :-1], batch["src_mask"])
        """,
}


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ('return {"src": ids, "src_mask": ids != PAD}', 1),
        ('return {"src": ids, "src_mask": ids.ne(PAD)}', 1),
        ("return dict(src=ids, src_mask=ids != PAD)", 1),
        ("batch = {}\n            batch['src_mask'] = ~(ids == PAD)\n            return batch", 1),
        ('return {"src": ids, "src_mask": ids == PAD}', 0),
        ('return {"src": ids, "mask": ids != PAD}', 0),
        ('return [{"src_mask": ids != PAD}, {"src_mask": ids == PAD}]', 0),
        ('return [{"src_mask": ids != PAD}, {"src_mask": load(ids)}]', 0),
    ],
)
def test_a_mask_in_a_dictionary_is_followed_to_the_only_module_that_takes_it(found, made, count):
    sources = {**KEYED, "batches.py": KEYED["batches.py"].format(made=made)}
    assert len(found("ESP221", sources)) == count


def test_a_mask_in_a_dictionary_is_not_followed_to_one_of_two_modules(found):
    other = """
        from torch import nn

        class Other(nn.Module):
            def forward(self, src, tgt, mask):
                return src
        """
    batches = KEYED["batches.py"].format(made='return {"src": ids, "src_mask": ids != PAD}')
    assert found("ESP221", {**KEYED, "batches.py": batches, "other.py": other}) == []
