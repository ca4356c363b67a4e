"""The scripted model as an HTTP server."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.errors import UsageError
from hermes_ctl.lab.loopback import ask
from hermes_ctl.lab.model import Behaviour, Model
from hermes_ctl.secrets import Secret


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with Model(record=tmp_path / "requests.jsonl") as model:
        model.start()
        yield model


def chat(server: Model, prompt: str, **fields: Any) -> tuple[int, Any]:
    body = {"model": "lab-model", "messages": [{"role": "user", "content": prompt}], **fields}
    return ask(f"{server.url}/chat/completions", body=body, key=Secret("sk-very-secret", "test"))


def root(model: Model) -> str:
    return model.url.removesuffix("/v1")


def stream(model: Model, prompt: str) -> list[Any]:
    """The JSON of each frame, and the last frame as it is."""
    body = {"model": "lab-model", "stream": True, "messages": [{"role": "user", "content": prompt}]}
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=5)
    connection.request("POST", "/chat/completions", json.dumps(body))
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    frames = answer.read().decode().removesuffix("\n\n").split("\n\n")
    connection.close()
    *chunks, last = [frame.removeprefix("data: ") for frame in frames]
    return [*map(json.loads, chunks), last]


def test_plain_answer(model: Model) -> None:
    status, answer = chat(model, "Reply with exactly this and nothing else: tok-1")
    assert status == 200
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "tok-1"}
    assert answer["usage"]["total_tokens"] > answer["usage"]["completion_tokens"] > 0


def test_streamed_answer_comes_in_several_chunks(model: Model) -> None:
    *chunks, last = stream(model, "[[reasoning hm]] [[say a longer answer]]")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    said = [delta["content"] for delta in deltas if delta.get("content")]
    assert last == "[DONE]"
    assert "".join(said) == "a longer answer"
    assert len(said) > 3
    assert [d["reasoning_content"] for d in deltas if "reasoning_content" in d] == ["hm"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["total_tokens"] > 0


def test_streamed_tool_calls(model: Model) -> None:
    tools = [{"type": "function", "function": {"name": "terminal"}}]
    status, answer = chat(model, "[[run a]] + [[run b]]", tools=tools)
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "tool_calls")
    assert [json.loads(call["function"]["arguments"])["command"] for call in calls] == ["a", "b"]
    assert len({call["id"] for call in calls}) == 2


def test_unknown_model_is_a_400_that_names_it(model: Model) -> None:
    status, answer = chat(model, "hello", model="no-such-model")
    assert status == 400
    assert "no-such-model" in answer["error"]["message"]
    assert answer["error"]["code"] == "model_not_found"


def test_models_and_probes(model: Model) -> None:
    status, answer = ask(f"{model.url}/models")
    assert [one["id"] for one in answer["data"]] == ["lab-model", "lab-other"]
    assert status == 200
    assert ask(f"{root(model)}/models/lab-other")[0] == 200
    assert ask(f"{root(model)}/api/tags")[0] == 404
    assert ask(f"{root(model)}/api/show", body={"name": "lab-model"})[0] == 404


def test_status_directive(model: Model) -> None:
    status, answer = chat(model, "[[status 503]]")
    assert (status, answer["error"]["type"]) == (503, "server_error")


def test_unreadable_directive_is_a_400(model: Model) -> None:
    status, answer = chat(model, "[[dance]]")
    assert status == 400
    assert "[[dance]]" in answer["error"]["message"]


def test_requests_are_recorded_without_the_key(model: Model, tmp_path: Path) -> None:
    chat(model, "first", reasoning_effort="low")
    chat(model, "second", tools=[{"function": {"name": "terminal"}}])
    records = ask(f"{root(model)}/lab/requests")[1]["requests"]
    assert [(r["number"], r["user"], r["purpose"]) for r in records] == [
        (1, "first", "chat"),
        (2, "second", "chat"),
    ]
    assert (records[0]["model"], records[0]["authorization"]) == ("lab-model", True)
    assert records[0]["parameters"] == {"reasoning_effort": "low"}
    assert records[1]["tools"] == ["terminal"]
    assert [r["user"] for r in ask(f"{root(model)}/lab/requests?after=1")[1]["requests"]] == [
        "second"
    ]
    assert [r["user"] for r in ask(f"{root(model)}/lab/requests?after=-1")[1]["requests"]] == [
        "second"
    ]
    written = (tmp_path / "requests.jsonl").read_text()
    assert [json.loads(line)["number"] for line in written.splitlines()] == [1, 2]
    assert "very-secret" not in written + json.dumps(records)


def test_behaviours(model: Model) -> None:
    def behave(**change: Any) -> int:
        return ask(f"{root(model)}/lab/behaviour", body=change)[0]

    tools = [{"function": {"name": "terminal"}}]
    assert behave(toolless=True, usage=False, any_model=True) == 200
    _, answer = chat(model, "[[run a]]", tools=tools, model="odd")
    assert answer["choices"][0]["message"]["content"] == "I have no terminal tool."
    assert "usage" not in answer
    assert behave(status=500) == 200
    assert chat(model, "hello")[0] == 500
    assert behave() == 200
    assert ask(f"{root(model)}/lab/behaviour")[1] == {
        "toolless": False,
        "usage": True,
        "any_model": False,
        "hang": False,
        "empty": False,
        "status": 200,
        "delay": 0.0,
    }
    assert behave(empty=True) == 200
    assert chat(model, "hello")[1]["choices"][0]["message"]["content"] is None
    assert behave(nonsense=True) == 400
    assert behave(usage="no") == 400


def test_behaviour_names_what_there_is() -> None:
    with pytest.raises(UsageError, match="toolless"):
        Behaviour().changed({"nonsense": 1})
    with pytest.raises(UsageError, match="JSON object"):
        Behaviour().changed([])


@pytest.mark.parametrize("body", [b"{nope", b"[1]"])
def test_bad_body(model: Model, body: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=5)
    connection.request("POST", "/v1/chat/completions", body)
    assert connection.getresponse().status == 400
    connection.close()


def _busy_threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("prompt", ["[[silent 60s]]", "[[count 600 every 10ms]]"])
def test_answer_ends_when_the_client_leaves(model: Model, prompt: str) -> None:
    before = _busy_threads()
    messages = [{"role": "user", "content": prompt}]
    body = json.dumps({"model": "lab-model", "stream": True, "messages": messages}).encode()
    with socket.create_connection(("127.0.0.1", model.port), timeout=5) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        assert client.recv(1024).startswith(b"HTTP/1.1 200")
    deadline = time.monotonic() + 5
    while _busy_threads() > before:
        assert time.monotonic() < deadline, "the model still answers a client that has gone"
        time.sleep(0.01)


def test_many_at_once(model: Model) -> None:
    answers: list[list[Any]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(stream(model, "[[count 5 every 50ms]]")))
        for _ in range(40)
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer[-1] for answer in answers] == ["[DONE]"] * 40
    assert time.monotonic() - started < 40 * 0.25 / 2
