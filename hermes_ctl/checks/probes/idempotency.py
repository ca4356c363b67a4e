"""A submission that is repeated under its key, and one that is not the same."""

from __future__ import annotations

from hermes_ctl.api.models import RunAccepted, RunRequest, parse
from hermes_ctl.checks.deep import ask, deep, field_of, offered, until_terminal, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.text import one_line

_NEVER = "do not retry submissions on this node: it would do the work twice"


async def work(subject: Subject, trail: Trail) -> str:
    """The same key and body give the same run, and say so; the same key with another body is
    refused with 409."""
    await offered(subject, "runs_idempotency")
    settings = subject.checklist.model_run
    async with subject.lanes:
        await subject.ready_for_runs()
        request = RunRequest(
            input=settings.prompt.replace("{token}", subject.token()),
            session_id=subject.session("idempotency"),
        )
        key = f"hermesctl-{subject.nonce}-idempotency"
        run_id = (await subject.watcher.submit(request, idempotency_key=key)).run_id
        headers = {"Idempotency-Key": key}
        again = await ask(
            subject, trail, "POST", "/v1/runs", 202, json=request.body(), headers=headers
        )
        second = parse(RunAccepted, again.json(), again).run_id
        if second != run_id:
            subject.ledger.started(second, request.session_id)
            raise wrong(f"the same key made a second run: {one_line(second, 60)}")
        if field_of(again, "replayed") is not True:
            raise wrong("the same run came back, and was not marked as replayed")
        other = {**request.body(), "input": "Say ok."}
        conflict = await ask(
            subject, trail, "POST", "/v1/runs", 202, 409, json=other, headers=headers
        )
        if conflict.status == 202:
            accepted = parse(RunAccepted, conflict.json(), conflict).run_id
            if accepted != run_id:
                subject.ledger.started(accepted, request.session_id)
            raise wrong("another body under the same key was accepted")
        subject.recorder.error("another body under the same idempotency key", conflict)
        run = await until_terminal(subject, run_id, settings.deadline)
    return f"one run for the same key, marked as replayed; another body refused; it {run.status}"


PROBE = Probe(
    name="idempotency",
    title="Idempotent submission",
    proves=(
        "Where the node advertises runs_idempotency: the same key and body give the same run, "
        "marked as replayed, and the same key with another body is refused with 409."
    ),
    causes=(
        Cause("a second run for the same key", _NEVER),
        Cause("not advertised", "a release from 0.22 on has it; until then nothing is retried"),
    ),
    settle=deep("one run for one key; another body is refused", work, _NEVER),
    needs_runs=True,
    deep=True,
)
