"""Full fine-tuning of a language model, in the shape of a torchtune recipe."""
import sys
import time

import torch
from omegaconf import DictConfig
from torch.utils.data import DataLoader, DistributedSampler
from torchtune import config, training, utils
from torchtune.recipe_interfaces import FTRecipeInterface


class FullFinetune(FTRecipeInterface):
    def __init__(self, cfg: DictConfig):
        self._device = utils.get_device(device=cfg.device)
        self._dtype = training.get_dtype(cfg.dtype, device=self._device)
        self._accum = cfg.gradient_accumulation_steps
        self._log_every = cfg.log_every_n_steps
        self.total_epochs, self.global_step = cfg.epochs, 0

    def setup(self, cfg):
        self._checkpointer = config.instantiate(cfg.checkpointer)
        state = self._checkpointer.load_checkpoint()
        with training.set_default_dtype(self._dtype), self._device:
            self._model = config.instantiate(cfg.model)
        self._model.load_state_dict(state[training.MODEL_KEY])
        self._optimizer = config.instantiate(cfg.optimizer, self._model.parameters())
        self._loss_fn = config.instantiate(cfg.loss)
        ds = config.instantiate(cfg.dataset)
        self._sampler = DistributedSampler(ds, num_replicas=1, rank=0, shuffle=True)
        self._dataloader = DataLoader(ds, cfg.batch_size, sampler=self._sampler, drop_last=True)

    def _loss_step(self, batch):
        labels = batch.pop("labels")
        logits = self._model(**batch)
        return self._loss_fn(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))

    def train(self):
        self._model.train()
        self._optimizer.zero_grad()
        running, tokens, t0 = 0, 0, time.perf_counter()
        for epoch in range(self.total_epochs):
            self._sampler.set_epoch(epoch)
            for idx, batch in enumerate(self._dataloader):
                batch = {k: v.to(self._device) for k, v in batch.items()}
                loss = self._loss_step(batch) / self._accum
                running += loss.detach()
                loss.backward()
                if (idx + 1) % self._accum == 0:
                    self._optimizer.step()
                    self._optimizer.zero_grad(set_to_none=True)
                    self.global_step += 1
                    if self.global_step % self._log_every == 0:
                        print(self.global_step, running.item(), time.perf_counter() - t0)
                    running = 0
            self._checkpointer.save_checkpoint({training.MODEL_KEY: self._model.state_dict()}, epoch=epoch)


@config.parse
def main(cfg: DictConfig):
    recipe = FullFinetune(cfg)
    recipe.setup(cfg)
    recipe.train()


if __name__ == "__main__":
    sys.exit(main())
