"""What the scripted model says to which conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_ctl.errors import UsageError
from hermes_ctl.lab.directives import directives, parse_size, scripted_turns
from hermes_ctl.lab.script import answer, purpose_of
from hermes_ctl.lab.turns import ToolCall, Turn

TERMINAL = [{"type": "function", "function": {"name": "terminal"}}]
CANARY = (
    "Use your terminal tool once to run exactly this command: `seq 1 20000`. When it has "
    "finished, reply with exactly this and nothing else: canary-7f3a"
)
RAN = {"role": "assistant", "tool_calls": [{"id": "1"}]}


def conversation(*messages: dict[str, Any] | str, tools: Any = TERMINAL) -> dict[str, Any]:
    said = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    system = {"role": "system", "content": "You are Hermes."}
    return {"model": "lab-model", "messages": [system, *said], "tools": tools}


def text(turn: Turn) -> str:
    return "".join(piece.text for piece in turn.pieces() if not piece.reasoning)


def result(content: str = "done") -> dict[str, Any]:
    return {"role": "tool", "content": content}


def test_canary_calls_the_terminal_then_says_the_token() -> None:
    first = answer(conversation(CANARY))
    assert first.calls == (ToolCall("terminal", {"command": "seq 1 20000"}),)
    assert text(first) == ""
    second = answer(conversation(CANARY, RAN, result("1\n2\n3")))
    assert (text(second), second.calls) == ("canary-7f3a", ())


@pytest.mark.parametrize("tools", [[], None, [{"function": {"name": "read_file"}}]])
def test_canary_without_a_terminal_is_answered_in_words(tools: Any) -> None:
    turn = answer(conversation(CANARY, tools=tools))
    assert turn.calls == ()
    assert text(turn) == "I have no terminal tool. canary-7f3a"


def test_tiny_prompt() -> None:
    assert (
        text(answer(conversation("Reply with exactly this and nothing else: `tok-1`"))) == "tok-1"
    )


def test_text_parts_are_read_like_a_string() -> None:
    parts = [{"type": "text", "text": "Reply with exactly this and nothing else: tok-2"}]
    assert text(answer(conversation({"role": "user", "content": parts}))) == "tok-2"


def test_counting_is_slow_and_a_line_a_number() -> None:
    turn = answer(conversation("Count slowly from 1 to 600, one number per line."))
    pieces = list(turn.pieces())
    assert [piece.text for piece in pieces[:3]] == ["1\n", "2\n", "3\n"]
    assert len(pieces) == 600
    assert {piece.pause for piece in pieces} == {0.2}


def test_ordinary_talk_runs_nothing() -> None:
    turn = answer(conversation("Please do not run `rm -rf build`."))
    assert turn.calls == ()
    assert "do not run" in text(turn)


def test_word_is_remembered_over_turns() -> None:
    talk = ("Remember this word: zebra42", {"role": "assistant", "content": "I will."})
    question = "Which word did I ask you to remember?"
    assert text(answer(conversation(*talk, question))) == "zebra42"
    assert "no word" in text(answer(conversation(question)))


def test_later_turn_is_not_mistaken_for_a_steer() -> None:
    done = {"role": "assistant", "content": "tok-1"}
    talk = conversation("Reply with exactly this and nothing else: tok-1", done, "Hello")
    assert text(answer(talk)).endswith("You said: Hello")


STEER = (
    "\n\n[OUT-OF-BAND USER MESSAGE — a direct message from the user]\n{}\n"
    "[/OUT-OF-BAND USER MESSAGE]"
)


@pytest.mark.parametrize("in_result", [True, False], ids=["0.20", "0.22"])
def test_steer_that_instructs_is_obeyed(in_result: bool) -> None:
    steer = STEER.format("Reply with exactly this and nothing else: STEERED")
    behind = (
        [result("out" + steer)]
        if in_result
        else [result("out"), {"role": "user", "content": steer}]
    )
    talk = conversation("[[run sleep 3]] [[say not steered]]", RAN, *behind)
    assert text(answer(talk)) == "STEERED"


@pytest.mark.parametrize("in_result", [True, False], ids=["0.20", "0.22"])
def test_other_steer_is_only_seen(in_result: bool) -> None:
    steer = STEER.format("be kind")
    behind = (
        [result("out" + steer)]
        if in_result
        else [result("out"), {"role": "user", "content": steer}]
    )
    talk = conversation("[[run sleep 3]] [[say as planned]]", RAN, *behind)
    assert text(answer(talk)) == "as planned"


@pytest.mark.parametrize(
    "notice",
    [
        "[IMPORTANT: 2 background subagent delegations completed] goal: [[approve-me a]]",
        "[ASYNC DELEGATION BATCH COMPLETE — deleg_1]\ngoal: [[run echo child]]",
    ],
)
def test_notice_of_ended_subagents_is_no_instruction(notice: str) -> None:
    turn = answer(
        conversation("[[delegate [[run echo child]]]] [[count 60]]", RAN, result(), notice)
    )
    assert (text(turn), turn.calls) == ("Noted.", ())


def test_title_in_each_form() -> None:
    user = {"role": "user", "content": "[[silent 30s]]"}
    old = {"role": "system", "content": "Generate a short, descriptive title (3-7 words)"}
    new = {"role": "system", "content": 'You name chat sessions. Reply with JSON only: {"title"'}
    assert text(answer({"messages": [old, user]})) == "Lab run"
    assert json.loads(text(answer({"messages": [new, user]}))) == {"title": "Lab run"}
    assert purpose_of({"messages": [new, user]}) == "title"


def test_review_of_a_command_goes_to_the_human() -> None:
    review = {"role": "system", "content": "Respond with one word: APPROVE, DENY, or ESCALATE"}
    request = {"messages": [review, {"role": "user", "content": "rm -rf build"}]}
    assert (purpose_of(request), text(answer(request))) == ("review", "ESCALATE")


# -- directives -----------------------------------------------------------------------------------


def test_turns_end_at_tool_calls() -> None:
    turns = scripted_turns("[[say Look.]] [[run a]] [[run b]] + [[run c]] [[say End.]]")
    assert [[call.arguments["command"] for call in turn.calls] for turn in turns] == [
        ["a"],
        ["b", "c"],
        [],
    ]
    assert [text(turn) for turn in turns] == ["Look.", "", "End."]


def test_script_is_followed_turn_by_turn() -> None:
    prompt = "[[run a]] [[run b]]"
    assert answer(conversation(prompt)).calls[0].arguments == {"command": "a"}
    assert answer(conversation(prompt, RAN, result())).calls[0].arguments == {"command": "b"}
    assert text(answer(conversation(prompt, RAN, result(), RAN, result()))) == "Done."


def test_directives_nest() -> None:
    assert directives("[[delegate [[approve-me a]] [[say b]]]] + [[run [[ -d x ]] && ls]]") == [
        ("delegate [[approve-me a]] [[say b]]", False),
        ("run [[ -d x ]] && ls", True),
    ]


def test_every_directive() -> None:
    def only(prompt: str) -> Turn:
        (turn,) = scripted_turns(prompt)
        return turn

    assert [piece.text for piece in only("[[count 2 every 1s]]").pieces()] == ["1\n", "2\n"]
    assert next(only("[[count 2 every 1s]]").pieces()).pause == 1.0
    assert len(text(only("[[words 250]]")).split()) == 250
    assert len(set(text(only("[[size 200kB]]")).splitlines())) == 200_000 // 64
    assert len(text(only("[[size 200kB]]"))) == 200_000
    assert [p.reasoning for p in only("[[reasoning hm]] [[say x]]").pieces()] == [True, False]
    assert next(only("[[silent 3s]] [[say x]]").pieces()).pause == 3.0
    assert (text(only("[[empty]]")), only("[[empty]]").usage) == ("", True)
    assert only("[[no-usage]] [[say x]]").usage is False
    assert only("[[status 503]]").status == 503
    assert only("[[approve-me x]]").calls[0].arguments["command"] == "rm -rf ./lab-scratch/x"
    assert only("[[delegate g]]").calls[0] == ToolCall("delegate_task", {"goal": "g"})
    assert only('[[call nothing {"a": 1}]]').calls[0] == ToolCall("nothing", {"a": 1})


@pytest.mark.parametrize(
    "prompt", ["[[dance]]", "[[count many]]", "[[silent soon]]", "[[size big]]", "[[call t {]]"]
)
def test_unreadable_directive_is_named(prompt: str) -> None:
    with pytest.raises(UsageError, match="cannot read this prompt"):
        answer(conversation(prompt))


@pytest.mark.parametrize(
    ("written", "size"), [("10", 10), ("10B", 10), ("64kB", 64_000), ("1.5MB", 1_500_000)]
)
def test_sizes(written: str, size: int) -> None:
    assert parse_size(written) == size
