"""PPO for vector environments that report the last observation of an episode."""
import torch
import torch.nn as nn
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=256):
        super().__init__()
        body = lambda out: nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(),
                                         nn.Linear(hidden, hidden), nn.Tanh(),
                                         nn.Linear(hidden, out))
        self.pi, self.v = body(act_dim), body(1)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def dist(self, obs):
        return Normal(self.pi(obs), self.log_std.exp())

    def value(self, obs):
        return self.v(obs).squeeze(-1)


@torch.no_grad()
def collect(env, model, obs, horizon, gamma, lam):
    store = {k: [] for k in ("obs", "act", "logp", "val", "delta_v", "rew", "done")}
    for _ in range(horizon):
        dist = model.dist(obs)
        act = dist.sample()
        nxt, rew, terminated, truncated, final_obs = env.step(act)
        done = terminated | truncated
        follow = torch.where(done.unsqueeze(-1), final_obs, nxt)
        bootstrap = model.value(follow) * (~terminated).float()
        for key, value in zip(store, (obs, act, dist.log_prob(act).sum(-1), model.value(obs),
                                      bootstrap, rew, done.float())):
            store[key].append(value)
        obs = nxt
    data = {k: torch.stack(v) for k, v in store.items()}
    adv = torch.zeros_like(data["rew"])
    gae = torch.zeros_like(data["rew"][0])
    for t in reversed(range(horizon)):
        delta = data["rew"][t] + gamma * data["delta_v"][t] - data["val"][t]
        gae = delta + gamma * lam * (1.0 - data["done"][t]) * gae
        adv[t] = gae
    data["adv"], data["ret"] = adv, adv + data["val"]
    return {k: v.flatten(0, 1) for k, v in data.items()}, obs


def update(model, optimizer, data, epochs=10, minibatch=4096, clip=0.2, vf=0.5, ent=0.0,
           target_kl=0.02):
    size = data["obs"].size(0)
    for _ in range(epochs):
        for idx in torch.randperm(size, device=data["obs"].device).split(minibatch):
            mb = {k: v[idx] for k, v in data.items()}
            adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-8)
            dist = model.dist(mb["obs"])
            log_ratio = dist.log_prob(mb["act"]).sum(-1) - mb["logp"]
            ratio = log_ratio.exp()
            surrogate = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
            value_loss = 0.5 * (model.value(mb["obs"]) - mb["ret"]).pow(2).mean()
            entropy = dist.entropy().sum(-1).mean()
            loss = -surrogate.mean() + vf * value_loss - ent * entropy
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        with torch.no_grad():
            kl = ((ratio - 1) - log_ratio).mean()
        if kl > target_kl:
            break
    return loss.detach()


def train(env, model, iterations, horizon=64, gamma=0.99, lam=0.95, lr=3e-4):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, eps=1e-5)
    obs = env.reset()
    for it in range(iterations):
        data, obs = collect(env, model, obs, horizon, gamma, lam)
        loss = update(model, optimizer, data)
        if it % 10 == 0:
            print(it, loss.item(), data["rew"].mean().item())
