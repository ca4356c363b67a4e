"""Scheduled jobs: create, read, pause, resume, change, delete."""

from __future__ import annotations

from hermes_ctl.api.answers import Answer
from hermes_ctl.checks.deep import ask, deep, field_of, not_offered, text_field, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import HermesctlError

_LIST = "/api/jobs"
_ONE = "/api/jobs/{job_id}"
_NEXT_YEAR = "0 0 1 1 *"
_LOG = "look at the node's log: its jobs file may be broken or read-only"


async def work(subject: Subject, trail: Trail) -> str:
    """One job that is not due before next year. It is deleted on every way out."""
    listed = await subject.client.request("GET", _LIST)
    if listed.status == 404 and listed.content_type == "text/plain":
        raise not_offered("this node serves no jobs")
    body = {"name": f"hermesctl {subject.nonce}", "prompt": "Say ok.", "schedule": _NEXT_YEAR}
    made = await ask(subject, trail, "POST", _LIST, 200, 201, json=body)
    job_id = text_field(made, "job", "id")
    try:
        await _live(subject, trail, job_id)
    except BaseException:
        await _quietly_delete(subject, job_id)
        raise
    await ask(subject, trail, "DELETE", _ONE, 200, values={"job_id": job_id})
    gone = await ask(subject, trail, "GET", _ONE, 404, values={"job_id": job_id})
    subject.recorder.error("a job that there is not", gone)
    return "created, read, paused, resumed, renamed, deleted"


async def _live(subject: Subject, trail: Trail, job_id: str) -> None:
    values = {"job_id": job_id}
    read = await ask(subject, trail, "GET", _ONE, 200, values=values)
    if field_of(read, "job", "id") != job_id:
        raise wrong("a job was asked for, and another one came")
    if job_id not in _ids(await ask(subject, trail, "GET", _LIST, 200)):
        raise wrong("the job that was just made is not in the list")
    paused = await ask(subject, trail, "POST", _ONE + "/pause", 200, values=values)
    if _runs_on(paused):
        raise wrong("the job was paused, and is still enabled")
    resumed = await ask(subject, trail, "POST", _ONE + "/resume", 200, values=values)
    if not _runs_on(resumed):
        raise wrong("the job was resumed, and is still paused")
    name = f"hermesctl {subject.nonce} renamed"
    await ask(subject, trail, "PATCH", _ONE, 200, values=values, json={"name": name})
    renamed = await ask(subject, trail, "GET", _ONE, 200, values=values)
    if field_of(renamed, "job", "name") != name:
        raise wrong("the job was renamed, and still has its old name")


def _runs_on(answer: Answer) -> bool:
    return field_of(answer, "job", "enabled") is not False


def _ids(answer: Answer) -> list[object]:
    rows = field_of(answer, "jobs")
    return (
        [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )


async def _quietly_delete(subject: Subject, job_id: str) -> None:
    try:
        await subject.client.request("DELETE", _ONE, values={"job_id": job_id})
    except HermesctlError:
        return  # what went wrong before is what matters


PROBE = Probe(
    name="jobs",
    title="Scheduled jobs",
    proves=(
        "A job can be created, is in the list, can be paused and resumed and renamed, and is gone "
        "after it was deleted. Its schedule is far off, so that it never runs."
    ),
    causes=(
        Cause("404 in plain text", "this release serves no jobs"),
        Cause("paused, and still enabled", _LOG),
    ),
    settle=deep("each step of a job's life answers as documented", work, _LOG),
    deep=True,
)
