"""Training and evaluation of the candidate scorer."""
import argparse

import torch
import torch.nn as nn

from model import CandidateScorer


def to_device(sample, device):
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in sample.items()}


def predict(model, sample):
    return model(sample["query"], sample["mentions"], sample["adj"],
                 sample["mention_to_candidate"], sample["n_candidates"])


@torch.no_grad()
def evaluate(model, dataset, device):
    model.eval()
    hits = 0
    for sample in dataset:
        sample = to_device(sample, device)
        hits += int(predict(model, sample).argmax() == sample["answer"])
    return hits / len(dataset)


def fit(train_set, dev_set, args, device):
    model = CandidateScorer(hops=args.hops).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        usable = len(train_set) - len(train_set) % args.batch_size
        order = torch.randperm(len(train_set)).tolist()[:usable]
        optimizer.zero_grad()
        pending = 0
        for i in order:
            sample = to_device(train_set[i], device)
            scores = predict(model, sample)
            loss = criterion(scores.unsqueeze(0), sample["answer"].view(1))
            (loss / args.batch_size).backward()
            pending += 1
            if pending == args.batch_size:
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                optimizer.zero_grad()
                pending = 0
        accuracy = evaluate(model, dev_set, device)
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), args.output)
        print(f"epoch {epoch}: dev accuracy {accuracy:.4f} (best {best:.4f})")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--output", default="scorer.pt")
    return parser.parse_args()
