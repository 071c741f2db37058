"""Train a summariser; everything is written to TensorBoard at every step."""
import torch
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer


def main(dataset, epochs=2):
    device = torch.device("cuda")
    tok = AutoTokenizer.from_pretrained("t5-small")
    model = AutoModelForSeq2SeqLM.from_pretrained("t5-small").to(device)
    writer = SummaryWriter("runs/t5")

    def collate(rows):
        enc = tok([r["document"] for r in rows], padding=True, truncation=True, return_tensors="pt")
        enc["labels"] = tok([r["summary"] for r in rows], padding=True, truncation=True, return_tensors="pt").input_ids
        return enc

    loader = DataLoader(dataset, batch_size=16, shuffle=True, collate_fn=collate, num_workers=4, pin_memory=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model.train()
    step = 0
    for epoch in range(epochs):
        for batch in loader:
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            loss = model(**batch).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            writer.add_scalar("loss", loss, step)  # expect: ESP305|ESP411
            for name, p in model.named_parameters():
                writer.add_histogram(f"grad/{name}", p.grad, step)  # expect: ESP411
            step += 1
    writer.close()


if __name__ == "__main__":
    from datasets import load_dataset

    main(load_dataset("xsum", split="train"))
