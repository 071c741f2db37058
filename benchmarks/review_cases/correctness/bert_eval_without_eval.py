"""Fine-tune BERT on a sentiment task (plain loop)."""
import torch
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

CHECKPOINT = "bert-base-uncased"


def build_loaders(batch_size=32):
    tok = AutoTokenizer.from_pretrained(CHECKPOINT)
    ds = load_dataset("glue", "sst2")
    ds = ds.map(lambda b: tok(b["sentence"], truncation=True, max_length=128, padding="max_length"), batched=True)
    ds.set_format("torch", columns=["input_ids", "attention_mask", "label"])
    train = DataLoader(ds["train"], shuffle=True, batch_size=batch_size, num_workers=2, pin_memory=True)
    val = DataLoader(ds["validation"], batch_size=batch_size, num_workers=2, pin_memory=True)
    return train, val


def evaluate(model, loader, device):
    correct = total = 0
    with torch.no_grad():
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            labels = batch.pop("label")
            logits = model(**batch).logits  # expect: ESP102
            correct += (logits.argmax(-1) == labels).sum().item()  # allow: ESP305
            total += labels.numel()
    return correct / total


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, val = build_loaders()
    model = AutoModelForSequenceClassification.from_pretrained(CHECKPOINT, num_labels=2).to(device)
    optimizer = AdamW(model.parameters(), lr=2e-5, weight_decay=0.01)
    epochs = 3
    sched = get_linear_schedule_with_warmup(optimizer, 100, epochs * len(train))
    for epoch in range(epochs):
        model.train()
        for batch in tqdm(train):
            batch = {k: v.to(device) for k, v in batch.items()}
            labels = batch.pop("label")
            optimizer.zero_grad()
            loss = model(**batch, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            sched.step()
        print(f"epoch {epoch}: accuracy {evaluate(model, val, device):.3%}")


if __name__ == "__main__":
    main()
