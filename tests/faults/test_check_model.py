"""Each way for the steps model and traces to fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_ctl.checks.probes.traces import counted_bytes
from tests.faults.checking import FAIL, PASS, UNKNOWN, WARN, Checker, assert_only, said
from tests.faults.runs import DEFAULT_MODEL, KNOWN_MODELS
from tests.faults.wire import Reply, Request, json_reply

OTHER = KNOWN_MODELS[1]
SESSION = "GET /api/sessions/{session_id}"


def provider(checker: Checker) -> list[dict[str, Any]]:
    """What a lab's provider received of the stand-in's runs."""
    runs = checker.server.runs.values()
    return [{"model": run.model, "last": str(run.body["input"])} for run in runs]


# 9 model


def test_model_recorded_by_the_session(checker: Checker) -> None:
    report = checker.check()
    assert report.step("model").summary == (
        f"{OTHER} recorded by the session; an unknown name was refused"
    )


def test_model_ignored(checker: Checker) -> None:
    """0.19.0: accepted and echoed, and the default used."""
    checker.server.faults.ignore_model = True
    report = checker.check()
    assert_only(report, model=FAIL)
    step = report.step("model")
    assert step.summary == f"the node accepted '{OTHER}' and used '{DEFAULT_MODEL}'"
    assert "0.20 and later" in "\n".join(step.fix)
    assert any("an echo" in item.value for item in step.evidence)
    assert report.exit_code == 1


def test_model_ignored_is_seen_at_the_provider_alone(checker: Checker) -> None:
    """The session may say what it likes: what the provider received counts."""
    checker.server.faults.ignore_model = True
    checker.server.faults.say(
        SESSION, json_reply({"object": "hermes.session", "session": {"id": "x", "model": OTHER}})
    )
    report = checker.check(provider_requests=lambda: provider(checker))
    assert report.step("model").status is FAIL


def test_model_that_the_provider_received(checker: Checker) -> None:
    report = checker.check(provider_requests=lambda: provider(checker))
    assert_only(report)
    assert report.step("model").summary == (
        f"{OTHER} received by the provider; an unknown name was refused"
    )


def test_model_at_a_provider_that_answers_any_name(checker: Checker) -> None:
    """Recorded, but who knows what served it: unknown, unless the provider itself is seen."""
    checker.server.faults.accept_unknown_model = True
    report = checker.check()
    assert_only(report, model=UNKNOWN)
    assert "but the provider answers to any name" in report.step("model").summary
    assert report.verdict == "undetermined"
    seen = checker.check(provider_requests=lambda: provider(checker))
    assert seen.step("model").status is PASS
    assert seen.step("model").summary == f"{OTHER} received by the provider; it refuses no name"


def test_model_without_a_second_one(checker: Checker) -> None:
    """0.19 has no list of models: a name that no provider has, refused by name, proves it too."""
    checker.server.faults.drop_route("GET /api/model/options")
    report = checker.check(other_model=None)
    assert report.step("model").status is PASS
    assert "reached the provider, which refused it by name" in report.step("model").summary
    assert report.cost.runs == 3


def test_model_without_a_second_one_and_without_a_refusal(checker: Checker) -> None:
    checker.server.faults.drop_route("GET /api/model/options")
    checker.server.faults.accept_unknown_model = True
    report = checker.check(other_model=None, only=("model",))
    assert report.step("model").status is UNKNOWN
    assert "--model NAME" in "\n".join(report.step("model").fix)


def test_model_that_is_the_default_proves_nothing(checker: Checker) -> None:
    """It would be used whatever became of the field."""
    checker.server.faults.accept_unknown_model = True
    report = checker.check(other_model=KNOWN_MODELS[0], only=("model",))
    step = report.step("model")
    assert (step.status, "no model but the node's default" in step.summary) == (UNKNOWN, True)


def test_model_found_in_the_list_of_the_node(checker: Checker) -> None:
    assert_only(checker.check(other_model=None))


def test_model_that_the_provider_does_not_have(checker: Checker) -> None:
    report = checker.check(other_model="misspelt")
    assert_only(report, model=UNKNOWN)
    assert "the run on misspelt failed: HTTP 400" in report.step("model").summary
    assert "name a second model" in "\n".join(report.step("model").fix)


def test_model_recorded_nowhere(checker: Checker) -> None:
    checker.server.faults.status(SESSION, 404)
    report = checker.check()
    assert report.step("model").status is UNKNOWN
    assert "records nowhere which model a run used" in report.step("model").summary


def test_model_recorded_with_its_provider(checker: Checker) -> None:
    """`custom/lab-other` is lab-other."""
    healthy = checker.server.answers.sessions.get

    def prefixed(request: Request) -> Reply:
        reply = healthy(request)
        return Reply(reply.status, reply.body.replace(b'"model": "', b'"model": "custom/'))

    checker.server.answers.routes[SESSION] = prefixed
    report = checker.check()
    assert_only(report)
    assert "custom/" in said(report.step("model"))


def test_model_unknown_name_that_fails_for_another_reason(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.22 says `platform.api_server.provider_error_line`: no proof that the name was refused."""
    from tests.faults import runs

    def refuse(self: runs.Run) -> None:
        if self.model not in KNOWN_MODELS:
            raise runs.ModelFailure("platform.api_server.provider_error_line")

    monkeypatch.setattr(runs.Run, "_refuse_unknown_names", refuse)
    report = checker.check()
    assert_only(report, model=WARN)
    assert "failed, but not as unknown: platform.api_server" in report.step("model").summary
    assert report.verdict == "ready"


# 10 traces


def test_traces_without_a_tool_call(checker: Checker) -> None:
    checker.server.faults.no_tool_call = True
    report = checker.check()
    assert_only(report, traces=UNKNOWN)
    assert report.step("traces").summary == "the model made no tool call: nothing to measure"
    assert "toolsets list" in "\n".join(report.step("traces").fix)
    assert (report.verdict, report.exit_code) == ("undetermined", 3)


def test_traces_over_the_limit(checker: Checker) -> None:
    checker.server.faults.oversized_frame = 70_000
    report = checker.check()
    assert_only(report, traces=FAIL)
    step = report.step("traces")
    assert step.summary.startswith("tool.started is 70,")
    assert "the limit is 65,536 B: it would be cut" in step.summary
    assert "raise TRACE_EVENT_MAX_BYTES above 70," in step.fix[0]


def agent_file(folder: Path, **settings: object) -> Path:
    path = folder / "agent.env"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


@pytest.mark.parametrize(
    ("limit", "status", "words"),
    [
        (600, PASS, "of 600"),
        (100, WARN, "over 512 B and would be cut"),  # the adapter never uses less
        (70_000, PASS, "of 70,000"),
    ],
)
def test_traces_by_the_adapter_s_own_limit(
    checker: Checker, limit: int, status: Any, words: str
) -> None:
    settings = {"DAEMON_INGEST_URL": "http://127.0.0.1:1", "BMAS_NODE_KEY": "0123456789abcdef"}
    path = agent_file(checker.folder, TRACE_EVENT_MAX_BYTES=limit, **settings)
    report = checker.check(agent_env=path, only=("traces",))
    assert report.step("traces").status is status
    assert report.step("traces").summary.endswith(words)
    assert any(item.source == "file agent.env" for item in report.step("traces").evidence)


def test_traces_that_are_sent_nowhere(checker: Checker) -> None:
    path = agent_file(checker.folder, ACTIVATION_CACHE_DIR="/var/lib/x")
    report = checker.check(agent_env=path, only=("traces",))
    assert report.step("traces").status is WARN
    assert "the adapter sends no traces at all" in report.step("traces").summary
    assert "DAEMON_INGEST_URL" in "\n".join(report.step("traces").fix)


def test_traces_of_an_adapter_that_does_not_start(checker: Checker) -> None:
    path = agent_file(checker.folder, TRACE_EVENT_MAX_BYTES="64k")
    report = checker.check(agent_env=path, only=("traces", "cache"))
    for step_id in ("traces", "cache"):
        assert report.step(step_id).status is FAIL
        assert "TRACE_EVENT_MAX_BYTES in file agent.env is not a whole number" in (
            report.step(step_id).summary
        )


def test_traces_other_events_over_the_limit(checker: Checker) -> None:
    """The run's own end is larger than what the tools say."""
    checker.server.faults.final_output = "x" * 70_000
    report = checker.check(only=("traces",))
    assert report.step("traces").status is WARN
    assert "other events are over 65,536 B" in report.step("traces").summary


def test_counting_as_the_adapter_counts() -> None:
    """Every character beyond ASCII counts as its escape: é is 6 bytes, an emoji 12 (bmas.md, 5)."""
    plain = counted_bytes({"run_id": "run_x", "text": ""})
    assert counted_bytes({"run_id": "run_x", "text": "e" * 10}) == plain + 10
    assert counted_bytes({"run_id": "run_x", "text": "é" * 10}) == plain + 60
    assert counted_bytes({"run_id": "run_x", "text": "😀"}) == plain + 12
    assert counted_bytes({"run_id": "run_x", "text": '"'}) == plain + 2
    assert plain > len(json.dumps({"run_id": "run_x", "text": ""}, separators=(",", ":")))
