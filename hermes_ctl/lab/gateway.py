"""A real Hermes gateway with a scripted model, for checks, gates and tests.

    with start(environment=environment()) as lab:
        async with Client(lab.node) as client: ...

A lab dies with the process that started it, `kill -9` included, unless it was started with
`keep=True` (`hermesctl lab up`). What it is made of: `supervisor.py`; where it lives: `state.py`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from hermes_ctl.config import Node
from hermes_ctl.errors import LabFailure, UsageError
from hermes_ctl.lab.home import key_of
from hermes_ctl.lab.launch import clear_away_the_dead, launch, log_tail, remove
from hermes_ctl.lab.loopback import ask
from hermes_ctl.lab.model import DEFAULT_MODEL, OTHER_MODEL
from hermes_ctl.lab.releases import REVIEWED, Report, install
from hermes_ctl.lab.state import Order, Plan, State, folder_of, lab_folder, locked

START_TIMEOUT = 60.0
"""Seconds until a gateway that runs and does not answer has failed to start."""
STOP_TIMEOUT = 15.0
"""Seconds until a lab that was told to end is killed instead."""

_numbers = itertools.count(1)


@dataclass(slots=True)
class Lab:
    """One running lab. `folder` holds all of it, see `state.py`."""

    state: State
    folder: Path

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def node(self) -> Node:
        """The gateway's default profile, as a node that commands and checks talk to."""
        return self.profile_node(None)

    def profile_node(self, profile: str | None) -> Node:
        """A profile of a multiplexed gateway, with its own key; None for the default one.

        Raises `UsageError` for a profile that the lab was not started with.
        """
        if profile is not None and profile not in self.profiles:
            known = ", ".join(self.profiles) or "no profile but the default one"
            raise UsageError(f"the lab {self.name} has no profile {profile!r}: it has {known}")
        home = self.home / "profiles" / profile if profile else self.home
        prefix = f"/p/{profile}" if profile else ""
        return Node(
            name=f"lab/{self.name}{prefix}",
            url=f"{self.state.url}{prefix}",
            key=key_of(home),
            profile=profile,
            home=home,
            sources={"name": "lab", "url": "lab", "key": str(home / ".env"), "home": "lab"},
        )

    @property
    def home(self) -> Path:
        """HERMES_HOME of the gateway."""
        return self.folder / "hermes"

    @property
    def executable(self) -> Path:
        return Path(self.state.plan.executable)

    @property
    def version(self) -> str:
        """The release as its command line states it, e.g. `0.20.4.post1`."""
        return self.state.plan.version

    @property
    def spec(self) -> str:
        return self.state.plan.spec

    @property
    def profiles(self) -> tuple[str, ...]:
        return self.state.plan.profiles

    @property
    def capacity(self) -> int:
        """How many runs the lab states that it can carry: its configured limit."""
        return self.state.plan.max_concurrent_runs

    @property
    def default_model(self) -> str:
        return DEFAULT_MODEL

    @property
    def other_model(self) -> str:
        """A second model name that the provider takes, for `model` in a run."""
        return OTHER_MODEL

    @property
    def model_url(self) -> str:
        """The provider's base URL, which ends in `/v1`."""
        return self.state.model_url

    @property
    def pid(self) -> int:
        """The gateway's process id."""
        return self.state.gateway.pid

    @property
    def gateway_log(self) -> Path:
        return self.folder / "gateway.log"

    def environment(
        self, environment: Mapping[str, str], profile: str | None = None
    ) -> dict[str, str]:
        """`environment` for a command that is to work on this lab: its address, key and home, and
        its `hermes` first on PATH."""
        node = self.profile_node(profile)
        assert node.key is not None
        path = [str(self.executable.parent), environment.get("PATH", os.defpath)]
        return {
            **environment,
            "HERMES_GATEWAY_URL": node.url,
            "HERMES_GATEWAY_KEY": node.key.reveal(),
            "HERMES_HOME": str(node.home),
            "PATH": os.pathsep.join(path),
        }

    def is_running(self) -> bool:
        return self.state.supervisor.process() is not None

    def requests(self, *, after: int = 0, purpose: str | None = None) -> list[dict[str, Any]]:
        """What the provider received after request number `after` (negative: the last so many), as
        `model.Record` has it: all of it, or with `purpose="chat"` only what was asked for a user."""
        answer = self._model(f"requests?after={after}")
        return [one for one in answer["requests"] if purpose in (None, one["purpose"])]

    def behave(self, **change: object) -> None:
        """Change how the model behaves (see `model.Behaviour`); no arguments reset it."""
        self._model("behaviour", change)

    def _model(self, path: str, body: object = None) -> Any:
        url = f"{self.model_url.removesuffix('/v1')}/lab/{path}"
        try:
            status, answer = ask(url, body=body)
        except (OSError, ValueError) as failure:
            raise LabFailure(f"the lab's model does not answer: {failure}", url=url) from failure
        if status != 200:
            raise UsageError(answer["error"]["message"])
        return answer

    def restart(self, *, kill: bool = False) -> None:
        """Restart the gateway on its port and home, with `kill` by SIGKILL; wait until it answers.

        `config.yaml` and `.env` are read again as they stand. Raises `LabFailure` when the gateway
        does not come back; nothing is left of the lab then.
        """
        supervisor = self._supervisor()
        supervisor.send_signal(signal.SIGUSR2 if kill else signal.SIGUSR1)
        before = self.state.gateway
        while self.state.gateway == before:
            if not supervisor.is_running() or supervisor.status() == psutil.STATUS_ZOMBIE:
                raise LabFailure("the lab's gateway did not come back", hint=log_tail(self.folder))
            time.sleep(0.05)
            self.state = State.read(self.folder) or self.state

    def stop(self) -> None:
        """End the lab and all that Hermes started in it, and remove its folder."""
        supervisor = self.state.supervisor.process()
        if supervisor is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                supervisor.terminate()
            psutil.wait_procs([supervisor], timeout=STOP_TIMEOUT)
        remove(self.state, self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _supervisor(self) -> psutil.Process:
        process = self.state.supervisor.process()
        if process is None:
            raise LabFailure(f"the lab {self.name} is not running")
        return process


def find(name: str, environment: Mapping[str, str]) -> Lab | None:
    """The running lab of that name, or None."""
    folder = folder_of(name, environment)
    state = State.read(folder)
    lab = Lab(state, folder) if state is not None else None
    return lab if lab is not None and lab.is_running() else None


def running(environment: Mapping[str, str]) -> list[Lab]:
    """All labs of this user that run now, by name."""
    return [lab for lab in every_lab(environment) if lab.is_running()]


def every_lab(environment: Mapping[str, str]) -> list[Lab]:
    """The same with those that were to be kept and whose gateway has ended."""
    clear_away_the_dead(environment)
    folders = sorted((lab_folder(environment) / "labs").glob("*/"))
    return [Lab(state, folder) for folder in folders if (state := State.read(folder)) is not None]


def start(
    spec: str = REVIEWED,
    *,
    environment: Mapping[str, str],
    name: str | None = None,
    profiles: Sequence[str] = (),
    max_concurrent_runs: int = 10,
    approvals: str = "manual",
    settings: Mapping[str, object] | None = None,
    port: int | None = None,
    keep: bool = False,
    start_timeout: float = START_TIMEOUT,
    report: Report = lambda _: None,
) -> Lab:
    """Bring a Hermes up and return it when it answers; one that runs already with the same plan
    is returned as it is.

    `spec` is a pip requirement or the path of a `hermes`, installed on first use (`releases.py`).
    `name` is made up when it is None. `profiles` makes a multiplexed gateway with these profiles.
    `settings` is merged into `config.yaml`. `port` is tried first, a free one is taken otherwise.
    `keep` lets the lab outlive this process. `report` gets lines on what is going on.

    Raises `LabFailure` when it does not come up (nothing is left running then), `UsageError` when
    a lab of that name runs with another plan.
    """
    clear_away_the_dead(environment)
    release = install(spec, environment, report)
    plan = Plan(
        spec=release.spec,
        executable=str(release.executable),
        version=release.version,
        profiles=tuple(profiles),
        max_concurrent_runs=max_concurrent_runs,
        approvals=approvals,
        settings=settings,
        port=port,
    )
    chosen = name or f"lab-{os.getpid()}-{next(_numbers)}"
    folder = folder_of(chosen, environment)
    with _alone(folder, report) if name else contextlib.nullcontext():
        lab = find(chosen, environment)
        if lab is not None:
            return _as_planned(lab, plan, report)
        report(f"starting Hermes {plan.version}")
        launch(folder, Order(chosen, plan, start_timeout), environment, keep=keep)
    lab = find(chosen, environment)
    if lab is None:
        raise LabFailure(f"the lab {chosen} ended at once", hint=log_tail(folder))
    return lab


def _alone(folder: Path, report: Report) -> contextlib.AbstractContextManager[int]:
    """While this lasts, no other process starts a lab in `folder`."""
    return locked(
        folder.with_name(f"{folder.name}.lock"),
        lambda: report(f"another hermesctl is starting the lab {folder.name}; waiting for it"),
    )


def _as_planned(lab: Lab, plan: Plan, report: Report) -> Lab:
    if lab.state.plan == plan:
        report(f"the lab {lab.name} is already up")
        return lab
    running_as = lab.spec if lab.spec != plan.spec else "other options"
    raise UsageError(
        f"the lab {lab.name} runs already with {running_as}",
        hint=f"end it with `hermesctl lab down --name {lab.name}`, or give the new one a --name",
    )
