import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, get_scheduler


def main():
    accelerator = Accelerator(gradient_accumulation_steps=4, mixed_precision="bf16")
    tok = AutoTokenizer.from_pretrained("gpt2")
    tok.pad_token = tok.eos_token
    raw = load_dataset("wikitext", "wikitext-2-raw-v1", split="train").filter(lambda r: len(r["text"]) > 20)
    ds = raw.map(lambda b: tok(b["text"], truncation=True, max_length=512), batched=True, remove_columns=["text"])
    loader = DataLoader(ds, batch_size=8, shuffle=True, collate_fn=DataCollatorForLanguageModeling(tok, mlm=False), num_workers=4)
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scheduler = get_scheduler("cosine", optimizer, 100, 3 * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    model.train()
    for epoch in range(3):
        for step, batch in enumerate(loader):
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if step % 100 == 0:
                accelerator.print(epoch, step, accelerator.gather(loss.detach()).mean().item())
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained("out", save_function=accelerator.save)


if __name__ == "__main__":
    main()
