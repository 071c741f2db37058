"""A certificate of many files lists each once, under one digest that sha256sum checks, and loses none of them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from hashlib import sha256

import pytest
from certificate_samples import certificate, evidence, source
from jsonschema import Draft202012Validator

from esper_agents.certificates.canonical_json import canonical_bytes
from esper_agents.certificates.file_manifest import MOST_LISTED
from esper_agents.certificates.statement import normal, parse, statement
from esper_agents.errors import IntegrityError
from esper_agents.paths import data_folder

FILES = tuple(
    sorted((source(f"src/m{number:03}.py", f"x = {number}\n") for number in range(640)), key=lambda f: f.path)
)


def of(files, *calls):
    made = tuple(evidence(number, examined=read) for number, read in enumerate(calls or (files,), 1))
    return replace(certificate(findings=()), examined=files, evidence=made)


def changed(data, change):
    value = json.loads(data)
    change(value["predicate"])
    return canonical_bytes(value)


def test_every_file_and_what_each_call_read_is_parsed_again():
    made = of(FILES, FILES, FILES[3:5] + FILES[9:10], ())
    found = parse(statement(made))
    bare = normal(made)
    assert found.examined == tuple(replace(each, git_blob="") for each in bare.examined)
    assert [len(call.examined) for call in found.evidence] == [640, 3, 0]
    assert found.evidence[1].examined == tuple(replace(each, git_blob="") for each in made.evidence[1].examined)
    assert statement(found) == statement(made)


def test_640_files_that_eight_calls_read_take_less_than_100_kb():
    assert len(statement(of(FILES, *[FILES] * 8))) < 100_000


def test_fifty_files_are_listed_one_by_one_as_before():
    value = json.loads(statement(of(FILES[:MOST_LISTED])))
    assert len(value["predicate"]["examined"]) == 50
    assert "files" not in value["predicate"]
    assert [each["name"] for each in value["subject"]][:50] == [file.path for file in FILES[:50]]
    assert "files" in json.loads(statement(of(FILES[: MOST_LISTED + 1])))["predicate"]


def test_a_stranger_checks_the_list_with_sha256sum(tmp_path):
    value = json.loads(statement(of(FILES)))
    manifest = value["predicate"]["files"]
    assert value["subject"][0] == {"name": "files.sha256", "digest": {"sha256": manifest["sha256"]}}
    assert sha256(manifest["list"].encode()).hexdigest() == manifest["sha256"]
    (tmp_path / "src").mkdir()
    for number in range(640):
        (tmp_path / f"src/m{number:03}.py").write_text(f"x = {number}\n")
    (tmp_path / "files.sha256").write_text(manifest["list"])
    check = ["sha256sum", "--check", "--quiet", "files.sha256"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "src/m007.py").write_text("x = 8\n")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1


def test_the_schema_describes_a_manifest():
    schema = json.loads((data_folder("certificates") / "certificate.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(json.loads(statement(of(FILES, FILES, FILES[:1]))))


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["files"].update(list=said["files"]["list"].replace("m001", "m000x")),
        lambda said: said["files"].update(sha256="0" * 64),
        lambda said: said["files"].update(count=639),
        lambda said: said["files"].update(lines=said["files"]["lines"] + " 1"),
        lambda said: said["files"].update(bytes=said["files"]["bytes"].replace("6", "x", 1)),
        lambda said: said["files"].update(more=1),
        lambda said: said.update(files=[]),
        lambda said: said.update(examined=[{"path": "a"}]),
        lambda said: said["evidence"][0].update(files="1-641"),
        lambda said: said["evidence"][0].update(files="5-4"),
        lambda said: said["evidence"][0].update(files="2,1"),
        lambda said: said["evidence"][0].update(files=""),
        lambda said: said["evidence"][0].update(files="1-²"),
        lambda said: said["evidence"][0].update(examined=[{"path": "a"}]),
    ],
)
def test_a_changed_manifest_is_refused(change):
    with pytest.raises(IntegrityError):
        parse(changed(statement(of(FILES)), change))


def test_a_manifest_with_another_order_is_refused_although_its_digest_matches():
    def turn(said):
        lines = said["files"]["list"].splitlines(keepends=True)
        said["files"]["list"] = "".join((lines[1], lines[0], *lines[2:]))
        said["files"]["sha256"] = sha256(said["files"]["list"].encode()).hexdigest()

    with pytest.raises(IntegrityError, match="sorted list"):
        parse(changed(statement(of(FILES)), turn))


def test_names_that_sha256sum_writes_in_another_form_are_listed_one_by_one():
    odd = source("src/a\\b.py", "x\n")
    data = statement(of(tuple(sorted((*FILES, odd), key=lambda f: f.path))))
    assert "files" not in json.loads(data)["predicate"]
    assert len(parse(data).examined) == 641
