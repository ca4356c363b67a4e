"""Step 9: the model field reaches the model provider."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from hermes_ctl.api.models import ModelOptions, Run, RunRequest
from hermes_ctl.checks.model import Status
from hermes_ctl.checks.probe import Cause, Finding, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.errors import HermesctlError
from hermes_ctl.text import one_line

_REVIEWED = "install a release that honours model on /v1/runs: 0.20 and later do"
_PROVIDER = "look at the model's provider and its key on the node: hermes doctor"
_NAME_ONE = "name a second model of the node's provider: --model NAME, or model-run.name"


@dataclass(frozen=True, slots=True)
class ModelTrial:
    """One tiny run that asked for `asked`.

    `recorded` is what its fresh session (or `runtime.model`) says was used, `provider` what the
    provider received where that can be seen, `run` the terminal state, None where none came in time.
    """

    asked: str
    recorded: str | None
    provider: str | None
    run: Run | None

    @property
    def used(self) -> str | None:
        return self.provider or self.recorded

    @property
    def used_asked(self) -> bool:
        """A record may hold the provider's name before the model's own."""
        return (
            self.used is not None and self.used.rpartition("/")[2] == self.asked.rpartition("/")[2]
        )

    @property
    def refused(self) -> bool:
        return self.run is not None and self.run.status == "failed"

    @property
    def names_it(self) -> bool:
        return self.refused and self.asked in str(self.run.error if self.run else "")


async def probe(subject: Subject) -> Finding:
    """Two tiny runs, each on a fresh session: a model that is not the default, and a name that no
    provider has. The status only echoes the request, in every release (wire.md, 0.7)."""
    await subject.ready_for_runs()
    await subject.warm_up.wait()
    unknown = f"hermesctl-no-such-model-{subject.nonce}"
    other, nobody = await asyncio.gather(
        _other_trial(subject), _trial(subject, unknown, "no-model")
    )
    trail = Trail()
    for trial in (other, nobody):
        if trial is not None:
            _add(trail, trial)
    finding = partial(
        Finding,
        expected="the requested model is the one used; a name that no provider has makes a run fail",
        observed="; ".join(_told(trial) for trial in (other, nobody) if trial),
        evidence=trail(),
    )
    return _judge(other, nobody, finding)


def _judge(other: ModelTrial | None, nobody: ModelTrial, finding: partial[Finding]) -> Finding:
    for trial in (other, nobody):
        if trial is not None and trial.used is not None and not trial.used_asked:
            return finding(
                Status.FAIL,
                f"the node accepted {one_line(trial.asked, 60)!r} and used {one_line(trial.used, 60)!r}",
                fix=(_REVIEWED,),
            )
    if nobody.run is None or (other is not None and other.run is None):
        return finding(Status.UNKNOWN, "a tiny run was not seen to end in time", fix=(_PROVIDER,))
    if other is None:
        if nobody.names_it:
            return finding(
                Status.PASS, "an unknown name reached the provider, which refused it by name"
            )
        return finding(
            Status.UNKNOWN,
            "no model but the node's default is known, so none could be asked for",
            fix=(_NAME_ONE,),
        )
    if other.refused:
        error = one_line(str(other.run.error if other.run else ""), 120)
        return finding(
            Status.UNKNOWN,
            f"the run on {one_line(other.asked, 60)} failed: {error}",
            fix=(_NAME_ONE if other.names_it else _PROVIDER,),
        )
    if other.used is None:
        return finding(
            Status.UNKNOWN, "the node records nowhere which model a run used", fix=(_REVIEWED,)
        )
    where = "received by the provider" if other.provider else "recorded by the session"
    name = one_line(other.asked, 60)
    if nobody.names_it:
        return finding(Status.PASS, f"{name} {where}; an unknown name was refused")
    if nobody.refused and other.provider:
        return finding(Status.PASS, f"{name} {where}; an unknown name failed, and is not named")
    if nobody.refused:
        error = one_line(str(nobody.run.error), 100)
        return finding(
            Status.WARN,
            f"{name} {where}; an unknown name failed, but not as unknown: {error}",
            fix=("ask the provider which model it served: its own log or bill tells",),
        )
    if other.provider:
        return finding(Status.PASS, f"{name} {where}; it refuses no name")
    return finding(
        Status.UNKNOWN,
        f"{name} {where}, but the provider answers to any name",
        fix=("ask the provider which model it served: its own log or bill tells",),
    )


async def _other_trial(subject: Subject) -> ModelTrial | None:
    name = await _other_model(subject)
    return await _trial(subject, name, "model") if name else None


async def _trial(subject: Subject, model: str, purpose: str) -> ModelTrial:
    settings = subject.checklist.model_run
    token = subject.token()
    session_id = subject.session(purpose)
    transcript = await subject.watcher.submit(
        RunRequest(
            input=settings.prompt.replace("{token}", token), model=model, session_id=session_id
        )
    )
    await subject.watcher.watch(transcript, deadline=settings.deadline)
    subject.require_known(transcript)
    run = transcript.final
    runtime = run.runtime if run else None
    recorded, received = await asyncio.gather(
        _session_model(subject, session_id), asyncio.to_thread(_received, subject, token)
    )
    if recorded is None and runtime:
        recorded = _text(runtime.get("model"))
    return ModelTrial(model, recorded, received, run)


async def _session_model(subject: Subject, session_id: str) -> str | None:
    """What a fresh session recorded; it keeps its first run's model for ever (wire.md, 0.8)."""
    try:
        return (await subject.client.session(session_id)).model
    except HermesctlError:
        return None


def _received(subject: Subject, token: str) -> str | None:
    """The model name of the provider's request that held our token: only a lab can tell."""
    if subject.settings.provider_requests is None:
        return None
    for request in subject.settings.provider_requests():
        if token in str(request.get("last", "")):
            return _text(request.get("model"))
    return None


async def _other_model(subject: Subject) -> str | None:
    """A model that is not the default: chosen, from the checklist, or one that the node lists for
    its current provider. The default itself would be used whatever becomes of the field."""
    chosen = subject.settings.other_model or subject.checklist.model_run.name
    try:
        options = await subject.read("/api/model/options", ModelOptions)
    except HermesctlError:
        return chosen  # 0.19 has no such route
    if chosen:
        return None if chosen == options.model else chosen
    for provider in options.providers:
        if not (provider.is_current or provider.slug == options.provider):
            continue
        names = [
            _text(entry.get("id") if isinstance(entry, dict) else entry)
            for entry in provider.models
        ]
        return next((name for name in names if name and name != options.model), None)
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _add(trail: Trail, trial: ModelTrial) -> None:
    asked = one_line(trial.asked, 60)
    state = trial.run.status if trial.run else "no end in time"
    error = f", {one_line(str(trial.run.error), 120)}" if trial.refused and trial.run else ""
    trail.add(
        "GET /v1/runs/{run_id}", f"{asked}: {state}{error} (the model shown there is an echo)"
    )
    trail.add(
        "GET /api/sessions/{session_id}", f"{asked}: session.model {trial.recorded or 'none'}"
    )
    if trial.provider:
        trail.add("the provider's own record", f"{asked}: received {one_line(trial.provider, 60)}")


def _told(trial: ModelTrial) -> str:
    end = trial.run.status if trial.run else "no end"
    return f"{one_line(trial.asked, 60)}: used {one_line(str(trial.used), 60)}, {end}"


PROBE = Probe(
    name="model",
    title="Model selection",
    proves=(
        "A run that asks for another model than the default gets it: the fresh session recorded it, "
        "or the provider itself did. A name that no provider has makes a run fail."
    ),
    causes=(
        Cause("accepted, and another model used", _REVIEWED),
        Cause("the node lists no second model", _NAME_ONE),
        Cause(
            "the provider answers to any name",
            "ask the provider which model it served: its own log or bill tells",
        ),
        Cause("the runs fail", _PROVIDER),
    ),
    settle=probe,
    needs_runs=True,
)
