# SPDX-License-Identifier: Apache-2.0
"""moto_api.py: moto in this process, without the HTTP of moto's own server. Three things that moto
does over and over happen once: it parses a file of AWS's endpoints at each of a dozen places that
ask for the regions, searches its own folder for its modules, and botocore's for services."""

import functools
import io
import sys
import urllib.parse

import botocore.loaders

load = functools.cache(botocore.loaders.JSONFileLoader().load_file)
botocore.loaders.JSONFileLoader.load_file = lambda _, path: load(path)
loader = botocore.loaders.Loader
services = functools.cache(loader().list_available_services)
loader.list_available_services = lambda _, type_name: services(type_name)

# Both are imported now that this is set: they load the endpoints.
import moto.backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

modules = frozenset(moto.backends.list_of_moto_modules())
moto.backends.list_of_moto_modules = lambda: modules
ADDRESS, PORT = "127.0.0.1", "4566"


def environ_of(method, path, headers, body):
    """A request as WSGI (PEP 3333) has it."""
    path, _, query = path.partition("?")
    environ = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "QUERY_STRING": query,
        "PATH_INFO": urllib.parse.unquote(path, "latin-1"), "RAW_URI": path,
        "SERVER_NAME": ADDRESS, "SERVER_PORT": PORT, "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": f"{ADDRESS}:{PORT}", "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr, "wsgi.multithread": True, "wsgi.multiprocess": False,
        "wsgi.run_once": False}
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ[key] = value
        elif key not in ("CONTENT_LENGTH", "CONNECTION", "TRANSFER_ENCODING", "ACCEPT_ENCODING"):
            environ["HTTP_" + key] = value
    return environ


class Moto:
    def __init__(self):
        self.application = DomainDispatcherApplication(create_backend_app)

    def ask(self, method, path, headers, body):
        """One request: (status, headers, body)."""
        got = []
        parts = self.application(environ_of(method, path, headers, body),
                                 lambda status, names, _=None: got.append((status, dict(names))))
        try:
            out = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
        status, names = got[-1]
        return int(status.split()[0]), names, out
