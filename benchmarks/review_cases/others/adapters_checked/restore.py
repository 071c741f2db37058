def verify(outcome, *, may_miss=()):
    """Raises unless everything that is missing was meant to be, and nothing was left over."""
    missing = [key for key in outcome.missing_keys if not key.startswith(tuple(may_miss))]
    if missing or outcome.unexpected_keys:
        raise RuntimeError(f"missing {missing}, left over {outcome.unexpected_keys}")
