"""Commands as an operator types them, one scene after the other: recorded with real releases, and
played again from the cassettes. What comes out is kept as a transcript for each release.

To record anew, from labs that are brought up for it (then read the transcripts' diff):

    rm tests/cassettes/*/cli_*.yaml
    TRANSCRIPTS=write pytest tests/cli/test_inspect_recorded.py --record-mode=all
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

BLANK = "blank"
"""A second profile of the recorded node, in which there is nothing."""


class Shell(Protocol):
    """Types one command; gives back what it wrote to standard output.

    `code` is the exit code that it has to have, `terminal` says that a person is looking. `quiet`
    leaves it out of the transcript.
    """

    def __call__(
        self, line: str, *, code: int = 0, terminal: bool = False, quiet: bool = False
    ) -> str: ...


def forms(shell: Shell, line: str) -> None:
    """A list in every form that it has."""
    shell(line, terminal=True)
    shell(f"{line} -o wide", terminal=True)
    for form in ("table", "json", "jsonl", "name"):
        shell(f"{line} -o {form}")


def nothing(shell: Shell, release: str) -> None:
    """A profile that is new: empty inventories."""
    shell("sessions list", terminal=True)
    shell("sessions list -o json")
    shell("jobs list", terminal=True)
    shell("jobs list -o json")
    shell("jobs list -o name")
    if not release.startswith("0.22"):
        shell("skills list", terminal=True)
        shell("skills list -o json")
    shell("sessions show nobody", code=5)
    shell("sessions messages nobody", code=5)
    shell("sessions delete nobody --yes", code=5)
    shell("jobs show 0123456789ab", code=5)
    shell("jobs show nobody", code=1)


def node(shell: Shell, release: str) -> None:
    """What the node says of itself."""
    shell("health", terminal=True)
    shell("health -o json")
    shell("health --detailed", terminal=True)
    shell("capabilities --grep session", terminal=True)
    shell("capabilities --grep steer -o wide")
    shell("capabilities --grep fork -o jsonl")
    shell("capabilities -o json")
    old = release.startswith("0.19")
    shell("capabilities --require run_stop --require run_steer", code=1 if old else 0)
    shell("capabilities --require runs_idempotency", code=0 if release.startswith("0.22") else 1)


def inventory(shell: Shell, release: str) -> None:
    """Skills, toolsets, models."""
    if release.startswith("0.22"):
        shell("skills list", code=3)
        shell("skills list -o json", code=3)
    else:
        forms(shell, "skills list")
        shell("skills list --category ops -o name")
        shell("skills list --grep HOSTILE --columns name,description", terminal=True)
        shell("skills list --sort -name -o name")
    shell("toolsets list --enabled", terminal=True)
    shell("toolsets list --grep ^terminal -o wide", terminal=True)
    shell("toolsets list --grep ^terminal -o json")
    shell("toolsets list --sort -tools --columns name,tools")
    shell("toolsets show terminal", terminal=True)
    shell("toolsets show terminal -o name")
    shell("toolsets show nothing", code=5)
    forms(shell, "models list")
    if release.startswith("0.19"):
        shell("models list --options", code=1)
    else:
        shell("models list --options --grep custom", terminal=True)
        shell("models list --options --all --grep openrouter -o jsonl")


def sessions(shell: Shell, release: str) -> None:
    """A session's whole life."""
    shell("sessions create --id notes --title 'Release notes'", terminal=True)
    shell("sessions create --id second --model lab-other -o json")
    shell("sessions create --id notes", code=6)
    shell("sessions create --id second-title --title 'Release notes'", code=1)
    shell("sessions chat notes 'Reply with exactly this and nothing else: first' --no-stream")
    shell("sessions chat notes '[[run echo out]] [[say second]]' --no-stream -o json")
    shell("sessions rename notes 'Notes, renamed'")
    forms(shell, "sessions list --sort id")
    shell("sessions list --grep renamed -o name")
    shell("sessions list --limit 1 --sort id -o name")
    shell("sessions show notes", terminal=True)
    shell("sessions show notes -o json")
    shell("sessions messages notes", terminal=True)
    shell("sessions messages notes")
    shell("sessions messages notes --tail 1 -o jsonl")
    shell("sessions fork notes --id copy --title 'Another way'")
    shell("sessions show copy -o json")
    if release.startswith("0.19"):
        shell("sessions model notes lab-other", code=1)
    else:
        shell("sessions model notes lab-other --provider custom")
    shell("sessions delete copy", code=2)
    shell("sessions delete notes second copy --yes")
    shell("sessions list -o name")


def jobs(shell: Shell, release: str) -> None:
    """A job's whole life."""
    shell("jobs create 'every 2h' 'Reply with exactly this and nothing else: job' --name tidy")
    tidy = shell("jobs list -o name", quiet=True).strip()
    shell("jobs create 30m 'Say hello' --name delay --repeat 1 -o json")
    shell("jobs create 'in 30m' 'Say hello' --name later", code=0 if _is_new(release) else 1)
    shell("jobs create whenever 'Say hello' --name never", code=1)
    shell(f"jobs pause {tidy}", terminal=True)
    forms(shell, "jobs list --sort name")
    shell("jobs list --enabled --sort name --columns name,state")
    shell(f"jobs resume {tidy} --columns id,state")
    shell(f"jobs update {tidy} --schedule '0 9 * * *' --name morning")
    shell(f"jobs update {tidy} --schedule zzz", code=1)
    shell(f"jobs update {tidy}", code=2)
    shell(f"jobs show {tidy}", terminal=True)
    shell(f"jobs show {tidy} -o json")
    shell(f"jobs run {tidy} -o name")
    shell(f"jobs delete {tidy}", code=2)
    for job in shell("jobs list -o name", quiet=True).split():
        shell(f"jobs delete {job} --yes")
    shell(f"jobs delete {tidy} --yes", code=5)


def _is_new(release: str) -> bool:
    return release.startswith("0.22")


def api(shell: Shell, release: str) -> None:
    """Any route."""
    shell("api GET /v1/models", terminal=True)
    shell("api GET /v1/models --query 'data[0].id'")
    shell("api get /health --no-key")
    shell("api POST /api/sessions -f id=by-api -f title='By hand' --query session.id")
    shell("api PATCH /api/sessions/by-api --raw-field title=42 --query session.title")
    shell("api PATCH /api/sessions/by-api -f color=red", code=1)
    shell("api GET /api/sessions --paginate -f limit=1 --query id")
    shell("api DELETE /api/sessions/by-api")
    shell("api DELETE /api/sessions/by-api", code=5)
    shell("api GET /v1/nothing", code=5)
    shell("api GET /v1/runs", code=1)
    shell("api POST /v1/responses -f input='[[say pong]]' --query 'output[-1].content[0].text'")
    shell("api POST /v1/chat/completions -f messages='[]'", code=1)
    answer = shell("api POST /v1/responses -f input='[[say kept]]'", quiet=True)
    response = json.loads(answer)["id"]
    shell(f"api GET /v1/responses/{response} --query status")
    shell(f"api DELETE /v1/responses/{response}", code=0, quiet=True)
    shell(f"api GET /v1/responses/{response}", code=5, quiet=True)


def profiles(shell: Shell, release: str) -> None:
    """Two profiles on one gateway."""
    code = 1 if release.startswith("0.19") else 0
    shell(f"profiles {BLANK}", code=code, terminal=True)
    shell(f"profiles {BLANK} -o json", code=code)
    shell(f"profiles {BLANK} nobody", code=1)


SCENES: tuple[Callable[[Shell, str], None], ...] = (
    nothing,
    node,
    inventory,
    sessions,
    jobs,
    api,
    profiles,
)
