import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from tqdm import tqdm
from transformers import AutoModelForCausalLM


def main(loader, name="facebook/opt-350m", epochs=1):
    device = "cuda"
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).to(device)
    opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 2e-4)
    model.train()
    for epoch in range(epochs):
        bar = tqdm(loader, desc=f"epoch {epoch}")
        for batch in bar:
            ids, mask = batch["input_ids"].to(device), batch["attention_mask"].to(device)
            logits = model(input_ids=ids, attention_mask=mask).logits
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), ignore_index=1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            bar.set_postfix(loss=loss.item())  # expect: ESP305
    model.save_pretrained("lora")
