"""Closed-loop evaluation; scenarios are divided among the processes."""
import torch
import torch.distributed as dist


def my_scenarios(scenarios):
    if not dist.is_initialized():
        return scenarios
    return scenarios[dist.get_rank()::dist.get_world_size()]


@torch.no_grad()
def roll_out(planner, scenario, device, stride=10):
    state = scenario.reset()
    while not scenario.finished:
        history = state["history"].unsqueeze(0).to(device)
        valid = state["valid"].unsqueeze(0).to(device)
        traj, score = planner(history, valid)
        plan = traj[0, score[0].argmax(), :stride]
        state = scenario.advance(plan.cpu())
    return scenario.collided, scenario.progress


def evaluate_closed_loop(planner, scenarios, device):
    was_training = planner.training
    planner.eval()
    totals = torch.zeros(3, dtype=torch.float64, device=device)
    for scenario in my_scenarios(scenarios):
        collided, progress = roll_out(planner, scenario, device)
        totals += torch.tensor([float(collided), float(progress), 1.0],
                               dtype=torch.float64, device=device)
    if dist.is_initialized():
        dist.all_reduce(totals)
    planner.train(was_training)
    count = totals[2].clamp(min=1)
    return {"collision": (totals[0] / count).item(), "progress": (totals[1] / count).item()}
