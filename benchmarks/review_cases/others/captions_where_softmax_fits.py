import torch
import torch.nn as nn
import torch.nn.functional as F


class Captioner(nn.Module):
    def __init__(self, vocab, d=256, features=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.cell = nn.LSTMCell(d + features, d)
        self.score = nn.Linear(d + features, 1)
        self.word = nn.Linear(d, vocab)
        self.gate = nn.Linear(d, 1)

    def step(self, word, state, regions):
        h, c = state
        seen = torch.cat([h[:, None].expand(-1, regions.shape[1], -1), regions], -1)
        alpha = F.softmax(self.score(seen), dim=1)
        context = (alpha * regions).sum(dim=1) * self.gate(h).sigmoid()
        h, c = self.cell(torch.cat([self.embed(word), context], 1), (h, c))
        return F.log_softmax(self.word(h), dim=-1), (h, c), alpha.squeeze(-1)

    def forward(self, words, regions):
        b = len(words)
        state = (regions.new_zeros(b, self.cell.hidden_size), regions.new_zeros(b, self.cell.hidden_size))
        logps, alphas = [], []
        for t in range(words.shape[1] - 1):
            logp, state, alpha = self.step(words[:, t], state, regions)
            logps.append(logp)
            alphas.append(alpha)
        return torch.stack(logps, 1), torch.stack(alphas, 1)


def loss_fn(model, words, regions, teacher_logits=None, temperature=2.0):
    logp, alphas = model(words, regions)
    loss = F.nll_loss(logp.transpose(1, 2), words[:, 1:], ignore_index=0)
    loss = loss + ((1 - alphas.sum(dim=1)) ** 2).mean()
    if teacher_logits is not None:
        soft = F.softmax(teacher_logits / temperature, dim=-1)
        loss = loss + F.kl_div(logp, soft, reduction="batchmean")
    return loss


@torch.no_grad()
def sample(model, regions, start, longest=20, top_p=0.9):
    model.eval()
    b = len(regions)
    word = torch.full((b,), start, device=regions.device)
    state = (regions.new_zeros(b, model.cell.hidden_size), regions.new_zeros(b, model.cell.hidden_size))
    out = [word]
    for _ in range(longest):
        logp, state, _ = model.step(word, state, regions)
        probs, index = logp.exp().sort(dim=-1, descending=True)
        probs = probs.masked_fill(probs.cumsum(-1) - probs > top_p, 0.0)
        pick = torch.multinomial(probs / probs.sum(-1, keepdim=True), 1)
        word = index.gather(1, pick).squeeze(1)
        out.append(word)
    return torch.stack(out, 1)
