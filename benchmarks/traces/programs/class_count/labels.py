"""Labels of the flower dataset."""

CLASSES = ("rose", "tulip", "daisy", "lily", "iris", "other")


def class_index(name):
    """Return the index of a class; unknown names are `other`."""
    return CLASSES.index(name) if name in CLASSES else CLASSES.index("other")
