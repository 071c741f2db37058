"""Names of jobs and their modules: `KIND/job.py` of each measurement, and `*_job.py` for parts of it.

The folders are read when this module is imported, before any code of the user runs.
"""

from pathlib import Path

from . import FOLDER

# Module of each job, relative to this package.
MODULES = {
    **{each.parent.name: f".{each.parent.name}.job" for each in sorted(Path(FOLDER).glob("*/job.py"))},
    **{
        each.stem.removesuffix("_job"): f".{each.parent.name}.{each.stem}"
        for each in sorted(Path(FOLDER).glob("*/*_job.py"))
    },
}
