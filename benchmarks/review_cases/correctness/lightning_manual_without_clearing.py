import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F


class SAC(pl.LightningModule):
    """Soft actor-critic, manual optimisation."""

    def __init__(self, obs=17, act=6, hidden=256, alpha=0.2, gamma=0.99):
        super().__init__()
        self.automatic_optimization = False
        self.save_hyperparameters()
        self.actor = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, 2 * act))
        self.critic = nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.target = nn.Sequential(nn.Linear(obs + act, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.target.requires_grad_(False)

    def sample(self, obs):
        mu, log_std = self.actor(obs).chunk(2, -1)
        dist = torch.distributions.Normal(mu, log_std.clamp(-5, 2).exp())
        a = dist.rsample()
        return torch.tanh(a), dist.log_prob(a).sum(-1)  # expect: ESP271

    def training_step(self, batch, batch_idx):
        obs, act, rew, nxt, done = batch
        actor_opt, critic_opt = self.optimizers()

        with torch.no_grad():
            a, logp = self.sample(nxt)
            target = self.target(torch.cat([nxt, a], -1)).squeeze(-1) - self.hparams.alpha * logp
            target = rew + self.hparams.gamma * (1 - done) * target
        q = self.critic(torch.cat([obs, act], -1)).squeeze(-1)
        critic_loss = F.mse_loss(q, target)
        critic_opt.zero_grad()
        self.manual_backward(critic_loss)
        critic_opt.step()

        a, logp = self.sample(obs)
        actor_loss = (self.hparams.alpha * logp - self.critic(torch.cat([obs, a], -1)).squeeze(-1)).mean()
        self.manual_backward(actor_loss)  # expect: ESP101
        actor_opt.step()
        self.log_dict({"critic": critic_loss, "actor": actor_loss})

    def configure_optimizers(self):
        return torch.optim.Adam(self.actor.parameters(), 3e-4), torch.optim.Adam(self.critic.parameters(), 3e-4)
