"""Multi-turn sampling that keeps the cache between turns."""
import torch

from cache import DecoderCache
from decoder import Config, Decoder


def top_p_sample(logits, p, temperature):
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    probs = torch.softmax(logits.float() / temperature, dim=-1)
    ordered, index = probs.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    ordered = ordered.masked_fill(before > p, 0.0)
    choice = torch.multinomial(ordered, 1)
    return index.gather(-1, choice)


class ChatSession:
    def __init__(self, model, tokenizer, eos_id, max_len=4096, device="cuda"):
        self.model = model.eval()
        self.tokenizer, self.eos_id, self.device = tokenizer, eos_id, device
        dtype = next(model.parameters()).dtype
        self.max_len = min(max_len, model.c.max_len)
        self.cache = DecoderCache(model.c, 1, self.max_len, dtype, device)

    @torch.inference_mode()
    def reply(self, text, max_new=256, p=0.9, temperature=0.7):
        ids = torch.tensor([self.tokenizer.encode(text)], device=self.device)
        logits = self.model(ids, self.cache)[:, -1]
        answer = []
        for _ in range(max_new):
            if self.cache.length >= self.max_len:
                break
            token = top_p_sample(logits, p, temperature)
            logits = self.model(token, self.cache)[:, -1]
            value = token.item()
            if value == self.eos_id:
                break
            answer.append(value)
        return self.tokenizer.decode(answer)


def load(path, tokenizer, device="cuda"):
    model = Decoder(Config(vocab=tokenizer.vocab_size))
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return ChatSession(model.to(device), tokenizer, tokenizer.eos_id, device=device)
