"""Where reports go: the files that were asked for, and what GitHub's variables ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_ctl import config
from hermes_ctl.errors import Undetermined
from hermes_ctl.secrets import redact

if TYPE_CHECKING:
    from hermes_ctl.render.console import Screen
    from hermes_ctl.report.forms import AnyReport


@contextlib.contextmanager
def reports(wanted: Sequence[str], screen: Screen) -> Iterator[Callable[[AnyReport], None]]:
    """Open every `FORM=FILE` of `wanted`, and yield what publishes the report.

    In a GitHub workflow (`GITHUB_ACTIONS=true`) annotations go to standard error, and the report as
    Markdown to the step summary. Raises `UsageError` before anything is sent for a form or a file
    that cannot be.
    """
    from hermes_ctl.report.files import report_files

    environment = config.environment()
    on_github = environment.get("GITHUB_ACTIONS") == "true"
    summary = environment.get("GITHUB_STEP_SUMMARY") if on_github else None

    with report_files(wanted) as write_files:

        def publish(report: AnyReport) -> None:
            write_files(report)
            if on_github:
                from hermes_ctl.report import github

                for line in github.workflow_commands(report):
                    screen.say(line)
            if summary:
                _append(Path(summary), report)

        yield publish


def _append(path: Path, report: AnyReport) -> None:
    from hermes_ctl.report import markdown

    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(redact(markdown.text(report)) + "\n")
    except OSError as error:
        raise Undetermined(
            f"the step summary {path} was not written: {error.strerror}",
            hint="the runner of GitHub names it in GITHUB_STEP_SUMMARY",
        ) from None
