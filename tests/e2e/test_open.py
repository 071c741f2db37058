from __future__ import annotations

import stat
from pathlib import Path

from esper_agents.certificates.views.html import render_html

# Stands in for the person's browser: it notes what it was asked to show, and with what in its environment.
BROWSER = """#!/bin/sh
printf '%s\\n' "$@" > "{told}"
env > "{told}.env"
"""


def without_display(known, *arguments, code=0, **more):
    env = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""} | more
    return known.esper(*arguments, env=env, code=code)


def test_the_page_of_the_newest_certificate_stands_beside_its_view(known):
    page = Path(known.esper("certificates", "path").stdout.strip()).with_suffix(".html")
    assert page.is_file()
    assert without_display(known, "open", "--print-path").stdout.strip() == str(page)
    ((statement,),) = known.rows("SELECT statement FROM certificate")
    assert page.read_text() == render_html(statement)


def test_a_page_that_was_deleted_or_altered_is_written_anew(known):
    page = Path(without_display(known, "open", "--print-path").stdout.strip())
    whole = page.read_bytes()
    page.write_bytes(whole.replace(b"REQUIRES_REMEDIATION", b"APPROVED"))
    without_display(known, "open", "--print-path")
    assert page.read_bytes() == whole
    page.unlink()
    ((name,),) = known.rows("SELECT id FROM certificate")
    without_display(known, "open", name[-12:], "--print-path")
    assert page.read_bytes() == whole


def test_the_browser_is_given_a_file_and_nothing_of_the_key(known, tmp_path):
    told = tmp_path / "told"
    script = tmp_path / "browser"
    script.write_text(BROWSER.format(told=told))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    done = without_display(known, "open", "--json", BROWSER=script, ESPER_SIGNING_KEY_FILE=tmp_path / "key.pem")
    assert done.json["is_open"] is True
    assert told.read_text() == Path(done.json["page"]).as_uri() + "\n"
    assert "ESPER_SIGNING_KEY_FILE" not in Path(f"{told}.env").read_text()


def test_without_a_display_the_path_is_printed(known):
    done = without_display(known, "open", "--json")
    assert done.json["is_open"] is False
    assert without_display(known, "open").stdout.strip() == done.json["page"]


def test_a_certificate_that_there_is_not_is_no_page(known):
    done = without_display(known, "open", "crt_00000000000000000000000000000000", code=2)
    _, remedy = done.problem(2)
    assert "esper certificates list" in remedy
