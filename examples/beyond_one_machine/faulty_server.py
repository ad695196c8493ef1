"""An S3 server on this machine, some of whose requests fail."""

import threading
from collections import Counter

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

# Of the 1st, 2nd, ... such request to a dataset; clients try again after 500 and 503, and give up after 403.
FAULTS = {
    ("PUT", "tfrecord"): {2: "503 before", 4: "403 before", 5: "500 after", 9: "503 before", 12: "500 after"},
    ("PUT", "manifest.json"): {1: "500 after"},
    ("GET", "tfrecord"): {3: "200 cut short", 5: "503 before", 11: "200 cut short"},
}


class FaultyServer:
    """Answers until the process ends; its objects are in memory.

    Attributes:
        injected: how often which fault was.
        url: of the server.
    """

    def __init__(self):
        self.injected, self._seen, self._guard = Counter(), Counter(), threading.Lock()
        self._store = DomainDispatcherApplication(create_backend_app)
        handler = type("Quiet", (WSGIRequestHandler,), {"log": lambda *_: None})
        server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"

    def _answer(self, environ, start_response):
        fault = self._next_fault(environ["REQUEST_METHOD"], environ["PATH_INFO"].split("/"))
        if "before" not in fault:
            lost = "after" in fault
            body = b"".join(self._store(environ, lambda *head: lost or start_response(*head)))
            if not lost:
                return [body[: len(body) // 2] if fault else body]
        start_response(f"{fault[:3]} Injected", [("Content-Length", "0")])
        return []

    def _next_fault(self, method, path):
        dataset, name = "/".join(path[:3]), path[-1]
        kind = method, name if name == "manifest.json" else name.rpartition(".")[2]
        with self._guard:
            self._seen[dataset, kind] += 1
            fault = FAULTS.get(kind, {}).get(self._seen[dataset, kind], "")
            if fault:
                self.injected[" ".join([*kind, fault])] += 1
        return fault
