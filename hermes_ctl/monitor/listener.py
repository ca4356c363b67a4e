"""Serves metrics over HTTP, in threads of its own, for as long as a block lasts."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from hermes_ctl.errors import UsageError

SILENCE = 10.0
"""Seconds that a client may keep a connection without a word."""

_HINT = "--listen takes HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464"
_PLACE = re.compile(r"(?:\[(?P<ipv6>[^\[\]\s]+)\]|(?P<host>[^\[\]:\s]+)):(?P<port>[0-9]{1,5})")
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where to listen: a host name or an IP address without brackets, and a port; 0 is any."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_place(text: str) -> Place:
    """`127.0.0.1:9464` or `[::1]:9464`. Raises `UsageError` for anything else."""
    found = _PLACE.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        raise UsageError(f"--listen {text!r} is no address to listen at", hint=_HINT)
    return Place(found["ipv6"] or found["host"], int(found["port"]))


@contextlib.contextmanager
def listening(place: Place, registry: CollectorRegistry) -> Iterator[Place]:
    """Serve `registry` at `/metrics`; yields where, with the port that it came to.

    Raises `UsageError` where nothing can listen there.
    """
    server = _open(place)
    server.set_app(_application(make_wsgi_app(registry)))
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield Place(place.host, server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _open(place: Place) -> WSGIServer:
    try:
        family, *_, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        return _Server(family, address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot listen at {place}: {reason}", hint=_HINT) from None


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, family: socket.AddressFamily, address: Any) -> None:
        self.address_family = family
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would ask the name service for this host's name
        host, self.server_port = self.socket.getsockname()[:2]
        self.server_name = str(host)
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not worth a word."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE

    def log_message(self, format: str, *arguments: Any) -> None:
        """Scrapes are not logged."""


def _application(metrics: _Application) -> _Application:
    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        found = path == "/"
        status = "200 OK" if found else "404 Not Found"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [b"hermesctl exporter: the metrics are at /metrics\n"]

    return application
