"""What the scripted model says to a conversation: pure functions, no network, no clock.

The model reads the last instruction of the conversation. Plain English first, so that the same
prompt works with a real model (the checklists use these):

    Use your terminal tool once to run exactly this command: `COMMAND`. When it has finished,
    reply with exactly this and nothing else: TOKEN
    Count slowly from 1 to 600, one number per line, without using any tool.
    Reply with exactly this and nothing else: TOKEN
    Remember this word: WORD            (and in a later turn:)
    Which word did I ask you to remember?

A prompt that holds directives in double brackets obeys those alone, in the order they stand:

    [[say TEXT]]              text, a few characters at a time
    [[count N every 200ms]]   1 to N, one number a line (`every ...` may be left out: 200 ms)
    [[words N]]               N different words, without a pause
    [[size 50MB]]             that much text in distinct lines, without a pause (B, kB, MB)
    [[reasoning TEXT]]        provider reasoning (`reasoning_content`)
    [[silent 30s]]            nothing for that long, then what follows
    [[empty]]                 an empty answer with zero usage
    [[status 500]]            the provider answers with this HTTP status and a body that names it
    [[run COMMAND]]           calls the `terminal` tool
    [[approve-me NAME]]       calls `terminal` with `rm -rf ./lab-scratch/NAME`: "recursive delete",
                              flagged in manual mode by 0.19.0, 0.20.4.post1 and 0.22.2.post1, and
                              harmless, as there is no such folder. NAME may be left out.
    [[delegate GOAL]]         calls `delegate_task`; GOAL may hold directives for the subagent
    [[call TOOL {"a": 1}]]    calls any tool with these arguments, one that does not exist included

A tool call ends the model's turn, the directives behind it are for the next one; text before it in
the same turn stands beside the call. Calls joined with `+` are made in one turn:
`[[run a]] + [[run b]]`; `[[run a]] [[run b]]` makes them one after the other. When nothing is left
to do after a tool call, the answer is `Done.`

An instruction that comes later wins: a steer, which Hermes appends to a tool result in its
out-of-band marker (0.20) or sends as a user message (0.22), is obeyed if it is one of the above
and otherwise only seen (`GET /lab/requests` shows it in `last`).
Requests without the user's own words (session titles, reviews of commands) get a short proper answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hermes_ctl.durations import parse_duration
from hermes_ctl.errors import UsageError

PAUSE = 0.015
"""Seconds between two chunks of ordinary text."""

APPROVAL_COMMAND = "rm -rf ./lab-scratch/{name}"

_STEER = re.compile(
    r"\[OUT-OF-BAND USER MESSAGE[^\]]*\]\n(?P<text>.*?)\n\[/OUT-OF-BAND USER MESSAGE\]", re.DOTALL
)
_COMMAND = re.compile(r"\b(?:run|execute)\b[^`]{0,80}`(?P<command>[^`]+)`", re.IGNORECASE)
_TOKEN = re.compile(
    r"\breply with exactly this and nothing else:[ \t]*(?P<token>[^\n]+)", re.IGNORECASE
)
_COUNT = re.compile(r"\bcount slowly from (?P<first>\d+) to (?P<last>\d+)", re.IGNORECASE)
_REMEMBER = re.compile(r"\bremember this word: *(?P<word>[\w-]+)", re.IGNORECASE)
_RECALL = re.compile(r"\bwhich word did i ask you to remember", re.IGNORECASE)
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|kB|MB)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk of a streamed answer, `pause` seconds after the one before."""

    text: str
    pause: float = PAUSE
    reasoning: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: Mapping[str, Any]


Part = Callable[[], Iterator[Piece]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: text (made while it is sent, it may be large), then tool calls.

    `status` other than 200 is an error of the provider instead; `usage` False means zero usage.
    """

    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    status: int = 200
    usage: bool = True

    def pieces(self) -> Iterator[Piece]:
        for part in self.parts:
            yield from part()


def spoken(text: str, *, reasoning: bool = False) -> Iterator[Piece]:
    """`text` in chunks of a few characters, at most some twenty, so that a long one is not slow."""
    step = max(4, -(-len(text) // 20))
    for start in range(0, len(text), step):
        yield Piece(text[start : start + step], reasoning=reasoning)


def counted(first: int, last: int, every: float) -> Iterator[Piece]:
    for number in range(first, last + 1):
        yield Piece(f"{number}\n", pause=every)


def numbered_words(count: int) -> Iterator[Piece]:
    for start in range(1, count + 1, 100):
        words = (f"word{number}" for number in range(start, min(start + 100, count + 1)))
        yield Piece(" ".join(words) + " ", pause=0.0)


def bulk(size: int) -> Iterator[Piece]:
    """`size` bytes of ASCII text in numbered lines of 64 bytes, sent in pieces of 64 KiB."""
    sent = 0
    while sent < size:
        first = sent // 64
        lines = "".join(f"line {number:09d} {'.' * 48}\n" for number in range(first, first + 1024))
        yield Piece(lines[: size - sent], pause=0.0)
        sent += len(lines)


def silence(seconds: float) -> Iterator[Piece]:
    yield Piece("", pause=seconds)


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
        return text
    if message.get("role") == "tool":
        return "\n".join(match["text"] for match in _STEER.finditer(text))
    return ""


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


# -- directives -----------------------------------------------------------------------------------


def directives(text: str) -> list[tuple[str, bool]]:
    """Each `[[...]]` at the outermost level: its inside, and whether a `+` joins it to the last."""
    found: list[tuple[str, bool]] = []
    depth = start = end = 0
    for match in re.finditer(r"\[\[|\]\]", text):
        if match.group() == "[[":
            if depth == 0:
                start = match.end()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                before = text[end : start - 2].strip()
                found.append((text[start : match.start()].strip(), bool(found) and before == "+"))
                end = match.end()
    return found


def scripted_turns(text: str) -> list[Turn]:
    """The turns that the directives in `text` ask for."""
    turns: list[Turn] = []
    parts: list[Part] = []
    for inside, joined in directives(text):
        word, _, rest = inside.partition(" ")
        call = _tool_call(word, rest.strip())
        if call is None:
            turn = _special(word, rest.strip())
            if turn is not None:
                turns.append(Turn(tuple(parts), turn.calls, turn.status, turn.usage))
                parts = []
                continue
            parts.append(_part(word, rest.strip()))
        elif joined and not parts and turns and turns[-1].calls:
            turns[-1] = Turn(turns[-1].parts, (*turns[-1].calls, call))
        else:
            turns.append(Turn(tuple(parts), (call,)))
            parts = []
    if parts:
        turns.append(Turn(tuple(parts)))
    return turns


def _tool_call(word: str, rest: str) -> ToolCall | None:
    if word == "run":
        return ToolCall("terminal", {"command": rest})
    if word == "approve-me":
        return ToolCall("terminal", {"command": APPROVAL_COMMAND.format(name=rest or "folder")})
    if word == "delegate":
        return ToolCall("delegate_task", {"goal": rest})
    if word == "call":
        name, _, arguments = rest.partition(" ")
        return ToolCall(name, json.loads(arguments or "{}"))
    return None


def _special(word: str, rest: str) -> Turn | None:
    if word == "status":
        return Turn(status=int(rest))
    if word == "empty":
        return Turn(usage=False)
    return None


def _part(word: str, rest: str) -> Part:
    if word == "say":
        return partial(spoken, rest)
    if word == "reasoning":
        return partial(spoken, rest, reasoning=True)
    if word == "silent":
        return partial(silence, parse_duration(rest))
    if word == "count":
        number, _, every = rest.partition(" every ")
        return partial(counted, 1, int(number), parse_duration(every or "200ms"))
    if word == "words":
        return partial(numbered_words, int(rest))
    if word == "size":
        return partial(bulk, parse_size(rest))
    raise UsageError(f"the lab's model knows no directive [[{word}]]")


def parse_size(text: str) -> int:
    """Bytes for `10B`, `64kB`, `50MB` (powers of ten) or a plain number."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size")
    factor = {"": 1, "b": 1, "kb": 1000, "mb": 1000_000}[(match["unit"] or "").lower()]
    return int(float(match["number"]) * factor)


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
    instruction = last_instruction(_messages(request))
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
