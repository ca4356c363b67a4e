"""Scheduled jobs. No release lists these routes in its capabilities, and all have them (wire.md, 8)."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import Field

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import WireModel
from hermes_ctl.api.values import Count, Flag, Moment, Names, Text
from hermes_ctl.errors import MalformedAnswer, RequestRejected, ServerFailure

JOBS: Final = "/api/jobs"
JOB: Final = "/api/jobs/{job_id}"

_BARE_DURATION = re.compile(r"\d+\s*(?:m|min|minutes?|h|hours?|d|days?)", re.IGNORECASE)
_REFUSED_SCHEDULE = re.compile(r"\binvalid (?:schedule|cron|timestamp|duration)", re.IGNORECASE)
_SCHEDULES: Final = (
    "a bare delay such as 30m is once up to Hermes 0.20.4, and an interval from 0.22 on, where "
    "'in 30m' is once"
)


class Schedule(WireModel):
    """When a job runs: `kind` is once, interval or cron."""

    kind: Text = None
    display: Text = None
    run_at: Moment = None


class Repeat(WireModel):
    """How often a job runs in all; `times` None is for ever."""

    times: Count = None
    completed: Count = None


class Job(WireModel):
    """A scheduled job. `enabled` false is a paused one."""

    id: str = Field(min_length=1)
    name: Text = None
    prompt: Text = None
    schedule: Any = None
    schedule_display: Text = None
    repeat: Any = None
    enabled: Flag = None
    state: Text = None
    deliver: Text = None
    skills: Names = Field(default_factory=list)
    model: Text = None
    provider: Text = None
    created_at: Moment = None
    next_run_at: Moment = None
    last_run_at: Moment = None
    last_status: Text = None
    last_error: Text = None

    @property
    def when(self) -> str | None:
        """Its schedule as Hermes understood it."""
        return self.schedule_display or self.planned.display

    @property
    def planned(self) -> Schedule:
        """The schedule; older servers may give it as text."""
        if isinstance(self.schedule, dict):
            return Schedule.model_validate(self.schedule)
        return Schedule(display=self.schedule if isinstance(self.schedule, str) else None)

    @property
    def repeats(self) -> str | None:
        """`1/3`, `2/∞`: how often it has run, and is to run."""
        if not isinstance(self.repeat, dict):
            return None
        repeat = Repeat.model_validate(self.repeat)
        return f"{repeat.completed or 0}/{'∞' if repeat.times is None else repeat.times}"

    @property
    def status(self) -> str | None:
        """`scheduled`, `paused`, ..., where the server says no state: by whether it is enabled."""
        if self.state is None and self.enabled is not None:
            return "scheduled" if self.enabled else "paused"
        return self.state


async def jobs(client: Client) -> list[Job]:
    """All jobs, the paused ones too."""
    return await client.many(Job, JOBS, "jobs", query={"include_disabled": "true"})


async def job(client: Client, job_id: str) -> Job:
    return await client.one(Job, "GET", JOB, inside="job", values={"job_id": job_id})


async def create(client: Client, fields: dict[str, Any]) -> Job:
    """Create a job of `name`, `schedule`, `prompt`, and maybe `deliver`, `skills`, `repeat`.

    Raises `RequestRejected` for a schedule that this Hermes cannot read.
    """
    try:
        return await client.one(Job, "POST", JOBS, inside="job", json=fields)
    except (ServerFailure, RequestRejected) as error:
        raise _bad_schedule(error) from error


async def update(client: Client, job_id: str, fields: dict[str, Any]) -> Job:
    """Change the fields that are named. Raises as `create` does."""
    try:
        return await client.one(
            Job, "PATCH", JOB, inside="job", values={"job_id": job_id}, json=fields
        )
    except (ServerFailure, RequestRejected) as error:
        raise _bad_schedule(error) from error


async def act(client: Client, job_id: str, action: str) -> Job:
    """`pause`, `resume` or `run` a job: how it is after that. A run begins within a minute, and
    the answer does not show it yet."""
    return await client.one(Job, "POST", f"{JOB}/{action}", inside="job", values={"job_id": job_id})


async def delete(client: Client, job_id: str) -> None:
    """Delete a job. Raises `MalformedAnswer` for a 200 that does not say that it is gone."""
    answer = await client.expect("DELETE", JOB, values={"job_id": job_id})
    document = answer.json()
    said = isinstance(document, dict) and (document.get("ok") or document.get("deleted"))
    if said is not True:
        raise MalformedAnswer(
            f"DELETE {JOB} answered {answer.status} without saying that the job is gone",
            hint=f"look: hermesctl jobs show {job_id}",
            url=answer.url,
        )


def ambiguous(schedule: str) -> bool:
    """Whether the releases read `schedule` differently: `30m` is once up to 0.20.4, and every 30
    minutes from 0.22 on (wire.md, 9)."""
    return _BARE_DURATION.fullmatch(schedule.strip()) is not None


def _bad_schedule(error: ServerFailure | RequestRejected) -> ServerFailure | RequestRejected:
    """A schedule that cannot be read is a 500 up to 0.20.4 and, for a change, in 0.22 (wire.md, 9):
    a clear no, all the same."""
    if not _REFUSED_SCHEDULE.search(error.message):
        return error
    return RequestRejected(
        error.message, status=error.status, code=error.code, hint=_SCHEDULES, url=error.url
    )
