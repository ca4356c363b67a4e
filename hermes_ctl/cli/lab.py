"""`hermesctl lab`: a real Hermes with a scripted model, on this machine, at no cost."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hermes_ctl import config
from hermes_ctl.cli.grammar import group
from hermes_ctl.cli.nodes import complete_labs, running_lab
from hermes_ctl.cli.options import DocumentView, ListView, View
from hermes_ctl.errors import UsageError
from hermes_ctl.render.tables import Column, Table

if TYPE_CHECKING:
    from hermes_ctl.lab.gateway import Lab

app = group("A real Hermes with a scripted model: no key, no cost.")

Hermes = Annotated[
    str | None,
    typer.Option(
        "--hermes",
        metavar="SPEC",
        help="Release: a pip requirement, or the path of a hermes (the reviewed release).",
        show_default=False,
    ),
]
NewName = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the lab.")]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        autocompletion=complete_labs,
        parser=lambda text: str(text).removeprefix("lab:"),  # as it is named everywhere else
        help="Name of the lab (`default`, or the only one).",
        show_default=False,
    ),
]
ProfileNames = Annotated[
    list[str] | None,
    typer.Option(
        "--profile-name",
        metavar="NAME",
        help="Serve this profile too; repeatable.",
        show_default=False,
    ),
]
Capacity = Annotated[
    int, typer.Option("--max-concurrent-runs", metavar="N", min=0, help="Limit; 0 is no limit.")
]
Approvals = Annotated[
    Literal["manual", "smart", "off"],
    typer.Option("--approvals", metavar="MODE", help="manual, smart or off."),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="PORT",
        min=1,
        max=65535,
        show_default=False,
        help="Port to try first (a free one).",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", "-p", metavar="NAME", help="Profile of the lab.", show_default=False),
]


@app.command("up")
def up(
    view: DocumentView,
    hermes: Hermes = None,
    name: NewName = "default",
    profile_name: ProfileNames = None,
    max_concurrent_runs: Capacity = 10,
    approvals: Approvals = "manual",
    port: Port = None,
) -> None:
    """Bring a Hermes up, to stay until `lab down`."""
    from hermes_ctl.lab.gateway import start
    from hermes_ctl.lab.releases import REVIEWED

    lab = start(
        hermes or REVIEWED,
        environment=config.environment(),
        name=name,
        profiles=profile_name or (),
        max_concurrent_runs=max_concurrent_runs,
        approvals=approvals,
        port=port,
        keep=True,
        report=view.screen.note,
    )
    raw = _raw(lab)
    view.show(raw, {key: raw[key] for key in ("name", "hermes", "url", "home", "log")})
    view.screen.note(_next_steps(lab))


def _next_steps(lab: Lab) -> str:
    default = lab.name == "default"
    context = "lab" if default else f"lab:{lab.name}"
    named = "" if default else f" --name {lab.name}"
    return (
        f"next: hermesctl check --context {context}\n"
        f"      hermesctl lab exec{named} -- COMMAND...\n"
        f"      hermesctl lab down{named}"
    )


@app.command("down")
def down(
    view: View,
    name: Name = None,
    all: Annotated[bool, typer.Option("--all", help="End every lab of yours.")] = False,
) -> None:
    """End a lab and remove all of it."""
    from hermes_ctl.lab.gateway import every_lab

    if name and all:
        raise UsageError("--name and --all contradict each other", hint="leave one of them out")
    labs = every_lab(config.environment())
    chosen = [lab for lab in labs if all or (lab.name == name if name else lab.state.kept)]
    if len(chosen) > 1 and not all:
        chosen = [lab for lab in chosen if lab.name == "default"] or chosen
    if len(chosen) > 1 and not all:
        names = ", ".join(lab.name for lab in chosen)
        raise UsageError(f"{len(chosen)} labs are up: {names}", hint="say --name NAME or --all")
    for lab in chosen:
        lab.stop()
        view.screen.note(f"the lab {lab.name} is down")
    if not chosen:
        view.screen.note(f"no lab {name} is up" if name else "no lab is up")


@app.command("status")
def status(view: ListView) -> None:
    """List your labs, those of running checks included."""
    from hermes_ctl.lab.gateway import every_lab

    view.rows(_TABLE, every_lab(config.environment()))


@app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_(
    view: View,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="What to run, with its arguments.")
    ],
    name: Name = None,
    profile: ProfileName = None,
) -> None:
    """Run a command on a lab, with its address and key.

    The command gets HERMES_GATEWAY_URL, HERMES_GATEWAY_KEY and HERMES_HOME of the lab, and finds
    its `hermes` first on PATH. The exit code is the command's.
    """
    environment = config.environment()
    lab = running_lab(name or "", environment)
    view.screen.detail(f"with HERMES_GATEWAY_URL={lab.profile_node(profile).url}")
    try:
        os.execvpe(command[0], command, lab.environment(environment, profile))
    except OSError as failure:
        raise UsageError(f"{command[0]} cannot be run: {failure.strerror}") from failure


def _raw(lab: Lab) -> dict[str, Any]:
    """A lab as JSON. Its key is in no output: it stays in the `.env` of its home."""
    return {
        "name": lab.name,
        "status": "running" if lab.is_running() else "ended",
        "hermes": lab.version,
        "spec": lab.spec,
        "url": lab.state.url,
        "profiles": list(lab.profiles),
        "max_concurrent_runs": lab.capacity,
        "kept": lab.state.kept,
        "started_at": lab.state.started_at,
        "home": str(lab.home),
        "log": str(lab.gateway_log),
        "model_url": lab.model_url,
        "pid": lab.pid,
    }


_TABLE: Table[Lab] = Table(
    columns=(
        Column("Name", lambda lab: lab.name),
        Column("Status", lambda lab: _raw(lab)["status"], styles={"ended": "red"}),
        Column("Hermes", lambda lab: lab.version),
        Column("URL", lambda lab: lab.state.url),
        Column("Profiles", lambda lab: ",".join(lab.profiles)),
        Column("Limit", lambda lab: lab.capacity, right=True),
        Column("Started", lambda lab: datetime.fromisoformat(lab.state.started_at)),
        Column("Until", lambda lab: "lab down" if lab.state.kept else "its command ends"),
        Column("Spec", lambda lab: lab.spec, wide=True),
        Column("Pid", lambda lab: lab.pid, wide=True, right=True),
        Column("Model URL", lambda lab: lab.model_url, wide=True),
        Column("Home", lambda lab: str(lab.home), wide=True),
    ),
    name=lambda lab: lab.name,
    raw=_raw,
    empty="no lab is up",
)
