"""Reads one run, whatever is left of it."""

from __future__ import annotations

from hermes_ctl.api.client import Client
from hermes_ctl.api.models import Run
from hermes_ctl.cli.chosen import Chosen, located
from hermes_ctl.errors import ExitCode, NotFound, RouteNotFound, Undetermined
from hermes_ctl.render.run_tables import result_fields, run_fields
from hermes_ctl.render.views import DocumentView
from hermes_ctl.runs.journal import Journal
from hermes_ctl.runs.recovery import from_journal, recover
from hermes_ctl.runs.result import Result, Verdict, judge
from hermes_ctl.runs.survey import Waiting, approval_document, waiting_of


async def read_status(journal: Journal, chosen: Chosen, view: DocumentView) -> int:
    """Show the run and journal what was seen; its exit code. Raises `RunNotFound` for a run that
    nobody knows."""
    async with Client(chosen.node) as client:
        found = await located(client, journal, chosen)
        run, result = await _read(client, journal, found)
    if result is None:
        assert run is not None
        waiting = waiting_of(journal, found.entry, run)
        view.show(_active(run, waiting, chosen), run_fields(run, chosen.node.name, waiting))
        return ExitCode.PENDING
    for note in result.notes:
        view.screen.note(note)
    document = {**result.document(), "node": chosen.node.name, "run": run.raw if run else None}
    view.show(document, result_fields(result, chosen.node.name))
    return result.exit_code


async def _read(
    client: Client, journal: Journal, found: Chosen
) -> tuple[Run | None, Result | None]:
    number = found.entry.number if found.entry else None
    try:
        run = await client.run(found.run_id)
    except RouteNotFound:
        raise
    except NotFound:
        result = await recover(client, found.run_id, last=None, journal=journal, entry=found.entry)
        if result is None:
            raise
        if result.verdict is not Verdict.UNKNOWN:
            journal.ended(number, result)
        return None, result
    except Undetermined as error:
        result = from_journal(journal, found.entry, f"the node tells nothing ({error.message})")
        if result is None:
            raise
        return None, result
    if not run.is_terminal:
        journal.saw(number, run)
        return run, None
    result = judge(run)
    journal.ended(number, result)
    return run, result


def _active(run: Run, waiting: tuple[Waiting, ...], chosen: Chosen) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "state": run.status,
        "verdict": None,
        "exit_code": int(ExitCode.PENDING),
        "session_id": run.session_id,
        "approvals": [approval_document(one) for one in waiting],
        "node": chosen.node.name,
        "run": run.raw,
    }
