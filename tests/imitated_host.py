"""A local server that imitates the comments of GitHub and GitLab, with their limits and errors."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

LONGEST_COMMENT = 65_536


class ImitatedHost(ThreadingHTTPServer):
    """Comments of one pull request in memory, and the answers to give in place of the usual ones."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments = []
        self.user = "github-actions[bot]"
        self.user_status = 403
        self.answers = {}
        self.requests = []

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def comment(self, body, author):
        self.comments.append({"id": len(self.comments) + 1, "body": body, "user": {"login": author}})
        self.comments[-1] |= {"author": {"username": author}, "html_url": f"https://host/c/{len(self.comments)}"}
        return self.comments[-1]

    def answer_once(self, method, path, status, content=None):
        """Answer the next request for a path, with its query if that is given, by a status."""
        self.answers.setdefault((method, path), []).append((status, content or {"message": "as asked"}))


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer("GET")

    def do_POST(self):
        self.answer("POST")

    def do_PATCH(self):
        self.answer("PATCH")

    def do_PUT(self):
        self.answer("PUT")

    def answer(self, method):
        parts = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = json.loads(data) if data else {}
        self.server.requests.append((method, self.path, dict(self.headers), sent))
        for name in (self.path, parts.path):
            if planned := self.server.answers.get((method, name)):
                self.reply(*planned.pop(0))
                return
        if parts.path == "/user":
            user = {"login": self.server.user, "username": self.server.user}
            self.reply(
                self.server.user_status, user if self.server.user_status == 200 else {"message": "not accessible"}
            )
        elif method == "GET":
            query = parse_qs(parts.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            more = len(self.server.comments) > size * page
            link = {"Link": f'<{self.server.url}/next>; rel="next"'} if more else {}
            self.reply(200, self.server.comments[size * (page - 1) : size * page], link)
        elif len(sent["body"]) > LONGEST_COMMENT:
            self.reply(422, {"message": "Validation Failed: body is too long (maximum is 65536 characters)"})
        elif method == "POST":
            self.reply(201, self.server.comment(sent["body"], self.server.user))
        else:
            comment = self.server.comments[int(parts.path.rpartition("/")[2]) - 1]
            comment["body"] = sent["body"]
            self.reply(200, comment)

    def reply(self, status, content, headers=None):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
