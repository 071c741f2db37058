"""Requests that are not from the user's own browser, and texts that try to be more than text."""

from __future__ import annotations

import pytest
from web_samples import BASE, PORT, pages_of

from esper_agents.web.guard import AllowedHosts

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pages(judged_project):
    async with pages_of(judged_project.root, allows_answers=True) as found:
        yield found


@pytest.fixture
async def stranger(judged_project):
    async with pages_of(judged_project.root, is_open=False) as found:
        yield found


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        f"127.0.0.1:{PORT + 1}",
        f"localhost.evil.example:{PORT}",
        f"127.0.0.1.nip.io:{PORT}",
        f"127.0.0.1:{PORT}@evil.example",
        f"127.1:{PORT}",
        f"0.0.0.0:{PORT}",
        f"[::ffff:127.0.0.1]:{PORT}",
        ":",
        "",
    ],
)
async def test_a_request_for_another_host_is_refused_even_with_the_cookie(pages, host):
    answer = await pages.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "toy" not in answer.text


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_the_names_of_this_machine_are_accepted(host):
    hosts = AllowedHosts(frozenset(("127.0.0.1", "localhost", "::1")), PORT)
    assert hosts.accepts(host)


def test_a_server_on_all_interfaces_accepts_addresses_and_no_foreign_names():
    hosts = AllowedHosts(frozenset(("127.0.0.1",)), PORT, accepts_addresses=True)
    assert hosts.accepts(f"192.168.1.7:{PORT}")
    assert not hosts.accepts(f"evil.example:{PORT}")


async def test_two_host_headers_are_refused(pages):
    answer = await pages.client.request("GET", "/", headers=[("host", f"127.0.0.1:{PORT}"), ("host", "evil.example")])
    assert answer.status_code == 421


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        f"http://evil.example:{PORT}",
        f"https://127.0.0.1:{PORT}",
        f"http://127.0.0.1:{PORT + 1}",
        f"http://localhost:{PORT}",
        f"{BASE}.evil.example",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_of_another_origin_is_refused(pages, origin, method):
    answer = await pages.client.request(method, "/", headers={"origin": origin})
    assert answer.status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
async def test_a_request_that_another_site_caused_is_refused(pages, site):
    assert (await pages.get("/", headers={"sec-fetch-site": site})).status_code == 403
    assert (await pages.get("/static/archive.css", headers={"sec-fetch-site": site})).status_code == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
async def test_other_methods_are_refused(pages, method):
    assert (await pages.client.request(method, "/", headers={"origin": BASE})).status_code == 405


async def test_nothing_is_written_without_allow_answers(judged_project):
    async with pages_of(judged_project.root) as pages:
        assert (await pages.answer("qst_0123456789ab", "approve")).status_code == 405


async def test_pages_and_files_need_the_cookie(stranger):
    for path in ("/", "/log", "/static/archive.css", "/certificates/latest", "/nothing"):
        answer = await stranger.get(path)
        assert answer.status_code == 403
        assert "start URL" in answer.text


@pytest.mark.parametrize(
    "cookie",
    [
        f"esper-{PORT}=",
        f"esper-{PORT}=guess",
        f"esper-{PORT + 1}={{cookie}}",
        f"ESPER-{PORT}={{cookie}}",
        f"esper-{PORT}={{cookie}}x",
        f"esper-{PORT}={{half}}",
        f'esper-{PORT}="{{half}}',
        f"a=b; =; ;;esper-{PORT}",
        "\x00\x01; ==",
    ],
)
async def test_another_cookie_is_not_accepted(stranger, cookie):
    value = stranger.site.access._cookie
    text = cookie.format(cookie=value, half=value[:20])
    assert (await stranger.get("/", headers={"cookie": text.encode("latin-1")})).status_code == 403


async def test_the_cookie_of_the_browser_is_accepted_next_to_those_of_others(stranger):
    value = stranger.site.access._cookie
    for before in ("a=1", f"esper-{PORT}=old", 'prefs={"a": [1, 2], "b": "x"}', "=", "\xe4"):
        cookies = f"{before}; esper-{PORT}={value}; b=2".encode("latin-1")
        assert (await stranger.get("/", headers={"cookie": cookies})).status_code == 200


@pytest.mark.parametrize("token", ["", "guess", "x" * 5000, "\u00e4\u2028", "{half}", "{token}x", " {token}"])
async def test_a_wrong_start_token_opens_nothing(stranger, token):
    known = stranger.site.access.start_token
    given = token.format(token=known, half=known[:20])
    answer = await stranger.client.get("/start", params={"token": given})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert known not in answer.text


async def test_the_start_url_works_once_leaves_the_address_and_is_replaced(stranger):
    first = stranger.site.access.start_token
    answer = await stranger.open()
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert first not in cookie
    stranger.client.cookies.clear()
    assert (await stranger.client.get("/start", params={"token": first})).status_code == 403
    assert stranger.announced == [stranger.site.access.start_token]
    assert stranger.announced != [first]


async def test_a_request_for_the_headers_alone_does_not_use_the_start_url_up(stranger):
    token = stranger.site.access.start_token
    assert (await stranger.client.head("/start", params={"token": token})).status_code == 403
    assert (await stranger.open()).status_code == 303


async def test_two_tokens_in_one_address_are_refused(stranger):
    token = stranger.site.access.start_token
    assert (await stranger.get(f"/start?token={token}&token=x")).status_code == 403


async def test_guessing_start_tokens_opens_nothing_and_does_not_lock_the_user_out(stranger):
    for number in range(200):
        answer = await stranger.get(f"/start?token=guess{number}")
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert len(stranger.site.access.start_token) >= 43
    assert (await stranger.open()).status_code == 303


async def test_every_answer_has_the_headers_that_keep_others_out(pages):
    for path in ("/", "/nothing", "/static/archive.js", "/certificates/latest/record"):
        headers = (await pages.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
    refused = await pages.get("/", headers={"host": "evil.example"})
    assert "default-src 'none'" in refused.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/..%2fpyproject.toml",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static/base.html.j2",
        "/static/..\\..\\etc\\passwd",
        "/static//etc/passwd",
        "/certificates/..%2f..%2fetc%2fpasswd/record",
        "/certificates/%00",
        "/file?path=../../../../etc/passwd",
        "/file?path=/etc/passwd",
        "/file?path=%00",
        "/file?path=train.py%00",
        "/agents/..%2f..%2fsecret",
        "/trends/'%20OR%201=1--",
        "/sessions/%25",
        "/approvals/nothing",
    ],
)
async def test_a_path_that_leads_elsewhere_is_not_found(pages, path):
    answer = await pages.get(path)
    assert answer.status_code in {400, 404, 405}
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "query",
    [
        "before=%27%20OR%201%3D1--",
        "status=%27%3BDROP%20TABLE%20certificate",
        "since=yesterday",
        "until=99999-01-01",
        "q=%22%22%22",
        "file=" + "a" * 600,
        "agent=%3Cscript%3E",
    ],
)
async def test_filters_that_are_none_are_an_error_with_a_remedy_or_match_nothing(pages, query):
    answer = await pages.get(f"/?{query}")
    assert answer.status_code in {200, 400, 404}
    assert "Fix:" in answer.text or "No certificate matches" in answer.text
    assert "<script>" not in answer.text


async def test_line_breaks_in_an_address_make_no_headers(pages):
    answer = await pages.get("/?q=x%0d%0aSet-Cookie:%20a=b&status=GO%0d%0aX-Evil:%201")
    assert "x-evil" not in answer.headers
    assert "set-cookie" not in answer.headers


async def test_a_number_that_is_none_is_refused(pages):
    for given in ("-1", "1e9", "\u0663", "9" * 40, "abc"):
        assert (await pages.client.get("/log", params={"before": given})).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"origin": "null"}, 403),
        ({"origin": BASE, "content-length": "99999999"}, 413),
        ({"origin": BASE, "content-length": "-1"}, 413),
        ({"origin": BASE, "sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_an_answer_without_the_marks_of_our_own_form_is_refused(pages, headers, status):
    assert (await pages.answer("qst_0123456789ab", "approve", headers=headers)).status_code == status


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_in_chunks_is_refused(pages, method):
    answer = await pages.client.request(method, "/", headers={"origin": BASE, "transfer-encoding": "chunked"})
    assert answer.status_code == 400


@pytest.mark.parametrize("token", ["", "guess", "\u00e4"])
async def test_an_answer_with_a_wrong_form_token_is_refused(pages, token):
    answer = await pages.answer("qst_0123456789ab", "approve", token=token)
    assert answer.status_code == 400
    assert "load the page again" in answer.text


async def test_the_start_token_is_no_form_token_and_the_cookie_neither(pages):
    for token in (pages.site.access.start_token, pages.site.access._cookie):
        assert (await pages.answer("qst_0123456789ab", "approve", token=token)).status_code == 400


async def test_a_web_socket_is_closed(pages):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/", "headers": []}
    await pages.guard(scope, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_no_address_of_a_page_has_a_token(pages):
    for path in ("/", "/approvals", "/log"):
        text = (await pages.get(path)).text
        assert pages.site.access.start_token not in text
        assert pages.site.access._cookie not in text
