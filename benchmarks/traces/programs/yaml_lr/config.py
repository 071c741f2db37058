"""Load the experiment configuration."""
from pathlib import Path

import yaml


class Section(dict):
    """A dictionary with attribute access."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


def load_config(path):
    """Read a YAML file into nested sections."""
    raw = yaml.safe_load(Path(path).read_text())
    return Section({key: Section(part) if isinstance(part, dict) else part for key, part in raw.items()})
