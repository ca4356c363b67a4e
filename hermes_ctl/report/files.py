"""Report files: opened before the first request, written atomically, whatever the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_ctl.drafts import Draft, draft
from hermes_ctl.errors import Undetermined, UsageError
from hermes_ctl.secrets import redact

if TYPE_CHECKING:
    from hermes_ctl.report.forms import AnyReport


@dataclass(frozen=True, slots=True)
class ReportFile:
    """One report, in the form and under the name that were asked for."""

    form: str
    name: str
    draft: Draft


@contextlib.contextmanager
def report_files(wanted: Sequence[str]) -> Iterator[Callable[[AnyReport], None]]:
    """Open every `FORM=FILE` of `wanted`, and yield what writes the report to all of them.

    Raises `UsageError` before anything is sent when a form is unknown or a file cannot be made.
    A file appears whole or not at all.
    """
    files: list[ReportFile] = []
    try:
        for item in wanted:
            file = _open(item)
            files.append(file)
            if sum(file.draft.place == other.draft.place for other in files) > 1:
                raise UsageError(
                    f"the report file {file.name} is named twice", hint="a file for each form"
                )
        yield lambda report: _write_all(files, report)
    finally:
        for file in files:
            file.draft.discard()


def _open(item: str) -> ReportFile:
    form, separator, name = item.partition("=")
    if not separator or not name:
        raise UsageError(f"--report {item!r} is not FORM=FILE", hint="for example json=report.json")
    from hermes_ctl.report.forms import writer

    writer(form)
    made = draft(name, "the report", instead="name a file; -o json prints the report")
    return ReportFile(form, name, made)


def _write_all(files: Sequence[ReportFile], report: AnyReport) -> None:
    """Raises `Undetermined` for those that could not be written, once the others are."""
    failed = []
    for file in files:
        try:
            with file.draft.temporary.open("w", encoding="utf-8") as stream:
                stream.writelines(_pieces(file.form, report))
            file.draft.temporary.chmod(0o644)
            file.draft.publish()
        except OSError as error:
            failed.append(f"the report {file.name} was not written: {error.strerror}")
    if failed:
        raise Undetermined("; ".join(failed), hint="name another file, or make room for it")


def _pieces(form: str, report: AnyReport) -> Iterable[str]:
    if form == "json":
        from hermes_ctl.report import json

        return json.pieces(report)
    from hermes_ctl.report.forms import writer

    return [redact(writer(form)(report))]
