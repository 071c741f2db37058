"""Distil a 12-layer BERT into a 4-layer student on unlabelled text."""
import argparse
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, DataCollatorForLanguageModeling

from text_lines import TokenizedLines


class Distiller(nn.Module):
    def __init__(self, teacher, student, temperature=2.0, layer_map=((3, 1), (6, 2), (9, 3), (12, 4))):
        super().__init__()
        self.student = student
        self.t = temperature
        self.layer_map = layer_map
        self.adapt = nn.Linear(student.config.hidden_size, teacher.config.hidden_size, bias=False)
        teacher.requires_grad_(False)
        self.teacher = teacher.eval()

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def trainable(self):
        return itertools.chain(self.student.parameters(), self.adapt.parameters())

    def forward(self, input_ids, attention_mask, labels):
        kw = dict(input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True)
        with torch.no_grad():
            t_out = self.teacher(**kw)
        s_out = self.student(**kw)
        picked = labels != -100
        s_logit = s_out.logits[picked].float() / self.t
        t_logit = t_out.logits[picked].float() / self.t
        kd = F.kl_div(F.log_softmax(s_logit, dim=-1), F.log_softmax(t_logit, dim=-1),
                      reduction="batchmean", log_target=True) * self.t ** 2
        mlm = F.cross_entropy(s_out.logits[picked].float(), labels[picked])
        mask = attention_mask.unsqueeze(-1).float()
        hid = 0.0
        for ti, si in self.layer_map:
            diff = self.adapt(s_out.hidden_states[si]) - t_out.hidden_states[ti]
            hid = hid + (diff.pow(2).mean(dim=-1, keepdim=True) * mask).sum() / mask.sum()
        return {"kd": kd, "mlm": mlm, "hid": hid / len(self.layer_map)}


WEIGHTS = {"kd": 1.0, "mlm": 0.5, "hid": 0.1}


def student_from(teacher_cfg):
    cfg = AutoConfig.from_pretrained(
        teacher_cfg._name_or_path, num_hidden_layers=4, hidden_size=384,
        num_attention_heads=6, intermediate_size=1536)
    return AutoModelForMaskedLM.from_config(cfg)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--teacher", default="bert-base-uncased")
    ap.add_argument("--corpus", required=True)
    ap.add_argument("--steps", type=int, default=100_000)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    tok = AutoTokenizer.from_pretrained(args.teacher)
    teacher = AutoModelForMaskedLM.from_pretrained(args.teacher)
    model = Distiller(teacher, student_from(teacher.config)).to(device)
    opt = torch.optim.AdamW(model.trainable(), lr=3e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-4, total_steps=args.steps, pct_start=0.05)
    coll = DataCollatorForLanguageModeling(tok, mlm_probability=0.15)
    loader = DataLoader(TokenizedLines(args.corpus, tok, 128), 128, shuffle=True, collate_fn=coll,
                        num_workers=6, drop_last=True, pin_memory=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    model.train()
    for step, b in zip(range(args.steps), batches):
        b = {k: b[k].to(device, non_blocking=True) for k in ("input_ids", "attention_mask", "labels")}
        parts = model(**b)
        loss = sum(WEIGHTS[k] * v for k, v in parts.items())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(list(model.trainable()), 1.0)
        opt.step()
        sched.step()
        if step % 250 == 0:
            print(step, {k: round(v.item(), 4) for k, v in parts.items()})
    model.student.save_pretrained("bert-mini")


if __name__ == "__main__":
    main()
