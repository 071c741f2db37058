"""Names of jobs and their modules: `KIND/job.py` of each measurement, and `*_job.py` for parts of it.

The folders are read when this module is imported, before any code of the user runs.
"""

from pathlib import Path

from . import FOLDER

# Module of each job, relative to this package.
MODULES = {
    **{path.parent.name: f".{path.parent.name}.job" for path in sorted(Path(FOLDER).glob("*/job.py"))},
    **{
        path.stem.removesuffix("_job"): f".{path.parent.name}.{path.stem}"
        for path in sorted(Path(FOLDER).glob("*/*_job.py"))
    },
}
