"""Local web pages over the archive of one project, read-only unless answers are allowed.

`server.py` listens and serves; `guard.py` refuses requests that are not from the user's own browser; `access.py` has
the tokens; `app.py` has the routes, and `pages/` one module for each subject. The templates and the style sheet are in
the data folder `web`. `export/` writes the pages to files.

The package uses the public API only.
"""

from __future__ import annotations

from esper_agents.web.export import ExportedPages, export_pages
from esper_agents.web.server import ServerAddress, ServeSettings, serve

__all__ = ["ExportedPages", "ServeSettings", "ServerAddress", "export_pages", "serve"]
