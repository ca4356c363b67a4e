"""Report files: opened before the first request, written atomically, whatever the verdict."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_ctl.errors import Undetermined, UsageError
from hermes_ctl.secrets import redact

if TYPE_CHECKING:
    from hermes_ctl.report.forms import AnyReport


@dataclass(slots=True)
class ReportFile:
    """One report that will be written to `path`, where `name` leads: `temporary` is where it grows."""

    form: str
    name: str
    path: Path
    temporary: Path


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
            if sum(file.path == other.path for other in files) > 1:
                raise UsageError(
                    f"the report file {file.name} is named twice", hint="a file for each form"
                )
        yield lambda report: _write_all(files, report)
    finally:
        for file in files:
            file.temporary.unlink(missing_ok=True)


def _open(item: str) -> ReportFile:
    form, separator, name = item.partition("=")
    if not separator or not name:
        raise UsageError(f"--report {item!r} is not FORM=FILE", hint="for example json=report.json")
    from hermes_ctl.report.forms import writer

    writer(form)
    path = Path(name).resolve()
    if path.is_dir():
        raise UsageError(f"the report {name} is a folder", hint="name a file")
    if name == "-" or (path.exists() and not path.is_file()) or _is_ours(path):
        raise UsageError(
            f"the report {name} is no ordinary file, which can be replaced as a whole",
            hint="name a file; -o json prints the report",
        )
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UsageError(
            f"the report {name} cannot be written: {error.strerror}", hint="name another file"
        ) from None
    os.close(handle)
    return ReportFile(form, name, path, Path(temporary))


def _is_ours(path: Path) -> bool:
    """Whether it is what this process reads or writes already: /dev/stdout leads to an ordinary file
    where a shell redirects it."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return True
    return False


def _write_all(files: Sequence[ReportFile], report: AnyReport) -> None:
    """Raises `Undetermined` for those that could not be written, once the others are."""
    failed = []
    for file in files:
        try:
            with file.temporary.open("w", encoding="utf-8") as stream:
                stream.writelines(_pieces(file.form, report))
            file.temporary.chmod(0o644)
            file.temporary.replace(file.path)
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
