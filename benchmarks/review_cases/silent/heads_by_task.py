from torch import nn


class ManyTasks(nn.Module):
    def __init__(self, tasks, width=128):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(40, width), nn.ReLU())
        self.norms = []
        for _ in range(3):
            self.norms.append(nn.LayerNorm(width))  # expect: ESP215
        self.heads = {task: nn.Linear(width, classes) for task, classes in tasks.items()}  # expect: ESP215

    def forward(self, x, task):
        x = self.trunk(x)
        for norm in self.norms:
            x = x + norm(x)
        return self.heads[task](x)
