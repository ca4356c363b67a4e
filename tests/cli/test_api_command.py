"""`hermesctl api`: the request as it was typed, the answer as it came, the key to no other origin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.operators import Operator, hostile
from tests.faults.deep_server import DeepServer
from tests.faults.faults import HOSTILE
from tests.faults.server import HermesServer
from tests.faults.wire import Reply, json_reply, text_reply

HELLO = "GET /v1/hello"


def test_a_url_of_another_origin_is_refused_and_nothing_is_sent(
    node: DeepServer, operator: Operator
) -> None:
    with HermesServer() as other:
        typed = operator("api", "GET", f"{other.url}/v1/models")
        assert typed.code == 2
        assert "its key goes nowhere else" in typed.err
        assert other.requests == []
    assert node.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "@evil.example/",
        "v1/models",
        "//evil.example/x",
        "http://u:p@127.0.0.1/",
        "ftp://x/y",
        "/../x",
        "/v1/models\r\nX: y",
    ],
)
def test_what_is_no_path_is_refused(node: DeepServer, operator: Operator, path: str) -> None:
    assert operator("api", "GET", path).code == 2
    assert node.requests == []


def test_a_redirect_is_reported_and_not_followed(node: DeepServer, operator: Operator) -> None:
    with HermesServer() as other:
        node.faults.redirect(f"{other.url}/v1/models", "GET /v1/models")
        typed = operator("api", "GET", "/v1/models")
        assert typed.code == 3
        assert "not followed" in typed.err
        assert other.requests == []


def test_the_whole_url_of_this_node_will_do(node: DeepServer, operator: Operator) -> None:
    typed = operator("api", "GET", f"{node.url}/v1/models", "--query", "data[0].id")
    assert (typed.code, typed.out) == (0, "hermes-agent\n")
    assert node.requests[-1].bearer == node.key


def test_a_url_has_to_stay_within_the_profile(node: DeepServer, operator: Operator) -> None:
    inside = operator("api", "GET", f"{node.url}/p/planner/v1/models", "-p", "planner")
    outside = operator("api", "GET", f"{node.url}/v1/models", "-p", "planner")
    assert (inside.code, outside.code) == (0, 2)
    assert [request.path for request in node.requests] == ["/p/planner/v1/models"]


def test_no_key_sends_none(node: DeepServer, operator: Operator) -> None:
    assert operator("api", "GET", "/health", "--no-key").code == 0
    assert "authorization" not in node.requests[-1].headers


def test_no_key_is_sent_for_any_page_either(node: DeepServer, operator: Operator) -> None:
    typed = operator("api", "GET", "/api/sessions", "--paginate", "--no-key")
    assert typed.code == 4
    assert "no key was sent" in typed.err
    assert "authorization" not in node.requests[-1].headers


def test_a_refusal_without_a_key_blames_no_key(node: DeepServer, operator: Operator) -> None:
    typed = operator("api", "GET", "/v1/models", "--no-key")
    assert typed.code == 4
    assert "no key was sent" in typed.err
    assert "the key came from" not in typed.err


@pytest.mark.parametrize("name", ["Authorization", "authorization", "Host", "Content-Length"])
def test_headers_that_are_not_to_be_typed(node: DeepServer, operator: Operator, name: str) -> None:
    typed = operator("api", "GET", "/health", "-H", f"{name}: secret-that-is-shown-nowhere")
    assert typed.code == 2
    assert "secret-that" not in typed.out + typed.err
    assert node.requests == []


def test_secrets_in_headers_come_from_a_file(
    node: DeepServer, operator: Operator, tmp_path: Path
) -> None:
    file = tmp_path / "headers"
    file.write_text("Cookie: session=of-the-dashboard\nX-Other: 1\n")
    assert operator("api", "GET", "/health", "-H", f"@{file}", "-H", "X-Third: a:b").code == 0
    sent = node.requests[-1].headers
    assert (sent["cookie"], sent["x-other"], sent["x-third"]) == (
        "session=of-the-dashboard",
        "1",
        "a:b",
    )


def test_fields_are_typed_and_raw_fields_are_text(node: DeepServer, operator: Operator) -> None:
    node.faults.say("POST /v1/hello", json_reply({"ok": True}))
    fields = ["a=1", "b=true", "c=null", "d=text", 'e=[{"x": 1.5}]', "f=", "g=NaN", "h=a=b"]
    typed = operator(
        "api", "POST", "/v1/hello", *(part for field in fields for part in ("-f", field)),
        "--raw-field", "i=1",
    )  # fmt: skip
    assert typed.code == 0
    assert node.requests[-1].json() == {
        "a": 1, "b": True, "c": None, "d": "text", "e": [{"x": 1.5}],
        "f": "", "g": "NaN", "h": "a=b", "i": "1",
    }  # fmt: skip
    assert node.requests[-1].headers["content-type"] == "application/json"


def test_fields_of_a_get_are_its_query(node: DeepServer, operator: Operator) -> None:
    node.faults.say(HELLO, json_reply([]))
    typed = operator("api", "get", "/v1/hello?a=1&a=2&b=x%20y", "-f", "limit=5", "-f", "c=true")
    assert typed.code == 0
    assert node.requests[-1].target == "/v1/hello?a=1&a=2&b=x+y&limit=5&c=true"
    assert node.requests[-1].body == b""


def test_a_body_from_a_file_goes_as_it_is(
    node: DeepServer, operator: Operator, tmp_path: Path
) -> None:
    node.faults.say("POST /v1/hello", json_reply({}))
    file = tmp_path / "body"
    file.write_bytes(b"\x00\xff raw")
    typed = operator(
        "api",
        "POST",
        "/v1/hello",
        "--input",
        str(file),
        "-H",
        "Content-Type: image/png",
        "-f",
        "a=1",
    )
    assert typed.code == 0
    sent = node.requests[-1]
    assert (sent.body, sent.headers["content-type"], sent.query) == (
        b"\x00\xff raw",
        "image/png",
        {"a": "1"},
    )


def test_bytes_come_through_a_pipe_untouched(node: DeepServer, operator: Operator) -> None:
    body = bytes(range(256))
    node.faults.say(HELLO, Reply(200, body, "image/png"))
    assert operator("api", "GET", "/v1/hello").raw == body
    shown = operator("api", "GET", "/v1/hello", terminal=True)
    assert shown.out == ""
    assert "256 bytes of image/png: redirect them into a file" in shown.err


def test_what_a_terminal_gets_is_neutral(node: DeepServer, operator: Operator) -> None:
    for reply in (json_reply({"title": HOSTILE}), text_reply(200, HOSTILE)):
        node.faults.say(HELLO, reply)
        shown = operator("api", "GET", "/v1/hello", terminal=True)
        assert shown.code == 0
        assert hostile(shown) == set()
        assert "gnp.exe [bold]markup[/bold]" in shown.out
    node.faults.say(HELLO, json_reply({"title": HOSTILE}))
    assert hostile(operator("api", "GET", "/v1/hello", "--query", "title")) == set()


def test_a_key_that_is_echoed_is_masked_even_in_a_pipe(
    node: DeepServer, operator: Operator
) -> None:
    node.faults.say(HELLO, json_reply({"you": node.key}))
    assert operator("api", "GET", "/v1/hello").out == '{"you": "***"}'


def test_a_stream_comes_as_json_lines(node: DeepServer, operator: Operator) -> None:
    frames = (
        b": open\n\n"
        b'data: {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "Hi"}}]}\n\n'
        b'event: hermes.tool.progress\ndata: {"tool": "terminal"}\n\n'
        b"data: broken\n\n"
        b'data: {"event": "message.delta", "delta": "x"}\n\n'
        b"data: [DONE]\n\n"
    )
    reply = Reply(200, frames, "text/event-stream")
    node.faults.say("POST /v1/chat/completions", reply)
    typed = operator("api", "POST", "/v1/chat/completions", "-f", "stream=true")
    assert typed.code == 0
    told = [json.loads(line) for line in typed.lines]
    assert told[0]["choices"] == [{"delta": {"content": "Hi"}}]
    assert told[1] == {"event": "hermes.tool.progress", "tool": "terminal"}
    assert told[2]["data"] == "broken"
    assert told[3] == {"event": "message.delta", "delta": "x"}
    assert len(told) == 4
    asked = operator("api", "POST", "/v1/chat/completions", "--query", "choices[0].delta.content")
    assert asked.out == "Hi\n", "what has no such part is left out"


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, 0), (201, 0), (302, 3), (400, 1), (401, 4), (403, 4), (404, 5), (405, 1), (409, 6),
     (413, 1), (422, 6), (429, 7), (500, 3), (503, 3)],
)  # fmt: skip
def test_the_exit_code_follows_the_status_and_the_body_is_shown(
    node: DeepServer, operator: Operator, status: int, code: int
) -> None:
    node.faults.status(HELLO, status, {"error": {"message": "said so", "code": "x"}})
    typed = operator("api", "GET", "/v1/hello")
    assert typed.code == code
    assert typed.out == '{"error": {"message": "said so", "code": "x"}}'
    assert bool(typed.err) == (code != 0)


def test_status_and_headers_are_shown_on_demand(node: DeepServer, operator: Operator) -> None:
    lines = operator("api", "GET", "/health", "-i").lines
    assert lines[0] == "HTTP 200"
    assert "content-type: application/json; charset=utf-8" in lines
    assert json.loads(lines[-1])["status"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--query", "data["), "no JMESPath expression"),
        (("--query", "length(`1`)"), "does not fit"),
        (("-f", "novalue"), "is not KEY=VALUE"),
        (("-H", "no header"), "is not NAME: VALUE"),
        (("--input", "/no/such/file"), "cannot be read"),
        (("--paginate", "-f", "limit=none"), "no size of a page"),
        (("--paginate", "-i"), "leave one of them out"),
    ],
)
def test_slips_are_told_in_a_sentence(
    operator: Operator, arguments: tuple[str, ...], said: str
) -> None:
    typed = operator("api", "GET", "/v1/models", *arguments)
    assert typed.code == 2
    assert said in typed.err
    assert typed.out == ""


def test_the_work_of_an_agent_is_waited_for(node: DeepServer, operator: Operator) -> None:
    node.faults.slow(0.4, "POST /v1/responses")
    node.faults.slow(0.4, "GET /v1/models")
    assert (
        operator("api", "POST", "/v1/responses", "-f", "input=hi", "--timeout", "100ms").code == 3
    )
    assert operator("api", "GET", "/v1/models", "--timeout", "100ms").code == 3
    assert operator("api", "POST", "/v1/responses", "-f", "input=hi").code == 0
