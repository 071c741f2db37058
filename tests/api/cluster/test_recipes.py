"""The recipes in `examples/cluster`, as far as their own tools can check them without the systems that they are for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

RECIPES = Path(__file__).parents[3] / "examples" / "cluster"
KUBERNETES = "1.31"
RAY = re.search(r"^ray==(\S+)", (RECIPES.parents[1] / "constraints.txt").read_text(), re.MULTILINE)[1]


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.glob("*.service")))
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze: units were NOT checked")
def test_a_unit_is_valid(name, tmp_path):
    unit = Path(shutil.copy(RECIPES / name, tmp_path))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if name in line] == []


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.glob("*.yaml")))
def test_a_manifest_is_valid(name):
    validate = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate: manifests were NOT checked")
    manifest = yaml.safe_load((RECIPES / name).read_text())
    for checked in [manifest] if manifest["kind"] != "RayCluster" else pods_of(manifest):
        validate.validate(checked, KUBERNETES, strict=True)


def pods_of(manifest):
    """Return the pods that KubeRay makes of a cluster; its own members are not in the schema of Kubernetes."""
    spec = manifest["spec"]
    assert (manifest["apiVersion"], spec["rayVersion"]) == ("ray.io/v1", RAY)
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    assert all(isinstance(text, str) for group in groups for text in group["rayStartParams"].values())
    metadata = {"name": manifest["metadata"]["name"]}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **group["template"]} for group in groups]


def test_a_manifest_with_an_unknown_member_is_found():
    validate = pytest.importorskip("kubernetes_validate", reason="no kubernetes-validate: manifests were NOT checked")
    manifest = yaml.safe_load((RECIPES / "ray-cluster.yaml").read_text())
    manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["enviroment"] = []
    head, _ = pods_of(manifest)
    with pytest.raises(validate.ValidationError):
        validate.validate(head, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.glob("*.sh")))
def test_a_script_can_be_parsed(name):
    subprocess.run(["bash", "-n", str(RECIPES / name)], check=True)


@pytest.mark.parametrize("path", sorted(RECIPES.iterdir()), ids=lambda path: path.name)
def test_a_recipe_says_that_it_was_not_run(path):
    assert "Not run." in "".join(path.read_text().splitlines()[:3])
