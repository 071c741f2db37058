import os

import torch


def fast_math():
    """Allow TF32 where it is supported."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # expect: ESP510 @t
    torch.backends.cudnn.conv.fp32_precision = "tf32"


def determinism(seed):
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
