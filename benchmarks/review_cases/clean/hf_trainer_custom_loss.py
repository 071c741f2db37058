import numpy as np
import torch
import torch.nn.functional as F
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


class FocalTrainer(Trainer):
    def __init__(self, *args, gamma=2.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.gamma = gamma

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logp = F.log_softmax(outputs.logits, dim=-1)
        logp_t = logp.gather(1, labels[:, None]).squeeze(1)
        loss = (-((1 - logp_t.exp()) ** self.gamma) * logp_t).mean()
        return (loss, outputs) if return_outputs else loss

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        loss, logits, labels = super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)
        return loss, None if logits is None else logits.float(), labels


def compute_metrics(pred):
    return {"accuracy": float((np.argmax(pred.predictions, -1) == pred.label_ids).mean())}


def main(name="roberta-base"):
    tok = AutoTokenizer.from_pretrained(name)
    ds = load_dataset("ag_news").map(lambda b: tok(b["text"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=4)
    args = TrainingArguments("out", per_device_train_batch_size=32, num_train_epochs=2, gradient_accumulation_steps=2, bf16=torch.cuda.is_available())
    trainer = FocalTrainer(
        model=model, args=args, train_dataset=ds["train"], eval_dataset=ds["test"],
        data_collator=DataCollatorWithPadding(tok), compute_metrics=compute_metrics,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
