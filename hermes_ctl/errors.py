"""Every way in which hermesctl can fail, and the exit code of each.

    HermesctlError
    |-- UsageError                    2   what was typed; nothing was sent
    |   |-- ConfigurationError        2   configuration file, key source, environment
    |   `-- ChecklistError            2   a checklist that does not say what it should
    |-- Undetermined                  3   no answer that could be judged
    |   |-- Unreachable               3   no connection
    |   |   |-- NameNotFound          3
    |   |   |-- ConnectionRefused     3
    |   |   |-- ConnectTimeout        3
    |   |   `-- TlsFailure            3
    |   |-- ConnectionLost            3   connected, then cut
    |   |   |-- ConnectionReset       3
    |   |   |-- EmptyReply            3   closed without one byte of an answer
    |   |   `-- StreamCut             3   an event stream that ended in the middle
    |   |-- NoAnswer                  3   accepted, and silent until the timeout
    |   |-- NotHermes                 3   something else answers there
    |   |-- Redirected                3   redirects are never followed
    |   |-- MalformedAnswer           3   broken JSON, or JSON of a shape that is none of the known ones
    |   |   `-- FrameTooLarge         3
    |   |-- ServerFailure             3   5xx
    |   |-- LabFailure                3   the lab could not bring a Hermes up
    |   `-- OutputLost                3   standard output takes no more: the disk is full
    |-- AuthenticationFailed          4   401 or 403
    |-- NotFound                      5
    |   |-- RouteNotFound             5   this server has no such route
    |   |-- RunNotFound               5   the route answers; the run is unknown
    |   `-- ObjectNotFound            5   a session, job or response
    |-- Refused                       6   409 or 422: the state of the run or session forbids it
    |-- AtCapacity                    7   429 after the retries
    |-- Pending                       8   a deadline passed, or a human has to answer first
    |-- SubmissionUncertain           9   the answer to a submission was lost
    |-- Negative                      1   a clear no
    |   |-- NotOffered                1   the node's Hermes does not advertise what was asked for
    |   `-- RequestRejected           1   400, 405, 413 and other 4xx
    `-- Interrupted                 128+n  a signal ended the command

Anything else that reaches the process edge is a bug: exit code 70.
The table is design.md, section 7; `ExitCode` is its only copy in code.
"""

from __future__ import annotations

import signal
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says when it ends."""

    YES = 0
    NO = 1
    USAGE = 2
    UNDETERMINED = 3
    AUTHENTICATION = 4
    NOT_FOUND = 5
    REFUSED = 6
    AT_CAPACITY = 7
    PENDING = 8
    UNCERTAIN = 9
    BUG = 70
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    TERMINATED = 143


class ClosedPipe(BaseException):
    """Whoever read our standard output has gone: exit code 141, and not a word.

    Not an `Exception`, because nothing is to survive it: not a step, not a task.
    """


class HermesctlError(Exception):
    """A failure that a user can understand.

    `message` is one sentence on what happened, `hint` what to type or look at next (or None),
    `url` the address it happened at, without secrets (or None).
    Both texts may hold what a server sent: neutralise them before showing them.
    """

    exit_code: int = ExitCode.BUG

    def __init__(self, message: str, *, hint: str | None = None, url: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.url = url

    @property
    def kind(self) -> str:
        """The class name: the stable name of this failure in JSON output."""
        return type(self).__name__


class UsageError(HermesctlError):
    exit_code = ExitCode.USAGE


class ConfigurationError(UsageError):
    pass


class ChecklistError(UsageError):
    pass


class Undetermined(HermesctlError):
    exit_code = ExitCode.UNDETERMINED


class Unreachable(Undetermined):
    pass


class NameNotFound(Unreachable):
    pass


class ConnectionRefused(Unreachable):
    pass


class ConnectTimeout(Unreachable):
    pass


class TlsFailure(Unreachable):
    pass


class ConnectionLost(Undetermined):
    pass


class ConnectionReset(ConnectionLost):
    pass


class EmptyReply(ConnectionLost):
    pass


class StreamCut(ConnectionLost):
    pass


class NoAnswer(Undetermined):
    pass


class NotHermes(Undetermined):
    pass


class Redirected(Undetermined):
    pass


class MalformedAnswer(Undetermined):
    pass


class FrameTooLarge(MalformedAnswer):
    pass


class LabFailure(Undetermined):
    pass


class OutputLost(Undetermined):
    pass


class StatusError(HermesctlError):
    """Base of the failures that are an HTTP status: `status` is that number, `code` Hermes' own
    error code (`run_not_found`, ...) where the body had one."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        hint: str | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, url=url)
        self.status = status
        self.code = code


class ServerFailure(StatusError, Undetermined):
    exit_code = ExitCode.UNDETERMINED


class AuthenticationFailed(StatusError):
    exit_code = ExitCode.AUTHENTICATION


class NotFound(StatusError):
    exit_code = ExitCode.NOT_FOUND


class RouteNotFound(NotFound):
    pass


class RunNotFound(NotFound):
    pass


class ObjectNotFound(NotFound):
    pass


class Refused(StatusError):
    exit_code = ExitCode.REFUSED


class AtCapacity(StatusError):
    """429. `retry_after` is the server's own wish in seconds, None where it gave none;
    `limit` the running limit that its message names, None where it names none."""

    exit_code = ExitCode.AT_CAPACITY

    def __init__(
        self,
        message: str,
        *,
        status: int = 429,
        code: str | None = None,
        hint: str | None = None,
        url: str | None = None,
        retry_after: float | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code, hint=hint, url=url)
        self.retry_after = retry_after
        self.limit = limit


class Pending(HermesctlError):
    exit_code = ExitCode.PENDING


class SubmissionUncertain(HermesctlError):
    exit_code = ExitCode.UNCERTAIN


class Negative(HermesctlError):
    exit_code = ExitCode.NO


class NotOffered(Negative):
    pass


class RequestRejected(StatusError, Negative):
    exit_code = ExitCode.NO


class Interrupted(HermesctlError):
    """A signal ended the command. The exit code is the shell's: 128 and the signal's number."""

    def __init__(self, signal_number: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exit_code = 128 + signal.Signals(signal_number).value
