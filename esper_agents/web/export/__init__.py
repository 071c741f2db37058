"""Static export of the pages: routes and templates of the server, written to files.

`page_export.py` asks the application for every page that a page links to; `page_files.py` names the files and turns
addresses into relative links; `target_folder.py` writes them; `search_records.py` makes the index of the list.
"""

from __future__ import annotations

from esper_agents.web.export.page_export import ExportedPages, export_pages

__all__ = ["ExportedPages", "export_pages"]
