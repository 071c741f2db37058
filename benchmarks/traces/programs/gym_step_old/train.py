"""REINFORCE on the grid world."""
import torch
from gymnasium.wrappers import TimeLimit

from agent import Policy, discounted
from grid_env import GridEnv


def run_episode(env, policy):
    observation, _ = env.reset(seed=0)
    log_probs, rewards = [], []
    while True:
        action, log_prob = policy.act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        log_probs.append(log_prob)
        rewards.append(reward)
        if terminated or truncated:
            return log_probs, rewards


def main():
    torch.manual_seed(0)
    env = TimeLimit(GridEnv(size=6), max_episode_steps=50)
    policy = Policy(env.observation_space.shape[0], env.action_space.n)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(5):
        log_probs, rewards = run_episode(env, policy)
        returns = discounted(rewards, 0.99)
        loss = -(torch.stack(log_probs) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(episode, sum(rewards))


if __name__ == "__main__":
    main()
