"""JSON over HTTP on loopback, for the lab's own questions to its gateway and its model."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from hermes_ctl.secrets import Secret


def ask(
    url: str, *, key: Secret | None = None, body: object = None, timeout: float = 5.0
) -> tuple[int, Any]:
    """GET `url`, or POST `body` to it as JSON: the status and the parsed answer.

    Raises `OSError` when nothing answers and `ValueError` when the answer is no JSON.
    """
    address = urlsplit(url)
    connection = http.client.HTTPConnection(
        address.hostname or "127.0.0.1", address.port, timeout=timeout
    )
    headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
    path = address.path + (f"?{address.query}" if address.query else "")
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    except http.client.HTTPException as failure:
        raise ConnectionError(f"{type(failure).__name__} from {url}") from failure
    finally:
        connection.close()
