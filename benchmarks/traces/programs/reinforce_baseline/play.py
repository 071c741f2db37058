import torch

from policy import Agent


class Corridor:
    def __init__(self, n=6):
        self.n = n

    def reset(self):
        self.t = 0
        return torch.randn(4)

    def step(self, action):
        self.t += 1
        return torch.randn(4), float(action), self.t >= self.n


def discounted(rewards, gamma=0.97):
    out, running = [], 0.0
    for r in reversed(rewards):
        running = r + gamma * running
        out.append(running)
    return torch.tensor(out[::-1])


def play(episodes=3):
    env, agent = Corridor(), Agent()
    for _ in range(episodes):
        obs, done = env.reset(), False
        logs, values, rewards = [], [], []
        while not done:
            action, log_prob, value = agent.policy.act(obs)
            obs, reward, done = env.step(action.item())
            logs.append(log_prob)
            values.append(value)
            rewards.append(reward)
        print(agent.learn(logs, values, discounted(rewards)))


if __name__ == "__main__":
    play()
