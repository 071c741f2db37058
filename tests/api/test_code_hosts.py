"""Comments on pull requests, tried against a server that imitates GitHub and GitLab."""

from __future__ import annotations

import pytest
from imitated_host import ImitatedHost

from esper_agents.api import COMMENT_MARKER, CodeHost, post_comment, pull_request_of
from esper_agents.errors import CodeHostError, UsageError

BODY = f"{COMMENT_MARKER}\nreview"


@pytest.fixture
def host():
    with ImitatedHost() as running:
        yield running


def on_github(host, **more):
    known = {
        "GITHUB_API_URL": host.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": "t",
        "GITHUB_REF": "refs/pull/7/merge",
    }
    return pull_request_of(CodeHost.GITHUB, known | more)


def on_gitlab(host):
    known = {"CI_API_V4_URL": host.url, "CI_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": "t"}
    return pull_request_of(CodeHost.GITLAB, known)


def post(target, body=BODY, **more):
    return post_comment(target, body, sleep=lambda _: None, **more)


@pytest.mark.parametrize("on", [on_github, on_gitlab])
def test_the_first_run_creates_the_comment_and_the_next_one_updates_it(host, on):
    host.user_status = 200
    assert post(on(host)).is_new
    again = post(on(host), BODY + " again")
    assert (again.is_new, again.url) == (False, "https://host/c/1")
    assert [comment["body"] for comment in host.comments] == [BODY + " again"]


def test_the_token_of_a_job_has_no_user_and_its_comment_is_found_by_the_bot_of_the_host(host):
    post(on_github(host))
    assert not post(on_github(host)).is_new
    assert host.requests[0][2]["Authorization"] == "Bearer t"


def test_a_comment_of_another_author_with_the_marker_is_never_updated(host):
    host.comment(BODY, "mallory")
    assert post(on_github(host)).is_new
    assert [comment["body"] for comment in host.comments] == [BODY, BODY]
    assert not post(on_github(host), "changed", author="mallory").is_new


def test_a_comment_that_only_quotes_the_marker_is_not_the_one(host):
    host.comment(f"> {BODY}", "github-actions[bot]")
    assert post(on_github(host)).is_new


def test_the_comment_is_found_behind_pages_of_others(host):
    for number in range(230):
        host.comment(f"comment {number}", "someone")
    host.comment(BODY, "github-actions[bot]")
    assert not post(on_github(host)).is_new


def test_a_missing_page_of_comments_never_leads_to_a_second_comment(host):
    for number in range(230):
        host.comment(f"comment {number}", "someone")
    host.comment(BODY, "github-actions[bot]")
    host.answer_once("GET", "/repos/o/r/issues/7/comments?per_page=100&page=2", 404)
    with pytest.raises(CodeHostError, match="GitHub answered 404 to GET /repos/o/r/issues/7/comments: as asked"):
        post(on_github(host))
    assert len(host.comments) == 231


@pytest.mark.parametrize(
    ("status", "message"), [(403, "Resource not accessible by integration"), (422, "Validation Failed"), (401, "no")]
)
def test_a_refusal_names_the_status_the_reason_and_a_remedy(host, status, message):
    host.answer_once("POST", "/repos/o/r/issues/7/comments", status, {"message": message})
    with pytest.raises(CodeHostError) as caught:
        post(on_github(host))
    assert f"answered {status} to POST /repos/o/r/issues/7/comments: {message}" in caught.value.problem
    assert "pull-requests: write" in caught.value.remedy


def test_a_busy_host_is_asked_again_and_a_comment_that_it_made_nevertheless_is_updated(host):
    host.answer_once("POST", "/repos/o/r/issues/7/comments", 502)
    assert post(on_github(host)).is_new
    assert len(host.comments) == 1
    made = host.comment(BODY, "nobody")
    host.comments.remove(made)
    host.answer_once("GET", "/repos/o/r/issues/7/comments", 502)
    assert not post(on_github(host)).is_new
    for _ in range(3):
        host.answer_once("GET", "/repos/o/r/issues/7/comments", 502, b"<html>Bad Gateway")
    with pytest.raises(CodeHostError, match="answered 502"):
        post(on_github(host))


@pytest.mark.parametrize("content", [b"<html>", b'{"no": "list"}', b"[" * 100_000])
def test_an_answer_that_is_no_list_of_comments_is_an_error(host, content):
    host.answer_once("GET", "/repos/o/r/issues/7/comments", 200, content)
    with pytest.raises(CodeHostError):
        post(on_github(host))


def test_comments_of_any_form_are_passed_over(host):
    strange = [
        None,
        3,
        {"id": "x"},
        {"id": 4, "user": None, "body": BODY},
        {"id": 5, "body": None, "user": {"login": 1}},
    ]
    host.answer_once("GET", "/repos/o/r/issues/7/comments", 200, strange)
    assert post(on_github(host)).is_new


def test_a_redirect_is_refused_so_that_no_other_host_gets_the_token(host):
    with ImitatedHost() as other:
        host.answers["GET", "/user"] = [(302, {"message": "moved"}, {"Location": f"{other.url}/user"})]
        with pytest.raises(CodeHostError, match="answered 302"):
            post(on_github(host))
        assert other.requests == []


def test_a_host_that_is_away_is_one_error(host):
    target = on_github(host, GITHUB_API_URL="http://127.0.0.1:9")
    with pytest.raises(CodeHostError, match="GitHub is unreachable"):
        post(target)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"GITHUB_REPOSITORY": "o/r/../x"}, "GITHUB_REPOSITORY is"),
        ({"GITHUB_REPOSITORY": ""}, "GITHUB_REPOSITORY is not set"),
        ({"GITHUB_REF": "refs/heads/main"}, "not for a pull request"),
        ({"GITHUB_API_URL": "http://example.org"}, "not an HTTPS URL"),
        ({"GITHUB_API_URL": "https://user:pass@example.org"}, "not an HTTPS URL"),
        ({"GITHUB_API_URL": "file:///etc/passwd"}, "not an HTTPS URL"),
    ],
)
def test_an_environment_of_no_pull_request_is_an_error_of_usage(host, variables, problem):
    with pytest.raises(UsageError) as caught:
        on_github(host, **variables)
    assert problem in caught.value.problem


def test_the_number_comes_from_the_event_before_the_reference(host, tmp_path):
    (tmp_path / "event.json").write_text('{"pull_request": {"number": 41}}')
    assert on_github(host, GITHUB_EVENT_PATH=str(tmp_path / "event.json")).number == 41
    (tmp_path / "event.json").write_text('{"pull_request": {"number": "41/../../x"}}')
    assert on_github(host, GITHUB_EVENT_PATH=str(tmp_path / "event.json")).number == 7


def test_a_job_without_a_token_is_told_how_to_give_one_and_the_token_is_not_shown(host):
    with pytest.raises(CodeHostError, match="GITHUB_TOKEN is not set"):
        on_github(host, GITHUB_TOKEN="")
    assert "xyzzy" not in repr(on_github(host, GITHUB_TOKEN="xyzzy"))  # noqa: S106 - a made-up one
