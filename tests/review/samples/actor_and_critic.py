"""Proximal policy optimisation in one file: rollouts without gradients, updates with them."""

import torch
from torch import nn
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(observations, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(observations, 64), nn.Tanh(), nn.Linear(64, actions))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        policy = Categorical(logits=self.actor(x))
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(x)


def update(agent, optimizer, batch, epochs, clip):
    clipped = []
    for _ in range(epochs):
        for part in batch.minibatches():
            _, log_prob, entropy, value = agent.get_action_and_value(part.obs, part.actions)
            ratio = (log_prob - part.log_probs).exp()
            advantages = (part.advantages - part.advantages.mean()) / (part.advantages.std() + 1e-8)
            with torch.no_grad():
                clipped += [((ratio - 1.0).abs() > clip).float().mean()]
            policy_loss = torch.max(-advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)).mean()
            value_loss = 0.5 * ((value.view(-1) - part.returns) ** 2).mean()
            loss = policy_loss - 0.01 * entropy.mean() + 0.5 * value_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    return torch.stack(clipped).mean().item()


def collect(agent, envs, steps, device):
    observations, rewards = [], []
    obs = torch.as_tensor(envs.reset(), device=device)
    for _ in range(steps):
        with torch.no_grad():
            action, log_prob, _, value = agent.get_action_and_value(obs)
        observation, reward, done, _ = envs.step(action.cpu().numpy())
        observations.append((obs, action, log_prob, value))
        rewards.append((torch.as_tensor(reward, device=device), done))
        obs = torch.as_tensor(observation, device=device)
    return observations, rewards


def evaluate(agent, env, device, episodes=10):
    returns = []
    for _ in range(episodes):
        obs, done, total = env.reset(), False, 0.0
        while not done:
            with torch.inference_mode():
                action = agent.actor(torch.as_tensor(obs, device=device)).argmax()
            obs, reward, done, _ = env.step(action.item())
            total += reward
        returns.append(total)
    return sum(returns) / len(returns)


def main(envs, device):
    agent = Agent(8, 4).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    for iteration in range(1000):
        batch = collect(agent, envs, 128, device)
        clip_fraction = update(agent, optimizer, batch, 4, 0.2)
        if iteration % 10 == 0:
            print(iteration, clip_fraction, evaluate(agent, envs, device))
