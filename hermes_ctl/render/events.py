"""How a followed run looks: its story on standard error, its answer alone on standard output."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from hermes_ctl.durations import format_duration
from hermes_ctl.render.answer import SafeText, Segment
from hermes_ctl.render.console import Screen, cell
from hermes_ctl.render.run_end import write_end
from hermes_ctl.runs.happenings import (
    Approval,
    ApprovalRequested,
    ApprovalResponded,
    BrokenEvent,
    Delta,
    Ended,
    Happening,
    Interim,
    Notice,
    Progress,
    Reasoning,
    StateChanged,
    Steered,
    SubagentCompleted,
    SubagentStarted,
    ToolCompleted,
    ToolStarted,
    UnknownEvent,
)
from hermes_ctl.runs.result import Result
from hermes_ctl.secrets import without_known
from hermes_ctl.text import visible

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_LABEL = 10
_WIDEST = 96
_PREVIEW_IN_PIPE = 300
_REFRESH = 6
_BEHIND_QUESTION = 100_000


class RunView(Protocol):
    """Shows one run. Give it every happening; `flush` when no other is at hand; `close` always.

    `begin` names the run, with a few words about it; `started` says that it was submitted here.
    """

    def begin(self, run_id: str, about: str, /, *, started: bool) -> None: ...

    def show(self, happening: Happening) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class TextRunView:
    """For people. On a terminal the answer is streamed, with a line below that tells what goes on;
    in a pipe it is written whole at the end, exactly as the status route gives it. `more` is the
    command that tells more of it afterwards, by default its status."""

    def __init__(
        self, screen: Screen, *, show_reasoning: bool = False, more: str | None = None
    ) -> None:
        self.screen = screen
        self._more = more
        self._show_reasoning = show_reasoning
        self._streams = screen.is_terminal
        self._began = time.monotonic()
        self._state = "submitted"
        self._doing = ""
        self._last_event = ""
        self._tool: ToolStarted | None = None
        self._last_tool: ToolStarted | None = None
        self._question = ""
        self._behind = ""
        self._safe = SafeText()
        self._segment = Segment()
        self._streamed = False
        self._column_zero = True
        self._live: Live | None = None
        self._closed = False

    def begin(self, run_id: str, about: str, /, *, started: bool) -> None:
        if not started:
            self._state = "asking"
        if not self.screen.quiet:
            from rich.text import Text

            line = Text(cell(run_id), style="bold")
            line.append(f"  {cell(about)}" if about else "", style="not bold dim")
            self.screen.err.print(line, soft_wrap=True)
        self._resume()

    def show(self, happening: Happening) -> None:
        if isinstance(happening, Delta):
            self._delta(happening.text)
        elif isinstance(happening, ToolStarted):
            self._tool_started(happening)
        elif isinstance(happening, ToolCompleted):
            self._tool_completed(happening)
        elif isinstance(happening, StateChanged):
            self._state_changed(happening)
        elif isinstance(happening, Progress):
            self._last_event = cell(happening.run.last_event or "", 40)
        elif isinstance(happening, Notice):
            self.say(self._mark("warned"), happening.kind, happening.text, style="yellow")
        elif isinstance(happening, ApprovalRequested):
            self._approval(happening.approval)
        elif isinstance(happening, Ended):
            self._ended(happening.result)
        else:
            self._seldom(happening)

    def flush(self) -> None:
        """Nothing is held back but half a key."""

    def close(self) -> None:
        """Give the terminal back, whatever happened, for good: a question may be released later."""
        self._closed = True
        self.withdraw()
        self._pause()
        self._to_column_zero()

    # Lines on standard error

    def say(
        self,
        mark: str,
        label: str,
        text: str,
        *,
        style: str = "",
        seconds: float | None = None,
        indent: int = 0,
        always: bool = False,
    ) -> None:
        """One line of the story: a mark, what it is about, the text, and how long it took."""
        if self.screen.quiet and not always:
            return
        from rich.text import Text

        self._finish_tool()
        self._to_column_zero()
        if self._question:
            self.screen.stderr.write("\n")
        terminal = self.screen.error_is_terminal
        limit = None if terminal else _PREVIEW_IN_PIPE
        line = Text("  " + "  " * indent)
        line.append(f"{mark} ", style=style)
        line.append(f"{cell(label):{_LABEL}} ", style=style)
        line.append(cell(text, limit))
        taken = "" if seconds is None else format_duration(seconds)
        self.screen.err.print(self._fitted(line, taken), soft_wrap=not terminal)
        self._put_question()

    def _fitted(self, line: Text, taken: str) -> Text:
        """`line` in the width there is, what it took at its right margin."""
        if not self.screen.error_is_terminal:
            return line.append(f"  {taken}") if taken else line
        width = min(self.screen.err.width, _WIDEST)
        if not taken:
            return line
        line.truncate(width - len(taken) - 2, overflow="ellipsis", pad=True)
        line.append(f"  {taken}", style="dim")
        return line

    def _mark(self, name: str) -> str:
        return str(getattr(self.screen.error_marks, name))

    # The answer on standard output

    def _delta(self, text: str) -> None:
        self._segment.add(text)
        if not self._streams:
            self._doing = "answering"
            return
        if self._question and len(self._behind) < _BEHIND_QUESTION:
            self._behind += text
            return
        self._write_delta(text)

    def _write_delta(self, text: str) -> None:
        self._pause()
        self._finish_tool()
        shown = self._safe.feed(text)
        if self._column_zero:
            shown = shown.lstrip("\n")
        if shown:
            self._streamed = True
            self.screen.write(shown)
            self._column_zero = shown.endswith("\n")

    def _new_segment(self) -> None:
        rest = self._safe.rest()
        if rest and self._streams:
            self.screen.write(rest)
            self._column_zero = rest.endswith("\n")
        self._segment = Segment()

    def _to_column_zero(self) -> None:
        if not self._column_zero:
            self.screen.write("\n")
            self._column_zero = True

    def _answer(self, output: str) -> None:
        """The whole output, unless just that was streamed."""
        rest = self._safe.rest()
        if self._streams and self._segment.is_output(output):
            self.screen.write(rest)
            self._column_zero = self._column_zero and not rest
            self._to_column_zero()
            return
        self._to_column_zero()
        if self._streamed:
            self.say(
                self._mark("warned"), "answer", "not all of it was streamed; this is the whole:"
            )
        text = visible(without_known(output))
        self.screen.write(text if text.endswith("\n") else text + "\n")

    # What happens

    def _state_changed(self, changed: StateChanged) -> None:
        run = changed.run
        self._state = cell(run.status, 60).replace("_", " ")
        if not run.is_terminal and self._column_zero:
            self._resume()

    def _tool_started(self, started: ToolStarted) -> None:
        self._finish_tool()
        self._new_segment()
        self._tool = self._last_tool = started
        self._doing = f"{cell(started.tool, 20)}: {cell(started.preview, 60)}"
        if not self.screen.animates:
            self._finish_tool()
        else:
            self._to_column_zero()
            self._resume()

    def _finish_tool(self) -> None:
        """Write the line of a tool that was started, now that something else has to be said."""
        if self._tool is not None:
            tool, self._tool = self._tool, None
            self.say(self._mark("tool"), tool.tool, tool.preview, style="cyan")

    def _tool_completed(self, completed: ToolCompleted) -> None:
        preview, started = "", self._last_tool
        if started is not None and started.tool == completed.tool:
            preview, self._tool, self._last_tool = started.preview, None, None
        failed = completed.failed
        self.say(
            self._mark("failed" if failed else "tool"),
            completed.tool,
            f"{preview}  failed".strip() if failed else preview or "done",
            style="red" if failed else "cyan",
            seconds=completed.seconds,
        )
        self._doing = ""
        self._resume()

    def _approval(self, approval: Approval) -> None:
        command = approval.command
        if command is None:
            text = (
                "the run waits for one; its request went to another reader, or to nobody: "
                "hermesctl approvals shows what is known of it"
            )
        else:
            text = command + (f" ({approval.description})" if approval.description else "")
        self._doing = "waits for an approval"
        self.say(self._mark("approval"), "approval", text, style="bold yellow", always=True)

    def _seldom(self, happening: Happening) -> None:
        tool = self._mark("tool")
        if isinstance(happening, SubagentStarted):
            part = f"  {happening.index + 1} of {happening.count}" if happening.count > 1 else ""
            self.say(tool, "subagent", happening.goal + part, indent=_depth(happening.depth))
        elif isinstance(happening, SubagentCompleted):
            self._subagent_completed(happening)
        elif isinstance(happening, ApprovalResponded):
            many = f" ({happening.resolved} requests)" if happening.resolved > 1 else ""
            self.say(self._mark("approval"), "answered", happening.choice + many, style="yellow")
            self._resume()
        elif isinstance(happening, Steered):
            self.say(tool, "steered", "a text was accepted, and is not delivered yet")
        elif isinstance(happening, Interim):
            if not happening.streamed:
                self._delta(happening.text)
        elif isinstance(happening, Reasoning):
            if self._show_reasoning and not self._segment.repeats(happening.text):
                self.say(tool, "reasoning", happening.text, style="dim")
        elif isinstance(happening, UnknownEvent):
            event = happening.event
            self.say(self._mark("unknown"), event.name, self.screen.json(event.data), style="dim")
        elif isinstance(happening, BrokenEvent):
            self.screen.detail(f"broken event: {happening.frame.raw[:500]}")

    def _subagent_completed(self, completed: SubagentCompleted) -> None:
        well = completed.status == "completed"
        tokens = f", {completed.tokens:,} tokens" if completed.tokens else ""
        self.say(
            self._mark("passed" if well else "failed"),
            "subagent",
            f"{completed.goal}  {completed.status or 'ended'}{tokens}",
            style="" if well else "red",
            seconds=completed.seconds,
            indent=_depth(completed.depth),
        )

    def _ended(self, result: Result) -> None:
        self.withdraw()
        self._pause()
        self._finish_tool()
        if result.output:
            self._answer(result.output)
        else:
            self._to_column_zero()
        write_end(self.screen, result, time.monotonic() - self._began, more=self._more)

    # The line that moves

    def _resume(self) -> None:
        if self._closed or self._question or not self.screen.animates or not self._column_zero:
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._status_line,
                console=self.screen.err,
                refresh_per_second=_REFRESH,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def hold(self, question: str) -> None:
        """Put a question where the moving line was; what else is said comes above it."""
        self._pause()
        self._finish_tool()
        self._to_column_zero()
        self._question = question
        self._put_question()

    def withdraw(self) -> None:
        """Leave the line of the question, which nobody will answer, and go on as released."""
        if self._question:
            self.screen.stderr.write("\n")
            self.release()

    def release(self) -> None:
        """The question was answered, or is none any more; on with what came meanwhile."""
        self._question = ""
        behind, self._behind = self._behind, ""
        if behind:
            self._write_delta(behind)
        self._resume()

    def _put_question(self) -> None:
        if self._question:
            self.screen.stderr.write(f"               {self._question} ")
            self.screen.stderr.flush()

    def _pause(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _status_line(self) -> Text:
        from rich.text import Text

        elapsed = format_duration(time.monotonic() - self._began)
        doing = self._doing or self._last_event
        parts = [part for part in (self._state, elapsed, doing) if part]
        line = Text(f"  {self._mark('running')} " + "  ".join(parts), style="dim")
        line.truncate(self.screen.err.width - 1, overflow="ellipsis")
        return line


def _depth(depth: int) -> int:
    return 1 + max(0, min(depth, 8))
