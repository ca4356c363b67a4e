"""How the scripted model reads a conversation: pure functions, no network, no clock.

It obeys the last instruction of the user. Plain English, so that the same prompt works with a real
model (the checklists use these), or the directives of `directives.py`:

    Use your terminal tool once to run exactly this command: `COMMAND`. When it has finished,
    reply with exactly this and nothing else: TOKEN
    Count slowly from 1 to 600, one number per line, without using any tool.
    Reply with exactly this and nothing else: TOKEN
    Remember this word: WORD            (and in a later turn:)
    Which word did I ask you to remember?

An instruction that comes later wins: a steer, which Hermes appends to a tool result in its
out-of-band marker (0.20) or sends as a user message (0.22), is obeyed if it is one of the above
and otherwise only seen (`GET /lab/requests` shows it in `last`).
What Hermes asks for itself (session titles, reviews of commands) gets a short proper answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hermes_ctl.errors import UsageError
from hermes_ctl.lab.directives import directives, scripted_turns
from hermes_ctl.lab.turns import ToolCall, Turn, counted, spoken

_STEER = re.compile(
    r"\[OUT-OF-BAND USER MESSAGE[^\]]*\]\n(?P<text>.*?)\n\[/OUT-OF-BAND USER MESSAGE\]", re.DOTALL
)
_NOTICE = re.compile(r"\[(?:IMPORTANT: \d+ background|ASYNC DELEGATION)")
_COMMAND = re.compile(r"\brun exactly this command:\s*`(?P<command>[^`]+)`", re.IGNORECASE)
_TOKEN = re.compile(
    r"\breply with exactly this and nothing else:[ \t]*(?P<token>[^\n]+)", re.IGNORECASE
)
_COUNT = re.compile(r"\bcount slowly from (?P<first>\d+) to (?P<last>\d+)", re.IGNORECASE)
_REMEMBER = re.compile(r"\bremember this word: *(?P<word>[\w-]+)", re.IGNORECASE)
_RECALL = re.compile(r"\bwhich word did i ask you to remember", re.IGNORECASE)


# -- reading the conversation ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Instruction:
    """The user's text that is obeyed, and how many turns with tool calls followed it."""

    text: str
    turns_done: int = 0
    earlier: tuple[str, ...] = field(default=())


def text_of(content: object) -> str:
    """The text of a message's content: a string, or a list of typed parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def said_by_user(message: Mapping[str, Any]) -> str:
    """What the user said in this message: its text, or the steer at the end of a tool result."""
    text = text_of(message.get("content"))
    if message.get("role") == "user":
        return "" if is_notice(message) else text
    if message.get("role") == "tool":
        return "\n".join(match["text"] for match in _STEER.finditer(text))
    return ""


def is_notice(message: Mapping[str, Any]) -> bool:
    """Whether Hermes tells in the user's name that subagents have ended, their goals included:
    nothing in there is to be done again."""
    return message.get("role") == "user" and bool(_NOTICE.match(text_of(message.get("content"))))


def is_instruction(text: str) -> bool:
    patterns = (_COMMAND, _TOKEN, _COUNT, _REMEMBER, _RECALL)
    return "[[" in text or any(pattern.search(text) for pattern in patterns)


def last_instruction(messages: Sequence[Mapping[str, Any]]) -> Instruction:
    """The last user text that says what to do; without one, the last user text of all.

    A user message behind it that is no instruction is a steer that only has to be seen, unless
    the assistant has finished an answer in between: then a new turn of the user began.
    """
    said: list[str] = []
    current = Instruction("")
    answered = True
    for message in messages:
        text = said_by_user(message)
        if text and (answered or is_instruction(text)):
            current = Instruction(text, 0, tuple(said))
            answered = False
        if text:
            said.append(text)
        if message.get("role") != "assistant":
            continue
        if message.get("tool_calls"):
            current = Instruction(current.text, current.turns_done + 1, current.earlier)
        else:
            answered = True
    return current


# -- plain English --------------------------------------------------------------------------------


def english_turns(text: str, earlier: Sequence[str], tools: frozenset[str]) -> list[Turn]:
    """The turns of a cooperative model for the prompts named in the module's docstring."""
    command, token = _COMMAND.search(text), _TOKEN.search(text)
    answer = Turn((partial(spoken, _bare(token["token"])),)) if token else None
    if command and "terminal" not in tools:
        words = "I have no terminal tool. " + (_bare(token["token"]) if token else "")
        return [Turn((partial(spoken, words.strip()),))]
    if command:
        call = ToolCall("terminal", {"command": command["command"]})
        return [Turn(calls=(call,)), *([answer] if answer else [])]
    if answer:
        return [answer]
    if count := _COUNT.search(text):
        return [Turn((partial(counted, int(count["first"]), int(count["last"]), 0.2),))]
    return [Turn((partial(spoken, _small_talk(text, earlier)),))]


def _bare(token: str) -> str:
    return token.strip().strip("`\"'").strip()


def _small_talk(text: str, earlier: Sequence[str]) -> str:
    if word := _REMEMBER.search(text):
        return f"I will remember {word['word']}."
    if _RECALL.search(text):
        words = [match["word"] for said in earlier if (match := _REMEMBER.search(said))]
        return words[-1] if words else "You asked me to remember no word."
    return f"This is the scripted model of the lab. You said: {text[:200]}"


# -- requests that Hermes makes for itself --------------------------------------------------------


def purpose_of(request: Mapping[str, Any]) -> str:
    """What Hermes wants: `chat` for a user, or for itself a `title` of a session (0.19 asks for
    text, later releases for JSON) or the `review` of a flagged command (approvals in smart mode).
    """
    system = _system_text(request)
    if request.get("tools"):
        return "chat"
    if "APPROVE, DENY, or ESCALATE" in system:
        return "review"
    if "name chat sessions" in system or "descriptive title" in system:
        return "title"
    return "chat"


def auxiliary_answer(request: Mapping[str, Any]) -> str | None:
    """The answer to what Hermes asks for itself (a review passes the command on to the human);
    None for a chat."""
    purpose = purpose_of(request)
    if purpose == "review":
        return "ESCALATE"
    if purpose == "title":
        return json.dumps({"title": "Lab run"}) if "JSON" in _system_text(request) else "Lab run"
    return None


def _system_text(request: Mapping[str, Any]) -> str:
    return " ".join(text_of(m.get("content")) for m in _messages(request) if m["role"] == "system")


def _messages(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = request.get("messages") or []
    return [{"role": None, **message} for message in messages if isinstance(message, dict)]


def answer(request: Mapping[str, Any]) -> Turn:
    """The model's next turn in a chat completion request (the OpenAI body, parsed).

    Raises `UsageError` for a directive that does not exist or cannot be read.
    """
    auxiliary = auxiliary_answer(request)
    if auxiliary is not None:
        return Turn((partial(spoken, auxiliary),))
    messages = _messages(request)
    if messages and is_notice(messages[-1]):
        return Turn((partial(spoken, "Noted."),))
    instruction = last_instruction(messages)
    try:
        turns = (
            scripted_turns(instruction.text)
            if directives(instruction.text)
            else english_turns(instruction.text, instruction.earlier, offered_tools(request))
        )
    except (ValueError, UsageError) as failure:
        raise UsageError(f"the lab's model cannot read this prompt: {failure}") from failure
    if instruction.turns_done >= len(turns):
        return Turn((partial(spoken, "Done."),))
    turn = turns[instruction.turns_done]
    if turn.calls and not request.get("tools"):
        return Turn((*turn.parts, partial(spoken, f"I have no {turn.calls[0].name} tool.")))
    return turn


def offered_tools(request: Mapping[str, Any]) -> frozenset[str]:
    """The names of the tools that the request offers."""
    offered = request.get("tools") or []
    functions = [tool.get("function") or {} for tool in offered if isinstance(tool, dict)]
    return frozenset(str(function.get("name")) for function in functions)
