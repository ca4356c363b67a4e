"""`hermesctl jobs`: what a node's agent does on a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_ctl.cli import suggestions
from hermes_ctl.cli.asking import ask, confirm
from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.options import ListView, NodeOptions, ResourceView, Selection, View
from hermes_ctl.cli.reading import text_argument
from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, LocalTime, Table, Value

if TYPE_CHECKING:
    from datetime import datetime

    from hermes_ctl.api.client import Client
    from hermes_ctl.api.jobs import Job

app = group("What a node's agent does on a schedule.")

JobId = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=suggestions.jobs, help="The id of a job.")
]
JobIds = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", autocompletion=suggestions.jobs, help="Ids of jobs."),
]
Deliver = Annotated[
    str | None, typer.Option(metavar="TARGET", help="Where the answer goes (local).")
]
Skills = Annotated[
    list[str] | None, typer.Option("--skill", metavar="NAME", help="Use this skill (repeatable).")
]
Repeat = Annotated[int | None, typer.Option(metavar="N", min=1, help="Run so often, then no more.")]


@app.command("list")
def list_jobs(
    enabled: Annotated[bool, typer.Option("--enabled", help="Without the paused ones.")] = False,
    *,
    selection: Selection,
    node: NodeOptions,
    view: ListView,
) -> None:
    """List the jobs, the paused ones too, with their next and last run.

    Examples:

      hermesctl jobs list --sort next-run

      hermesctl jobs list --enabled -o name
    """
    from hermes_ctl.api import jobs

    rows = [job for job in ask(node, jobs.jobs) if not enabled or job.enabled is not False]
    view.rows(_TABLE, selection.of(_TABLE, rows))


@app.command("show")
def show_job(job: JobId, *, node: NodeOptions, view: ResourceView) -> None:
    """Show one job: its schedule as Hermes understood it, its prompt, how it went.

    Example: hermesctl jobs show b6208da2a326
    """
    from hermes_ctl.api import jobs

    _show(ask(node, lambda client: jobs.job(client, job)), view)


@app.command("create")
def create_job(
    schedule: Annotated[
        str,
        typer.Argument(metavar="SCHEDULE", help="'every 2h', '0 9 * * *', '2026-12-31T09:00'."),
    ],
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT|-", help="What to do; - reads standard input.")
    ],
    name: Annotated[str, typer.Option(metavar="TEXT", help="Its name.")],
    deliver: Deliver = None,
    skills: Skills = None,
    repeat: Repeat = None,
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Create a job. What the node made of the schedule is in the answer: read it.

    A bare delay such as 30m is once up to Hermes 0.20.4, and every 30 minutes from 0.22 on.

    Examples:

      hermesctl jobs create "0 9 * * 1-5" "Summarise the night" --name morning

      hermesctl jobs create "every 2h" - --name tidy --repeat 3 < prompt.txt
    """
    from hermes_ctl.api import jobs

    given = {"deliver": deliver, "skills": skills or None, "repeat": repeat}
    fields = {name: value for name, value in given.items() if value is not None}
    fields |= {"name": name, "schedule": schedule, "prompt": text_argument(prompt, "PROMPT")}
    job = ask(node, lambda client: jobs.create(client, fields))
    _show(job, view)
    _warn_of_delay(job, schedule, view)


@app.command("update")
def update_job(
    job: JobId,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="Its name.")] = None,
    schedule: Annotated[
        str | None, typer.Option(metavar="WHEN", help="'every 2h', '0 9 * * *', a time.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to do; - reads standard input.")
    ] = None,
    deliver: Deliver = None,
    skills: Skills = None,
    repeat: Repeat = None,
    *,
    node: NodeOptions,
    view: ResourceView,
) -> None:
    """Change what is named of a job; the rest stays.

    Example: hermesctl jobs update b6208da2a326 --schedule "every 3h"
    """
    from hermes_ctl.api import jobs

    given: dict[str, Any] = {
        "name": name,
        "schedule": schedule,
        "prompt": None if prompt is None else text_argument(prompt, "--prompt"),
        "deliver": deliver,
        "skills": skills or None,
        "repeat": repeat,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        raise UsageError("nothing to change", hint="hermesctl jobs update --help")
    changed = ask(node, lambda client: jobs.update(client, job, fields))
    _show(changed, view)
    if schedule is not None:
        _warn_of_delay(changed, schedule, view)


@app.command("pause")
def pause_jobs(jobs: JobIds, *, node: NodeOptions, view: ListView) -> None:
    """Pause jobs: they stay, and do not run until they are resumed.

    Example: hermesctl jobs pause b6208da2a326
    """
    _act(jobs, "pause", node, view)


@app.command("resume")
def resume_jobs(jobs: JobIds, *, node: NodeOptions, view: ListView) -> None:
    """Resume paused jobs.

    Example: hermesctl jobs resume b6208da2a326
    """
    _act(jobs, "resume", node, view)


@app.command("run")
def run_jobs(jobs: JobIds, *, node: NodeOptions, view: ListView) -> None:
    """Run jobs out of their schedule. Hermes begins within a minute, and does not say when.

    How it went: hermesctl jobs show JOB

    Example: hermesctl jobs run b6208da2a326
    """
    _act(jobs, "run", node, view)


@app.command("delete")
def delete_jobs(
    jobs: JobIds,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    node: NodeOptions,
    view: View,
) -> None:
    """Delete jobs; one that is running is cancelled. Asks first.

    Example: hermesctl jobs delete b6208da2a326 --yes
    """
    from hermes_ctl.api.jobs import delete

    what = f"the job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs)} jobs"
    confirm(view.screen, f"Delete {what}?", yes=yes)

    async def delete_all(client: Client) -> None:
        for job in jobs:
            await delete(client, job)
            view.screen.note(f"deleted {job}")

    ask(node, delete_all)


def _act(jobs: list[str], action: str, node: NodeOptions, view: ListView) -> None:
    """Do it to all of `jobs`, one after the other, and show how each is then."""
    from hermes_ctl.api.jobs import act

    sheet = view.sheet(_TABLE)

    async def act_on_all(client: Client) -> None:
        for job in jobs:
            sheet.add(await act(client, job, action))

    ask(node, act_on_all)
    sheet.close()


def _warn_of_delay(job: Job, schedule: str, view: ResourceView) -> None:
    from hermes_ctl.api.jobs import ambiguous

    if ambiguous(schedule):
        view.screen.warn(
            f"this node read {schedule!r} as {job.when or job.planned.kind!r}: a bare delay is once "
            f"up to Hermes 0.20.4, and an interval from 0.22 on; 'every {schedule}' is plain"
        )


def _local(moment: datetime | None) -> LocalTime | None:
    return None if moment is None else LocalTime(moment)


def _show(job: Job, view: ResourceView) -> None:
    view.resource(job.id, job.raw, _fields(job))


def _fields(job: Job) -> dict[str, Value]:
    fields: dict[str, Value] = {
        "id": job.id,
        "name": job.name,
        "state": job.status,
        "schedule": job.when,
        "next run": _local(job.next_run_at),
        "last run": _local(job.last_run_at),
        "last status": job.last_status,
        "last error": job.last_error,
        "repeat": job.repeats,
        "deliver": job.deliver,
        "skills": ", ".join(job.skills) or None,
        "model": job.model,
        "provider": job.provider,
        "created": _local(job.created_at),
        "prompt": job.prompt,
    }
    return {name: value for name, value in fields.items() if value is not None}


_TABLE: Table[Job] = Table(
    columns=(
        Column("Id", lambda job: job.id),
        Column("Name", lambda job: job.name, free=True),
        Column("State", lambda job: job.status, styles={"paused": "yellow", "error": "red"}),
        Column("Schedule", lambda job: job.when),
        Column("Next run", lambda job: None if job.enabled is False else _local(job.next_run_at)),
        Column("Last run", lambda job: _local(job.last_run_at)),
        Column("Last status", lambda job: job.last_status, styles={"error": "red"}),
        Column("Repeat", lambda job: job.repeats, wide=True),
        Column("Deliver", lambda job: job.deliver, wide=True),
        Column("Model", lambda job: job.model, wide=True),
        Column("Created", lambda job: _local(job.created_at), wide=True),
        Column("Last error", lambda job: job.last_error, wide=True, free=True),
        Column("Prompt", lambda job: job.prompt, wide=True, free=True),
    ),
    name=lambda job: job.id,
    raw=lambda job: job.raw,
    empty="the node has no such job",
)
