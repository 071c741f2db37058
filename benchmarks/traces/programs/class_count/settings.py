"""Default settings of an experiment."""

DEFAULTS = {
    "batch_size": 16,
    "epochs": 2,
    "width": 24,
    "num_classes": 5,
    "image_size": 20,
}


def make_settings(**changes):
    """Return the defaults with changes."""
    unknown = set(changes) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown settings: {sorted(unknown)}")
    return {**DEFAULTS, **changes}
