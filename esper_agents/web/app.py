"""Routes of the pages, and pages for errors."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from esper_agents.api import html_environment
from esper_agents.errors import BusyError, EsperError, NotFoundError, StorageError, UsageError
from esper_agents.web.pages import agents, answers, certificate, certificates, files, log, memory, sessions, trends
from esper_agents.web.rendering import page
from esper_agents.web.site import ArchiveSite, site_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from esper_agents.api import OpenProject

    Page = Callable[[Request, ArchiveSite, OpenProject], Awaitable[Response]]

_PAGES: dict[str, Any] = {
    "/": certificates.listing,
    "/certificates/{certificate}": certificate.show,
    "/certificates/{certificate}/document": certificate.document,
    "/certificates/{certificate}/record": certificate.record,
    "/files": files.listing,
    "/file": files.show,
    "/sessions": sessions.listing,
    "/sessions/{session}": sessions.show,
    "/sessions/{session}/events": sessions.events,
    "/approvals": answers.listing,
    "/agents": agents.listing,
    "/agents/{agent:path}": agents.show,
    "/memory": memory.listing,
    "/trends": trends.listing,
    "/trends/{metric:path}": trends.show,
    "/log": log.show,
}
_STATIC = {
    "certificate.css": ("certificates", "text/css"),
    "archive.css": ("web", "text/css"),
    "archive.js": ("web", "text/javascript"),
    "exported-list.js": ("web", "text/javascript"),
    "icon.svg": ("web", "image/svg+xml"),
}
_STATUSES = ((NotFoundError, 404), (BusyError, 409), (UsageError, 400), (StorageError, 503))


def build_app(site: ArchiveSite) -> Starlette:
    """Return the application with all pages of a site."""
    routes = [Route(path, _page(function)) for path, function in _PAGES.items()]
    routes.append(Route("/static/{name}", _static))
    if site.allows_answers:
        routes.append(Route("/approvals/{question}", _page(answers.answer), methods=["POST"]))
    handlers: dict[Any, Any] = {HTTPException: _http_error, Exception: _unexpected}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.site = site
    return app


def _page(function: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that opens the project and shows errors as pages."""

    async def endpoint(request: Request) -> Response:
        site = site_of(request)
        try:
            return await function(request, site, await site.served.current())
        except EsperError as error:
            status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
            return error_page(status, error.problem, error.remedy)

    return endpoint


def error_page(status: int, problem: str, remedy: str) -> HTMLResponse:
    """Return a page with a problem and its remedy; it needs neither the project nor its database."""
    return page("error.html.j2", status_code=status, status=status, problem=problem, remedy=remedy)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return error_page(404, "there is no such page", "use the navigation")
    folder, media_type = _STATIC[name]
    return Response(_file(folder, name), media_type=media_type)


@cache
def _file(folder: str, name: str) -> str:
    environment = html_environment(folder)
    assert environment.loader is not None  # noqa: S101 - every strict environment has one
    return environment.loader.get_source(environment, name)[0]


async def _http_error(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return error_page(status, "there is no such page", "use the navigation")


async def _unexpected(request: Request, error: Exception) -> Response:
    # Starlette raises it again afterwards, for the log of the server, which is off.
    sys.stderr.write(f"esper: internal error on {request.url.path}: {type(error).__name__}\n")
    return error_page(500, f"internal error ({type(error).__name__})", "report it with the output of `esper doctor`")
