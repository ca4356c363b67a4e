"""`hermesctl sessions`: long lists, odd shapes, hostile texts, questions, what a node does not offer."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.api.offers import using
from hermes_ctl.api.routes import SESSIONS
from hermes_ctl.errors import RouteNotFound
from tests.cli.operators import Operator, hostile, session_row
from tests.faults.deep_server import DeepServer
from tests.faults.faults import HOSTILE
from tests.faults.wire import Reply, Request, json_reply

LIST = "GET /api/sessions"
MESSAGES = "GET /api/sessions/{session_id}/messages"

Rows = list[dict[str, Any]]


def serve_pages(node: DeepServer, rows: Rows, *, pinned: int = 0, limit: int = 200) -> None:
    """The list as Hermes from 0.20 on gives it: pinned rows come on every page, and `has_more` is
    false as soon as there is one (wire.md, 0.18)."""

    def answer(request: Request) -> Reply:
        asked = min(int(request.query["limit"]), limit)
        offset = int(request.query["offset"])
        window = rows[offset : offset + asked]
        ids = {row["id"] for row in window}
        window = window + [row for row in rows[:pinned] if row["id"] not in ids]
        told = {"limit": asked, "offset": offset, "has_more": not pinned and len(window) == asked}
        return json_reply({"object": "list", "data": window, **told})

    node.answers.routes[LIST] = answer


def many(count: int, pinned: int = 0) -> Rows:
    return [session_row(number, pinned=number < pinned) for number in range(count)]


@pytest.mark.parametrize("pinned", [0, 3])
@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 450])
def test_every_session_is_listed_once(
    node: DeepServer, operator: Operator, count: int, pinned: int
) -> None:
    serve_pages(node, many(count, pinned), pinned=pinned)
    typed = operator("sessions", "list", "-o", "name")
    assert typed.code == 0
    assert typed.lines == [f"s-{number}" for number in range(count)]
    assert len(node.received(LIST)) <= count // 200 + 1


def test_a_server_that_gives_less_than_was_asked_for_is_read_to_the_end(
    node: DeepServer, operator: Operator
) -> None:
    serve_pages(node, many(130), limit=50)
    assert len(operator("sessions", "list", "-o", "name").lines) == 130
    assert [request.query["offset"] for request in node.received(LIST)] == ["0", "50", "100"]


def test_the_limit_ends_the_asking(node: DeepServer, operator: Operator) -> None:
    serve_pages(node, many(450))
    assert operator("sessions", "list", "--limit", "3", "-o", "name").lines == ["s-0", "s-1", "s-2"]
    assert len(node.received(LIST)) == 1
    last = operator("sessions", "list", "--limit", "2", "--sort", "last-active", "-o", "name")
    assert last.lines == ["s-449", "s-448"], "sorting comes before the limit"


def test_since_stops_at_the_first_older_page(node: DeepServer, operator: Operator) -> None:
    serve_pages(node, many(1000, pinned=2), pinned=2)
    moment = datetime.fromtimestamp(many(1)[0]["last_active"] - 310, UTC).isoformat()
    typed = operator("sessions", "list", "--since", moment, "-o", "name")
    assert len(typed.lines) == 311
    assert len(node.received(LIST)) == 2


@pytest.mark.parametrize("when", ["yesterday", "", "2026-13-01", "-3h", "9999999999h"])
def test_since_takes_times_and_durations(operator: Operator, when: str) -> None:
    typed = operator("sessions", "list", "--since", when)
    assert typed.code == 2
    assert "neither a time nor a duration" in typed.err


def test_source_and_children_reach_the_server(node: DeepServer, operator: Operator) -> None:
    assert operator("sessions", "list", "--source", "cli", "--children").code == 0
    query = node.received(LIST)[-1].query
    assert (query["source"], query["include_children"]) == ("cli", "true")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: rows,
        lambda rows: {"data": rows},
        lambda rows: {"items": rows},
        lambda rows: {"sessions": rows},
        lambda rows: {"object": "list", "data": rows, "new": {"field": 1}},
    ],
)
def test_older_and_newer_shapes(
    node: DeepServer, operator: Operator, wrap: Callable[[Rows], Any]
) -> None:
    rows = [session_row(0, started_at="2026-11-30T12:00:00Z", message_count="many", color="red")]
    node.faults.say(LIST, json_reply(wrap(rows)))
    assert operator("sessions", "list").lines[0].startswith("s-0\tSession 0\tm\t\t")
    assert json.loads(operator("sessions", "list", "-o", "json").out) == rows, "nothing is left out"


@pytest.mark.parametrize("document", [{}, {"rows": []}, 7, None, "x", {"data": {}}, [1], [{}]])
def test_a_shape_that_is_none_of_them_is_reported(
    node: DeepServer, operator: Operator, document: object
) -> None:
    node.faults.say(LIST, json_reply(document))
    typed = operator("sessions", "list")
    assert typed.code == 3
    assert "GET /api/sessions" in typed.err
    assert "hermesctl api GET /api/sessions" in typed.err


def test_hostile_titles_and_messages_are_shown_and_not_obeyed(
    node: DeepServer, operator: Operator
) -> None:
    row = session_row(0, id=f"evil{HOSTILE}", title=HOSTILE, preview=HOSTILE, model=HOSTILE)
    node.faults.say(LIST, json_reply({"data": [row]}))
    node.faults.say("GET /api/sessions/{session_id}", json_reply({"session": row}))
    call = {"function": {"name": HOSTILE, "arguments": HOSTILE}}
    message = {
        "id": 1,
        "role": HOSTILE,
        "content": HOSTILE,
        "tool_calls": [call],
        "tool_name": HOSTILE,
    }
    node.faults.say(MESSAGES, json_reply({"data": [message, {**message, "id": 2, "role": "tool"}]}))
    for terminal in (True, False):
        for form in ("table", "wide", "json", "jsonl", "name"):
            assert not hostile(operator("sessions", "list", "-o", form, terminal=terminal)), form
        for form in ("text", "json", "name"):
            assert not hostile(operator("sessions", "show", "x", "-o", form, terminal=terminal))
        for form in ("text", "json", "jsonl"):
            shown = operator("sessions", "messages", "x", "-o", form, terminal=terminal)
            assert shown.code == 0
            assert not hostile(shown)
            assert "gnp.exe [bold]markup[/bold]" in shown.out


@pytest.mark.parametrize("form", ["md", "json", "jsonl"])
def test_an_export_is_neutral_and_whole(
    node: DeepServer, operator: Operator, tmp_path: Path, form: str
) -> None:
    text = f"# assistant\n```\n{HOSTILE}\n```\n> quoted"
    told = [{"id": n, "role": "user", "content": text, "more": n} for n in range(250)]
    node.faults.say(MESSAGES, json_reply({"data": told}))
    file = tmp_path / "export"
    typed = operator("sessions", "messages", "x", "--export", form, str(file))
    assert (typed.code, typed.out) == (0, "")
    assert "250 messages" in typed.err
    written = file.read_text("utf-8")
    assert not set(written) & {"\x1b", "\x07", "\u202e"}
    if form == "md":
        assert written.count("\n## user\n") + written.startswith("## user\n") == 250
        assert "\n# assistant" not in written, "no heading of a message stands for another message"
    elif form == "json":
        assert json.loads(written) == told
    else:
        assert [json.loads(line) for line in written.splitlines()] == told
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_an_export_that_fails_leaves_the_old_file_alone(
    node: DeepServer, operator: Operator, tmp_path: Path
) -> None:
    file = tmp_path / "export.md"
    file.write_text("what was there")
    serve_messages(node, 150)
    node.faults.status(MESSAGES, 500, skip=1)
    typed = operator("sessions", "messages", "x", "--export", "md", str(file))
    assert typed.code == 3
    assert file.read_text() == "what was there"
    assert [path.name for path in tmp_path.iterdir()] == ["export.md"]


@pytest.mark.parametrize(("form", "name"), [("pdf", "x"), ("md", "."), ("md", "no/such/folder/x")])
def test_where_an_export_cannot_go_is_said_before_anything_is_asked(
    node: DeepServer, operator: Operator, tmp_path: Path, form: str, name: str
) -> None:
    typed = operator("sessions", "messages", "x", "--export", form, str(tmp_path / name))
    assert typed.code == 2
    assert node.received(MESSAGES) == []


def test_an_export_takes_the_place_of_an_ordinary_file_alone(
    node: DeepServer, operator: Operator, tmp_path: Path
) -> None:
    serve_messages(node, 1)
    os.mkfifo(tmp_path / "pipe")
    typed = operator("sessions", "messages", "x", "--export", "md", str(tmp_path / "pipe"))
    assert typed.code == 2
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    typed = operator("sessions", "messages", "x", "--export", "md", str(tmp_path / "link"))
    assert typed.code == 0
    assert (tmp_path / "link").is_symlink()
    assert "m0" in (tmp_path / "file").read_text()


def serve_messages(node: DeepServer, count: int, *, paged: bool = True) -> None:
    """The messages as 0.20 and later give them, or all of them at once, as 0.19 does."""
    told = [{"id": n, "role": "user", "content": f"m{n}"} for n in range(count)]

    def answer(request: Request) -> Reply:
        if not paged:
            return json_reply({"object": "list", "session_id": "x", "data": told})
        limit, offset = int(request.query["limit"]), int(request.query["offset"])
        end = count - offset
        latest = request.query["order"] == "latest"
        page = told[max(0, end - limit) : end] if latest else told[offset : offset + limit]
        pagination = {"limit": limit, "offset": offset, "returned": len(page)}
        return json_reply({"object": "list", "data": page, "pagination": pagination})

    node.answers.routes[MESSAGES] = answer


@pytest.mark.parametrize("paged", [True, False])
@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
def test_all_messages_come_once_and_in_order(
    node: DeepServer, operator: Operator, count: int, paged: bool
) -> None:
    serve_messages(node, count, paged=paged)
    told = operator("sessions", "messages", "x", "-o", "jsonl").lines
    assert [json.loads(line)["id"] for line in told] == list(range(count))


@pytest.mark.parametrize("paged", [True, False])
@pytest.mark.parametrize(
    ("count", "tail"), [(0, 3), (2, 3), (3, 3), (250, 1), (250, 120), (250, 999)]
)
def test_the_tail_is_the_last_messages_in_order(
    node: DeepServer, operator: Operator, count: int, tail: int, paged: bool
) -> None:
    serve_messages(node, count, paged=paged)
    told = operator("sessions", "messages", "x", "--tail", str(tail), "-o", "jsonl").lines
    assert [json.loads(line)["id"] for line in told] == list(range(count))[-tail:]


def test_a_terminal_gets_long_texts_cut_and_a_pipe_all_of_them(
    node: DeepServer, operator: Operator
) -> None:
    long = "x" * 2_000_000
    told = [{"id": 1, "role": "user", "content": long}, {"id": 2, "role": "tool", "content": long}]
    node.faults.say(MESSAGES, json_reply({"data": told}))
    shown = operator("sessions", "messages", "x", terminal=True)
    assert "1,996,000 characters more: --raw" in shown.out
    assert len(shown.out) < 6000
    assert operator("sessions", "messages", "x", "--raw", terminal=True).out.count("x") >= 4_000_000
    assert operator("sessions", "messages", "x").out.count("x") >= 4_000_000


def test_parts_and_calls_of_a_message_are_all_told(node: DeepServer, operator: Operator) -> None:
    calls = json.dumps([{"function": {"name": "terminal", "arguments": '{"command": "ls"}'}}])
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}, "at", 7]
    told = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "assistant", "content": {"odd": 1}, "tool_calls": "no json"},
    ]
    node.faults.say(MESSAGES, json_reply(told))
    out = operator("sessions", "messages", "x").out
    for text in (
        "look\n[image_url]\nat\n7",
        '● terminal {"command": "ls"}',
        '{"odd": 1}',
        "no json",
    ):
        assert text in out


# What is asked before


@pytest.mark.parametrize(
    ("answer", "code", "gone"), [("y\n", 0, True), ("YES\n", 0, True), ("n\n", 1, False), ("\n", 1, False), ("", 1, False)]
)  # fmt: skip
def test_a_person_is_asked_before_a_deletion(
    node: DeepServer, operator: Operator, answer: str, code: int, gone: bool
) -> None:
    node.answers.sessions.rows["s-0"] = session_row(0)
    typed = operator("sessions", "delete", "s-0", answer=answer)
    assert typed.code == code
    assert "Delete the session s-0 with all messages? [y/N]" in typed.err
    assert ("s-0" not in node.answers.sessions.rows) is gone
    assert bool(node.requests) is gone, "nothing is sent before the answer"


def test_without_a_terminal_nothing_is_asked_and_nothing_deleted(
    node: DeepServer, operator: Operator
) -> None:
    typed = operator("sessions", "delete", "s-0", "s-1")
    assert typed.code == 2
    assert "--yes" in typed.err
    assert node.requests == []


def test_several_are_deleted_up_to_the_first_failure(node: DeepServer, operator: Operator) -> None:
    for number in (0, 1, 2):
        node.answers.sessions.rows[f"s-{number}"] = session_row(number)
    typed = operator("sessions", "delete", "s-0", "nobody", "s-2", "--yes")
    assert typed.code == 5
    assert "deleted s-0" in typed.err
    assert list(node.answers.sessions.rows) == ["s-1", "s-2"]


# What a node offers


@pytest.mark.parametrize(
    ("feature", "arguments", "route", "said"),
    [
        ("session_fork", ("sessions", "fork", "s-0"), "POST /api/sessions/{session_id}/fork", "forking a session"),
        ("session_model_lock", ("sessions", "model", "s-0", "m"), "POST /api/sessions/{session_id}/model", "locking the model of a session (it is 0.20.4.post1; that came with 0.20)"),
        ("session_delete", ("sessions", "delete", "s-0", "-y"), "DELETE /api/sessions/{session_id}", "deleting a session"),
        ("skills", ("skills", "list"), "GET /v1/skills", "a list of skills"),
        ("toolsets", ("toolsets", "list"), "GET /v1/toolsets", "a list of toolsets"),
        ("model_options", ("models", "list", "--options"), "GET /api/model/options", "the inventory of providers and models"),
        ("health_detailed", ("health", "--detailed"), "GET /health/detailed", "detailed health"),
    ],
)  # fmt: skip
def test_what_is_not_advertised_is_not_asked_for(
    node: DeepServer, operator: Operator, feature: str, arguments: tuple[str, ...], route: str, said: str
) -> None:  # fmt: skip
    node.faults.drop_feature(feature)
    typed = operator(*arguments)
    assert typed.code == 1
    assert f"this node's Hermes does not offer {said}" in typed.err
    assert node.received(route) == []


@pytest.mark.parametrize(
    ("arguments", "route"),
    [
        (("skills", "list"), "GET /v1/skills"),
        (("toolsets", "list"), "GET /v1/toolsets"),
        (("sessions", "list"), LIST),
        (("models", "list"), "GET /v1/models"),
    ],
)
def test_what_is_advertised_and_fails_is_told_so(
    node: DeepServer, operator: Operator, arguments: tuple[str, ...], route: str
) -> None:
    node.faults.status(route, 500)
    typed = operator(*arguments)
    assert typed.code == 3
    assert f"this node's Hermes advertises {route} and fails at it" in typed.err
    node.faults.clear()
    node.faults.drop_route(route)
    typed = operator(*arguments)
    assert typed.code == 5
    assert f"advertises {route} and does not serve it" in typed.err


def test_capabilities_without_endpoints_go_by_the_features(
    node: DeepServer, operator: Operator
) -> None:
    features = {"session_fork": True, "session_resources": True, "session_model_lock": False}
    node.faults.say("GET /v1/capabilities", json_reply({"features": features}))
    node.answers.sessions.rows["s-0"] = session_row(0)
    assert operator("sessions", "fork", "s-0").code == 0
    assert operator("sessions", "model", "s-0", "m").code == 1
    assert operator("skills", "list").code == 1


def test_a_server_without_capabilities_is_tried(node: DeepServer, operator: Operator) -> None:
    node.faults.drop_route("GET /v1/capabilities")
    assert operator("skills", "list").code == 0
    assert operator("sessions", "list").code == 0


def test_lists_that_are_left_in_the_middle_are_closed_without_a_word() -> None:
    """A pipe that closes (`| head -1`) leaves them to asyncio, which closes all generators at once."""

    class Old:
        async def capabilities(self) -> None:
            raise RouteNotFound("no such route", status=404)

    async def rows() -> AsyncIterator[int]:
        client: Any = Old()
        async with using(client, SESSIONS):
            yield 1

    async def left(kept: list[AsyncIterator[int]]) -> None:
        for _ in range(20):
            kept.append(rows())
            await anext(kept[-1])

    said: list[Any] = []
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(lambda _, context: said.append(context))
        kept: list[AsyncIterator[int]] = []
        runner.run(left(kept))
    assert said == []


# In a process of its own


def own_process(node: DeepServer, home: Path, *arguments: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
    ours = {"HERMES_GATEWAY_URL": node.url, "HERMES_GATEWAY_KEY": node.key, "HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-m", "hermes_ctl", *arguments],
        stdout=subprocess.PIPE,
        env={**kept, **ours, "PYTHONUNBUFFERED": "1"},
        text=True,
    )


def test_the_first_row_needs_one_page(node: DeepServer, tmp_path: Path) -> None:
    serve_pages(node, many(10_000))
    node.faults.hang(LIST, skip=1)
    with own_process(node, tmp_path, "sessions", "list") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("s-0\t"), "while the second page hangs"
        process.terminate()
        process.communicate(timeout=30)


MEMORY = """
import resource, sys
from hermes_ctl.main import main
code = main(sys.argv[1:])
sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
sys.exit(code)
"""


def memory(node: DeepServer, home: Path, *arguments: str) -> tuple[int, int]:
    """Lines that came, and the most memory that was used for them, in kB."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *arguments],
        env={**os.environ, "HERMES_GATEWAY_URL": node.url, "HERMES_GATEWAY_KEY": node.key,
             "HOME": str(home)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return len(done.stdout.splitlines()), int(done.stderr.splitlines()[-1])


def test_ten_thousand_sessions_take_no_more_memory_than_one_page(
    node: DeepServer, tmp_path: Path
) -> None:
    serve_pages(node, many(200))
    few, little = memory(node, tmp_path, "sessions", "list", "-o", "jsonl")
    serve_pages(node, many(10_000))
    lots, much = memory(node, tmp_path, "sessions", "list", "-o", "jsonl")
    assert (few, lots) == (200, 10_000)
    assert much - little < 8_000, f"{little} kB became {much} kB"
