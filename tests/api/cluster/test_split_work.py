"""Reviews and verifications in parts, on two nodes of this machine; what one process gives is what is expected."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from places import ESPER, FAULTY, SOUND, Place, environment, git

pytest.importorskip("ray", reason="the extra `ray` is not installed: work in parts was NOT tested")
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
from ray_nodes import ray_nodes

from esper_agents.api.cluster.split_work import VerificationPart, verify_part
from esper_agents.api.cluster.worker_actor import describe_process
from esper_agents.errors import ClusterError
from esper_agents.review.parts import PART_BYTES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PATIENCE_S = 300
PROGRAM = Path(__file__).with_name("parts_on_ray.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("split")


@pytest.fixture(scope="module")
def place(folder):
    """Return a project of more than one part, with a certificate."""
    root = folder / "project"
    for name, source in {"train.py": FAULTY, "sound/steps.py": SOUND, "broken.py": "def f(:\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source)
    (root / "pyproject.toml").write_text('[project]\nname = "toy"\nversion = "1"\nrequires-python = ">=3.9"\n')
    # One constant is parsed fast.
    large = f"text = '{'x' * (PART_BYTES // 24)}'\n"
    for number in range(4):
        part = root / f"plain_{number}"
        part.mkdir()
        for file in range(8):
            (part / f"values_{file}.py").write_text(large)
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    made = Place(root, folder / "home")
    made.esper("submit", "--agent", "pytorch-code-reviewer", "review this training code", "train.py", code=3)
    return made


@pytest.fixture(scope="module")
def cluster(place):
    with ray_nodes(environment(place.home)) as nodes:
        nodes.start(cpus=1)
        nodes.start(cpus=1)
        yield nodes


def here_and_there(place, nodes, *words, code):
    on_ray = ("--on", "ray", "--cluster", nodes.address)
    here = place.esper(*words, code=code, is_cold=True)
    there = place.esper(*words, *on_ray, code=code, env=nodes.env, is_cold=True)
    return here, there


@pytest.mark.parametrize("style", ["json", "text", "sarif"])
def test_a_review_in_parts_prints_what_one_process_prints(place, cluster, style):
    words = ("review", ".", "--no-cache", "--format", style)
    here, there = here_and_there(place, cluster, *words, code=3)
    assert "train.py" in here.stdout
    assert there.stdout == here.stdout
    if style == "json":
        assert len(here.json["parts"]) > 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_verification_in_parts_prints_what_one_process_prints(place, cluster, options):
    here, there = here_and_there(place, cluster, "certificates", "verify", "--all", *options, code=0)
    assert "crt_" in here.stdout
    assert there.stdout == here.stdout


def test_a_changed_certificate_is_found_in_parts_too(place, cluster):
    (page,) = place.root.rglob("certificates/*.md")
    text = page.read_text()
    page.write_text(text.replace("REQUIRES_REMEDIATION", "APPROVED"))
    try:
        here, there = here_and_there(place, cluster, "certificates", "verify", "--all", code=7)
    finally:
        page.write_text(text)
    assert there.stdout == here.stdout


def test_a_node_with_another_database_is_refused(place, cluster, folder):
    other = Place(place.root, folder / "other")
    other.esper("submit", "--agent", "pytorch-code-reviewer", "review this training code", "train.py", code=3)
    words = ("certificates", "verify", "--all", "--on", "ray", "--cluster", cluster.address)
    env = {**cluster.env, "ESPER_HOME": str(other.home)}
    problem, fix = other.esper(*words, env=env, is_cold=True).problem(1)
    assert "uses the database" in problem
    assert "ESPER_HOME" in fix


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"view": "0" * 64}, "its files of the project, its trusted keys or its pin of the log differ"),
        ({"root": "/nowhere"}, "no such file or folder"),
        ({"host": {"version": "0.0.1"}}, "not 0.0.1"),
    ],
)
def test_a_node_that_would_see_something_else_is_refused(place, monkeypatch, change, problem):
    monkeypatch.setenv("ESPER_HOME", str(place.home))
    host = describe_process(place.root)
    change = {**change, "host": replace(host, **change.get("host", {}))}
    part = replace(VerificationPart(str(place.root), (), (), host, "", is_sqlite=True), **change)
    with pytest.raises(ClusterError) as caught:
        verify_part(part)
    assert problem in caught.value.problem
    assert "leave out --on ray" in caught.value.remedy


def parts(nodes, work, folder, *names):
    command = [sys.executable, str(PROGRAM), nodes.address, work, str(folder), *names]
    return subprocess.Popen(command, env=nodes.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err[-2000:]
    return json.loads(out)


def test_a_part_whose_process_dies_is_done_again_and_the_order_stays(cluster, tmp_path):
    names = ["first", "once", "third", "fourth"]
    assert results(parts(cluster, "mortal", tmp_path, *names)) == names
    times = [(tmp_path / name).read_text().count("ran") for name in names]
    assert times == [1, 2, 1, 1]


def test_a_part_that_kills_every_process_is_an_error(cluster, tmp_path):
    kind, problem, remedy = results(parts(cluster, "mortal", tmp_path, "always"))
    assert (kind, "lost 3 times" in problem, "ray logs" in remedy) == ("ClusterError", True, True)
    assert (tmp_path / "always").read_text().count("ran") == 3


def test_an_error_of_a_part_is_the_error_of_the_work(cluster, tmp_path):
    found = results(parts(cluster, "refused", tmp_path, "it"))
    assert found == ["UsageError", "it is refused", "name another"]


def test_the_parts_of_a_killed_node_are_done_again(cluster, tmp_path):
    third = cluster.start(cpus=2)
    names = [f"part {number}" for number in range(8)]
    running = parts(cluster, "slow", tmp_path, *names)
    deadline = time.monotonic() + PATIENCE_S
    while len(list(tmp_path.iterdir())) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cluster.kill(third)
    assert results(running) == names
    assert len(list(tmp_path.iterdir())) > len(names)


@pytest.mark.parametrize(
    "words",
    [
        ("review", ".", "--cluster", "h:1"),
        ("review", "--diff", "HEAD", "--on", "ray"),
        ("review", ".", "--fix", "--on", "ray"),
        ("certificates", "verify", "latest", "--on", "ray"),
        ("certificates", "verify", "--all", "--allow-open-cluster"),
    ],
)
def test_what_is_not_done_in_parts_is_refused(place, words):
    place.esper(*words).problem(2)


def test_without_a_cluster_a_review_is_one_error(place):
    command = [str(ESPER), "review", ".", "--on", "ray", "--cluster", "127.0.0.1:9"]
    env = environment(place.home)
    done = subprocess.run(
        command, cwd=place.root, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 2)
