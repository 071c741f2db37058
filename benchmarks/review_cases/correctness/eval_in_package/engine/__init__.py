from .evaluator import Evaluator
from .trainer import Trainer

__all__ = ["Evaluator", "Trainer"]
