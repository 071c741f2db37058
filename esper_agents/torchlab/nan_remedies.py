"""Remedies for each cause of NaN and Inf: a stable formulation first, then a bound, never a mask."""

from __future__ import annotations

CHANGES = {
    "division-by-zero": (
        "keep the denominator away from zero before dividing: `x / (d + eps)` where d >= 0, `x / d.clamp(min=eps)`,"
        " or `torch.where(d == 0, 1, d)` as the denominator; eps must not vanish in the dtype (1e-8 is 0 in "
        "float16)"
    ),
    "log-of-zero": (
        "work with logarithms from the start: log_softmax, logsigmoid, cross_entropy, "
        "binary_cross_entropy_with_logits, xlogy for x*log(x), log1p(x) for log(1+x); where none fits, "
        "`x.clamp(min=eps).log()`"
    ),
    "log-of-negative": (
        "find out why the argument is below zero; a probability or a square never is, a difference may be"
    ),
    "sqrt-of-negative": (
        "compute what is under the root so that it cannot be negative (`var()` in place of E[x^2]-E[x]^2), or clamp"
        " it at 0 before the root"
    ),
    "sqrt-at-zero": (
        "sqrt has no derivative at 0: add eps under the root, or use torch.linalg.vector_norm, whose gradient there"
        " is 0"
    ),
    "norm-at-zero": "the norm has no derivative at 0: use `(x.square().sum(dim) + eps).sqrt()`, or leave zero rows out",
    "power-of-zero": "add eps to the base: below 0 the power of 0 is infinite, and so is its derivative below 1",
    "power-of-negative": (
        "a negative number has no real power of a fraction: use `x.abs().pow(p) * x.sign()`, or clamp at 0"
    ),
    "out-of-domain": "clamp the argument into the function's domain before the call; rounding carries a cosine above 1",
    "edge-of-domain": (
        "the derivative is infinite at the edge of the domain: clamp to `1 - eps`, or use atan2, which has none"
    ),
    "exp-overflow": (
        "subtract the maximum before exp, or use softmax, logsumexp, softplus or logsigmoid, which do; bound log-"
        "scales with clamp before exp"
    ),
    "half-overflow": (
        "do this operation in float32 (`x.float()`, `torch.autocast(..., enabled=False)` round it) or use bfloat16,"
        " scale the numbers down before multiplying, and for gradients use a GradScaler"
    ),
    "overflow": (
        "find where the numbers grow: print the largest magnitude per layer, then normalise, clip or work with "
        "logarithms"
    ),
    "zero-times-inf": "choose with `torch.where` or `masked_fill` in place of multiplying by a mask: 0 * inf is NaN",
    "inf-minus-inf": (
        "do not compute with infinite numbers: mask with a large finite number, or choose before subtracting"
    ),
    "inf-over-inf": "divide before the numbers overflow, or subtract logarithms in place of dividing",
    "softmax-of-masked-row": (
        "give every row something to attend to, fill with `torch.finfo(dtype).min` in place of -inf, or choose with"
        " `torch.where(row_is_masked, 0, weights)` and a finite fill before the softmax"
    ),
    "std-of-one-element": "pass `correction=0`, or skip the normalisation where there is only one element",
    "empty-reduction": (
        "nothing is left to reduce: skip the batch, or divide the sum by `count.clamp(min=1)` (for losses "
        "`reduction='sum'`)"
    ),
    "impossible-alignment": (
        "pass `zero_infinity=True` to ctc_loss, and leave out targets that are longer than their input"
    ),
    "degenerate-decomposition": (
        "its gradient divides by differences of singular or eigenvalues: do not differentiate through the vectors, "
        "or add small different numbers to the diagonal"
    ),
    "learning-rate-too-high": "lower the learning rate, warm it up, and clip the gradient's norm before each step",
    "bad-initialisation": (
        "initialise each layer for its width (`nn.init.kaiming_normal_`, `xavier_uniform_`), or put a normalisation"
        " between the layers"
    ),
    "nan-in-inputs": (
        "mend the data: find the sample by the step, seed and index, and check batches with isfinite as they are loaded"
    ),
    "inf-in-inputs": (
        "bound the data before it is used; a mask of -inf that is an input must not be multiplied or subtracted"
    ),
    "nan-in-parameters": (
        "the weights were NaN before the first step: load another checkpoint, and check it with isfinite"
    ),
    "inf-in-parameters": (
        "the weights were Inf before the first step: load another checkpoint, and check it with isfinite"
    ),
    "nan-in-buffers": (
        "a buffer was NaN before the first step: reset it (`reset_running_stats()`), or load another checkpoint"
    ),
    "inf-in-buffers": (
        "a buffer was Inf before the first step and is computed with: choose with torch.where in its place"
    ),
    "nan-in-optimizer-state": "the optimizer's state was NaN before the first step: start it anew",
    "inf-in-optimizer-state": "the optimizer's state was Inf before the first step: start it anew",
    "uninitialised-memory": (
        "use torch.zeros or torch.full in place of torch.empty, or write every element before reading"
    ),
    "where-gradient": (
        "a mask on the result does not stop the gradient: choose the *argument* before the operation, `safe = "
        "torch.where(ok, x, 1.0)`, then compute on safe, then choose the result"
    ),
    "deliberate-nan": (
        "leave what was marked with NaN out before the loss: select, or use nanmean and nansum throughout"
    ),
    "deliberate-inf": (
        "the masked position is one that is asked for: check targets against the mask, or fill with a finite number"
    ),
    "loss-scale-never-fits": (
        "no loss scale makes these gradients finite: the fault is in the operation, not in the scale; mend it there"
    ),
    "unclassified": "look at the inputs of the operation: their largest, smallest and zero elements are listed",
}
