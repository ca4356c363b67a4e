"""The header that gives a run its memory scope is echoed, and bounded."""

from __future__ import annotations

from hermes_ctl.api.models import RunAccepted, parse
from hermes_ctl.checks.deep import ask, deep, not_offered, until_terminal, wrong
from hermes_ctl.checks.probe import Cause, Probe, Trail
from hermes_ctl.checks.subject import Subject
from hermes_ctl.text import one_line

HEADER = "X-Hermes-Session-Key"
_LONGEST = 256
_PROXY = "a proxy strips the header: let X-Hermes-Session-Key pass both ways"


async def work(subject: Subject, trail: Trail) -> str:
    """The value comes back with the 202 as it was sent; one that is too long is refused."""
    features = (await subject.capabilities()).features
    if features.get("session_key_header") != HEADER:
        raise not_offered("session_key_header is not advertised")
    settings = subject.checklist.model_run
    value = f"bmas:hermesctl-{subject.nonce}:memory-scope"
    session_id = subject.session("memory-scope")
    body = {"input": settings.prompt.replace("{token}", subject.token()), "session_id": session_id}
    async with subject.lanes:
        await subject.ready_for_runs()
        answer = await ask(
            subject, trail, "POST", "/v1/runs", 202, json=body, headers={HEADER: value}
        )
        run_id = parse(RunAccepted, answer.json(), answer).run_id
        subject.ledger.started(run_id, session_id)
        echo = answer.headers.get(HEADER.lower())
        await until_terminal(subject, run_id, settings.deadline)
    if echo != value:
        said = f"came back as {one_line(echo, 80)}" if echo else "did not come back"
        raise wrong(f"{HEADER} {said}")
    too_long = await ask(
        subject,
        trail,
        "POST",
        "/v1/runs",
        400,
        json={},
        headers={HEADER: "x" * (_LONGEST + 1)},
    )
    subject.recorder.error("a session key that is too long", too_long)
    return f"echoed with the 202; more than {_LONGEST} characters are refused"


PROBE = Probe(
    name="memory-scope",
    title="Memory scope",
    proves=f"{HEADER}, by which an adapter keeps memories apart, comes back as it was sent.",
    causes=(Cause("it did not come back", _PROXY),),
    settle=deep("the header comes back as it was sent; a longer one is refused", work, _PROXY),
    needs_runs=True,
    deep=True,
)
