"""The little language by which a test tells the scripted model exactly what to do.

A prompt that holds directives in double brackets obeys those alone, in the order they stand:

    [[say TEXT]]              text, a few characters at a time
    [[count N every 200ms]]   1 to N, one number a line (`every ...` may be left out: 200 ms)
    [[words N]]               N different words, without a pause
    [[size 50MB]]             that much text in distinct lines, without a pause (B, kB, MB)
    [[reasoning TEXT]]        provider reasoning (`reasoning_content`)
    [[silent 30s]]            nothing for that long, then what follows
    [[empty]]                 an answer without text; Hermes asks again and gives up (0.20.4: 7 s)
    [[no-usage]]              anywhere: the provider states no usage, so the run ends with 0 tokens
                              (together with `[[empty]]`, 0.20.4 gives up after 50 s)
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

Two approvals that wait at once (0.20 and later; 0.19 runs subagents one after the other and asks
nobody):

    [[delegate [[approve-me a]]]] + [[delegate [[approve-me b]]]] [[count 60]]
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

from hermes_ctl.durations import parse_duration
from hermes_ctl.errors import UsageError
from hermes_ctl.lab.turns import (
    Part,
    ToolCall,
    Turn,
    bulk,
    counted,
    numbered_words,
    silence,
    spoken,
)

APPROVAL_COMMAND = "rm -rf ./lab-scratch/{name}"

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>B|kB|MB)?", re.IGNORECASE)


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
    """The turns that the directives in `text` ask for; raises `UsageError` for what is none."""
    turns: list[Turn] = []
    current = Turn()
    usage = True
    for inside, joined in directives(text):
        word, _, rest = inside.partition(" ")
        call = _tool_call(word, rest.strip())
        if word == "no-usage":
            usage = False
        elif word in ("empty", "status"):
            turns.append(replace(current, status=int(rest) if word == "status" else 200))
            current = Turn()
        elif call is None:
            current = replace(current, parts=(*current.parts, _part(word, rest.strip())))
        elif joined and turns and turns[-1].calls and not current.parts:
            turns[-1] = replace(turns[-1], calls=(*turns[-1].calls, call))
        else:
            turns.append(replace(current, calls=(call,)))
            current = Turn()
    if current.parts:
        turns.append(current)
    return [replace(turn, usage=usage) for turn in turns]


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
