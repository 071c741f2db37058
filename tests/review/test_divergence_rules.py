"""Cases of ESP219: divergences whose targets are, or are not, logarithms."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("target", "count"), [("softmax", 1), ("log_softmax", 0)])
@pytest.mark.parametrize("option", ["log_target=True", "log_target=flag"])
def test_a_divergence_made_for_logarithms_wants_them(found, target, count, option):
    source = f"""
    import torch.nn as nn
    import torch.nn.functional as F

    def divergence(student, teacher, flag):
        distance = nn.KLDivLoss(reduction="batchmean", {option})
        return distance(F.log_softmax(student, 1), F.{target}(teacher, 1))
    """
    assert len(found("ESP219", source)) == (count if option.endswith("True") else 0)
