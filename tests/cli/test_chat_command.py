"""`hermesctl sessions chat`: a turn's events shown, kept and judged; streams that break; approvals."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tests.cli.operators import Operator, hostile
from tests.faults.deep_server import DeepServer
from tests.faults.faults import HOSTILE
from tests.faults.wire import Reply, json_reply

STREAM = "POST /api/sessions/{session_id}/chat/stream"
CHAT = "POST /api/sessions/{session_id}/chat"
RUN = "GET /v1/runs/{run_id}"
STOP = "POST /v1/runs/{run_id}/stop"
APPROVAL = "POST /v1/runs/{run_id}/approval"
USAGE = {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57}

Told = tuple[str, dict[str, Any]]

STARTED: Told = ("run.started", {"user_message": {"role": "user", "content": "hi"}})
ANSWERED: tuple[Told, ...] = (
    ("assistant.completed", {"content": "Hello", "completed": True}),
    ("run.completed", {"completed": True, "usage": USAGE}),
    ("done", {}),
)
WHOLE: tuple[Told, ...] = (
    ("session.created", {}),
    STARTED,
    ("message.started", {"message": {"id": "msg_1"}}),
    ("assistant.commentary", {"text": "Let me see. ", "already_streamed": False}),
    ("tool.pending", {"tool_name": "terminal"}),
    ("tool.started", {"tool_name": "terminal", "preview": "ls", "args": {"command": "ls"}}),
    ("tool.progress", {"tool_name": "terminal", "delta": "50%"}),
    ("tool.completed", {"tool_name": "terminal"}),
    ("tool.started", {"tool_name": "browser", "preview": "open"}),
    ("tool.failed", {"tool_name": "browser"}),
    ("something.new", {"field": 1}),
    ("assistant.delta", {"delta": "\n\nHel"}),
    ("assistant.delta", {"delta": "lo"}),
    ("tool.progress", {"tool_name": "_thinking", "delta": "Hello"}),
    *ANSWERED,
)


def stream(node: DeepServer, *told: Told) -> None:
    """The turn tells these events, then the connection ends as a complete answer does."""
    ours = {"session_id": "s-1", "run_id": "run_1"}
    frames = "".join(
        f"event: {name}\ndata: {json.dumps({**ours, **data})}\n\n" for name, data in told
    )
    node.faults.say(STREAM, Reply(200, frames.encode(), "text/event-stream"))


def test_the_answer_alone_goes_to_standard_output(node: DeepServer, operator: Operator) -> None:
    stream(node, *WHOLE)
    typed = operator("sessions", "chat", "s-1", "hi")
    assert (typed.code, typed.out) == (0, "Hello\n")
    assert "terminal   ls" in typed.err
    assert "browser    open failed" in typed.err
    assert "57" not in typed.out
    assert "50 tokens in, 7 out" in typed.err
    assert "something.new" not in typed.err, "unknown events are ignored"
    assert "something.new" in operator("sessions", "chat", "s-1", "hi", "-v").err
    assert node.received(STREAM)[0].json() == {"message": "hi"}


def test_what_to_type_next_reaches_the_same_node(node: DeepServer, operator: Operator) -> None:
    stream(node, *WHOLE)
    typed = operator("sessions", "chat", "s-1", "hi", "--url", node.url)
    assert typed.err.endswith(f" · hermesctl sessions messages s-1 --tail 2 -u {node.url}\n")
    assert operator("sessions", "chat", "s-1", "hi").err.endswith(" messages s-1 --tail 2\n")


def test_a_terminal_sees_the_answer_grow_and_once(node: DeepServer, operator: Operator) -> None:
    stream(node, *WHOLE)
    shown = operator("sessions", "chat", "s-1", "hi", terminal=True)
    assert shown.out.count("Hello") == 1
    assert "Let me see." in shown.out


def test_every_event_is_kept_as_a_line(node: DeepServer, operator: Operator) -> None:
    stream(node, *WHOLE)
    lines = [
        json.loads(line) for line in operator("sessions", "chat", "s-1", "hi", "-o", "jsonl").lines
    ]
    theirs = [line for line in lines if not line["event"].startswith("hermesctl.")]
    assert [line["event"] for line in theirs] == [name for name, _ in WHOLE]
    assert all(line["run_id"] == "run_1" for line in theirs)
    assert lines[-1]["event"] == "hermesctl.result"
    assert (lines[-1]["verdict"], lines[-1]["output"]) == ("success", "Hello")


def test_the_result_is_one_document(node: DeepServer, operator: Operator) -> None:
    stream(node, *WHOLE)
    result = json.loads(operator("sessions", "chat", "s-1", "hi", "-o", "json").out)
    assert (result["run_id"], result["session_id"], result["output"]) == ("run_1", "s-1", "Hello")
    assert result["usage"] == USAGE


def test_what_was_asked_for_reaches_the_server(
    node: DeepServer, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream(node, STARTED, *ANSWERED)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("from stdin: é\n".encode())))
    typed = operator(
        "sessions", "chat", "s-1", "-", "--model", "m", "--provider", "p", "--instructions", "i",
        "--model-option", "reasoning_effort=high", "--session-key", "me",
    )  # fmt: skip
    assert typed.code == 0
    sent = node.received(STREAM)[0]
    assert sent.headers["x-hermes-session-key"] == "me"
    assert sent.json() == {
        "message": "from stdin: é",
        "model": "m",
        "provider": "p",
        "instructions": "i",
        "model_options": {"reasoning_effort": "high"},
    }


@pytest.mark.parametrize("said", [b"", b" \n", b"\xff"])
def test_a_message_has_to_be_text(
    node: DeepServer, operator: Operator, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(said)))
    assert operator("sessions", "chat", "s-1", "-").code == 2
    assert node.requests == []


def test_an_empty_message_is_not_sent(node: DeepServer, operator: Operator) -> None:
    assert operator("sessions", "chat", "s-1", " ").code == 2
    assert node.requests == []


@pytest.mark.parametrize(
    ("told", "code", "reason"),
    [
        ((STARTED, ("error", {"message": "provider down"}), ("done", {})), 1, "provider down"),
        ((STARTED, ("error", {}), ("done", {})), 1, "without a reason"),
        ((STARTED, ("run.failed", {"error": "too long"}), ("done", {})), 1, "too long"),
        ((STARTED, ("run.failed", {"turn_exit_reason": "max_iterations"}), ("done", {})), 1, "max_iterations"),
        ((STARTED, ("run.cancelled", {}), ("done", {})), 1, "cancelled"),
        ((STARTED, ANSWERED[0], ("run.completed", {"usage": {"total_tokens": 0}}), ("done", {})), 1, "without a token"),
        ((STARTED, ("run.completed", {"usage": USAGE}), ("done", {})), 1, "no output"),
        ((STARTED, ("done", {})), 1, "without a word on how"),
        ((STARTED, ("error", {"message": "odd"}), *ANSWERED), 1, "odd"),
    ],
)  # fmt: skip
def test_how_a_turn_ended_is_the_exit_code(
    node: DeepServer, operator: Operator, told: tuple[Told, ...], code: int, reason: str
) -> None:
    stream(node, *told)
    typed = operator("sessions", "chat", "s-1", "hi")
    assert typed.code == code
    assert reason in typed.err


def test_a_stream_that_is_lost_is_no_failure_of_the_turn(
    node: DeepServer, operator: Operator
) -> None:
    stream(node, STARTED, ("assistant.delta", {"delta": "Hel"}))
    state = {"run_id": "run_1", "status": "completed", "output": "Hello", "usage": USAGE}
    node.faults.say(RUN, json_reply({**state, "status": "running"}), times=1)
    node.faults.say(RUN, json_reply(state), skip=1)
    typed = operator("sessions", "chat", "s-1", "hi")
    assert (typed.code, typed.out) == (0, "Hello\n")
    assert "the stream ended in the middle" in typed.err
    node.faults.status(RUN, 404, {"error": {"message": "Run not found", "code": "run_not_found"}})
    typed = operator("sessions", "chat", "s-1", "hi")
    assert typed.code == 3
    assert "does not tell how the turn ended" in typed.err
    assert "hermesctl sessions messages s-1" in typed.err


def test_a_refused_turn_is_told_as_what_it_is(node: DeepServer, operator: Operator) -> None:
    for status, code in ((404, 5), (409, 6), (429, 7), (401, 4)):
        node.faults.status(STREAM, status, {"error": {"message": "no", "code": "x"}})
        assert operator("sessions", "chat", "s-1", "hi").code == code


def test_without_streaming_the_answer_comes_in_one_piece(
    node: DeepServer, operator: Operator
) -> None:
    message = {"role": "assistant", "content": "Whole"}
    node.faults.say(CHAT, json_reply({"session_id": "s-1", "message": message, "usage": USAGE}))
    assert operator("sessions", "chat", "s-1", "hi", "--no-stream").out == "Whole\n"
    node.faults.drop_feature("session_chat_stream")
    assert operator("sessions", "chat", "s-1", "hi").out == "Whole\n"
    assert node.received(STREAM) == []
    node.faults.say(CHAT, json_reply({"session_id": "s-1"}))
    typed = operator("sessions", "chat", "s-1", "hi")
    assert typed.code == 3
    assert "without a message" in typed.err
    node.faults.drop_feature("session_chat")
    assert operator("sessions", "chat", "s-1", "hi").code == 1


def test_a_command_that_nobody_could_be_asked_about_is_told(
    node: DeepServer, operator: Operator
) -> None:
    content = json.dumps({"approval_pending": True, "command": f"rm -rf x{HOSTILE}"})
    messages = [{"role": "tool", "content": content}, {"role": "tool", "content": "no json"}, 7]
    end = ("run.completed", {"usage": USAGE, "messages": messages})
    tools: tuple[Told, ...] = (("tool.completed", {"tool_name": "terminal"}),) * 2
    stream(node, STARTED, *tools, ANSWERED[0], end, ("done", {}))
    typed = operator("sessions", "chat", "s-1", "hi")
    assert typed.code == 0
    assert "not run, because it wants an approval" in typed.err
    assert "rm -rf x" in typed.err
    assert hostile(typed) == set()


def test_what_earlier_turns_did_not_run_is_not_told_again(
    node: DeepServer, operator: Operator
) -> None:
    """0.19 tells the messages of the whole session after a turn that was broken off."""
    content = json.dumps({"approval_pending": True, "command": "rm -rf x"})
    messages = [{"role": "tool", "content": content}, {"role": "assistant", "content": "Hello"}]
    end = ("run.completed", {"usage": USAGE, "messages": messages})
    stream(node, STARTED, ANSWERED[0], end, ("done", {}))
    typed = operator("sessions", "chat", "s-1", "hi")
    assert (typed.code, typed.out) == (0, "Hello\n")
    assert "rm -rf x" not in typed.err


ASKED: Told = (
    "approval.request",
    {"command": "rm -rf x", "request_id": "req_1", "choices": ["once", "deny"]},
)


def test_an_approval_is_given_by_rule(node: DeepServer, operator: Operator) -> None:
    stream(node, STARTED, ASKED, *ANSWERED)
    node.faults.say(APPROVAL, json_reply({"choice": "deny", "resolved": 1}))
    assert operator("sessions", "chat", "s-1", "hi", "--on-approval", "deny").code == 0
    assert node.received(APPROVAL)[0].json() == {"choice": "deny", "request_id": "req_1"}


@pytest.mark.parametrize("rule", [(), ("--on-approval", "fail"), ("--on-approval", "session")])
def test_an_approval_that_is_not_to_be_given_ends_the_turn(
    node: DeepServer, operator: Operator, rule: tuple[str, ...]
) -> None:
    stream(node, STARTED, ASKED, *ANSWERED)
    node.faults.say(STOP, json_reply({"run_id": "run_1", "status": "stopping"}))
    typed = operator("sessions", "chat", "s-1", "hi", *rule)
    assert typed.code == 8
    assert "rm -rf x" in typed.err
    assert "--on-approval once or deny" in typed.err
    assert len(node.received(STOP)) == 1
    assert node.received(APPROVAL) == []


def test_hostile_events_are_shown_and_not_obeyed(node: DeepServer, operator: Operator) -> None:
    stream(
        node,
        ("run.started", {"run_id": f"run{HOSTILE}"}),
        ("tool.started", {"tool_name": HOSTILE, "preview": HOSTILE}),
        ("tool.failed", {"tool_name": HOSTILE}),
        (HOSTILE.replace("\r", ""), {"x": HOSTILE}),
        ("assistant.delta", {"delta": HOSTILE}),
        ("assistant.completed", {"content": HOSTILE}),
        ("run.completed", {"usage": USAGE}),
        ("done", {}),
    )
    for terminal in (True, False):
        for form in ("text", "json", "jsonl"):
            typed = operator("sessions", "chat", "s-1", "hi", "-v", "-o", form, terminal=terminal)
            assert hostile(typed) == set(), form


def test_broken_frames_are_passed_over(node: DeepServer, operator: Operator) -> None:
    frames = (
        b'event: run.started\ndata: {"run_id": "run_1"}\n\n'
        b"data: not json\n\ndata: [1]\n\n: keepalive\n\n"
        b'event: assistant.completed\ndata: {"content": ["odd"]}\n\n'
        b'event: run.completed\ndata: {"usage": {"input_tokens": 5, "output_tokens": 2}}\n\nevent: done\ndata: {}\n\n'
    )
    node.faults.say(STREAM, Reply(200, frames, "text/event-stream"))
    typed = operator("sessions", "chat", "s-1", "hi")
    assert (typed.code, typed.out) == (0, '["odd"]\n')
