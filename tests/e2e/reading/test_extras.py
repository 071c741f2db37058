"""The command line with the packages of the base only."""

from __future__ import annotations

import pytest
from partial_installs import closure, esper, site_with

from esper_agents.extras import Extra

WITHOUT = {
    Extra.AGENTS: (
        ("submit", "review this training code", "train.py"),
        ("submit", "--dry-run", "review this training code", "train.py"),
        ("resume", "ses_1"),
        ("worker", "--once"),
        ("sessions", "replay", "latest"),
        ("certificates", "reproduce", "latest"),
    ),
    Extra.FIX: (("review", "--fix", "train.py"),),
    Extra.TRACE: (("trace", "latest"),),
    Extra.WEB: (("serve",), ("serve", "--allow-answers"), ("archive", "export", "--html", "public")),
}
WITH = (
    (("--help",), 0),
    (("doctor",), 0),
    (("review", "train.py"), 3),
    (("gate", "train.py"), 3),
    (("why", "latest"), 0),
    (("agents", "list"), 0),
    (("agents", "route", "review this"), 0),
    (("certificates", "list"), 0),
    (("certificates", "show", "latest"), 0),
    (("certificates", "verify", "latest"), 0),
    (("certificates", "search", "training"), 0),
    (("certificates", "export", "-o", "exported.tar"), 0),
    (("certificates", "revoke", "latest", "--reason", "test"), 0),
    (("sessions", "show", "latest"), 0),
    (("memory", "list"), 0),
    (("db", "status"), 0),
    (("keys", "show"), 0),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return a folder with the packages of the base."""
    return site_with(tmp_path_factory.mktemp("base") / "site", closure())


@pytest.mark.slow
def test_the_base_alone_reviews_verifies_gates_and_reads_the_archive(base, desk) -> None:
    for words, code in WITH:
        done = esper(base, *words, home=desk.home, cwd=desk.root)
        assert done.code == code, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_command_that_needs_an_extra_says_which_and_writes_nothing(base, desk) -> None:
    before = esper(base, "sessions", "list", home=desk.home, cwd=desk.root).stdout
    for extra, commands in WITHOUT.items():
        for words in commands:
            problem, remedy = esper(base, *words, home=desk.home, cwd=desk.root).problem(2)
            assert problem.endswith(f"needs the extra '{extra}', which is not installed"), words
            assert remedy == f"pip install 'esper-agents[{extra}]'", words
    assert esper(base, "sessions", "list", home=desk.home, cwd=desk.root).stdout == before


def test_the_doctor_lists_the_extras_with_the_commands_that_install_them(base, tmp_path) -> None:
    done = esper(base, "doctor", home=tmp_path / "home", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "extras: none" in done.stdout
    for extra in Extra:
        assert extra.install_command in done.stdout
    assert "nothing is wrong" in done.stdout


def test_windows_is_refused_in_two_lines(base, tmp_path) -> None:
    done = esper(base, "doctor", home=tmp_path / "home", cwd=tmp_path, platform="win32")
    problem, remedy = done.problem(2)
    assert problem == "Windows is not supported"
    assert remedy.startswith("use WSL2")
