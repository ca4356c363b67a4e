"""The journal's file: an SQLite database that is private, shared safely, and survives a kill.

SQLite with a rollback journal: one file, safe under several processes and under a kill at any
moment, and good on network folders too, where a write-ahead log is not. Each write is one short
immediate transaction.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from hermes_ctl import clock
from hermes_ctl.errors import ConfigurationError

VERSION: Final = 1
BUSY_SECONDS: Final = 15.0
"""How long a write waits for the other processes' writes."""

_SCHEMA: Final = """
CREATE TABLE runs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  submission TEXT NOT NULL UNIQUE,
  run_id TEXT,
  url TEXT NOT NULL,
  node TEXT NOT NULL,
  context TEXT,
  profile TEXT,
  key_file TEXT,
  started_here INTEGER NOT NULL,
  pid INTEGER,
  submitted_at REAL NOT NULL,
  prompt TEXT,
  prompt_sha256 TEXT,
  session_id TEXT,
  model TEXT,
  idempotency_key TEXT,
  state TEXT NOT NULL,
  seen_at REAL NOT NULL,
  created_at REAL,
  ended_at REAL,
  verdict TEXT,
  reason TEXT,
  output TEXT,
  error TEXT,
  usage TEXT,
  pending_steer TEXT
);
CREATE UNIQUE INDEX runs_by_id ON runs (run_id, url);
CREATE INDEX runs_by_time ON runs (submitted_at);
CREATE TABLE approvals (
  number INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  request_id TEXT NOT NULL,
  approval TEXT NOT NULL,
  asked_at REAL NOT NULL,
  answered_at REAL,
  PRIMARY KEY (number, request_id)
);
"""

T = TypeVar("T")


class Store:
    """The database at `path`, opened when it is first needed.

    One that cannot be read or written is said once, by `warn`, and done without: everything then
    reads as empty. One that is corrupt is moved aside, likewise said. Raises `ConfigurationError`
    for one that a newer hermesctl wrote, and leaves it as it is.
    """

    def __init__(self, path: Path, warn: Callable[[str], None], *, enabled: bool = True) -> None:
        self.path = path
        self._warn = warn
        self._connection: sqlite3.Connection | None = None
        self._readable = self._writable = enabled
        self._is_lost = False

    @property
    def is_lost(self) -> bool:
        """Whether something could not be read or written."""
        return self._is_lost

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def write(self, statement: str, values: Sequence[object]) -> int:
        """Rows that were changed; 0 without a database."""
        return self.transaction(
            lambda connection: connection.execute(statement, values).rowcount, 0
        )

    def read(self, statement: str, values: Sequence[object]) -> list[sqlite3.Row]:
        if not self._readable or (self._connection is None and not self.path.exists()):
            return []
        try:
            return self._tried(lambda c: c.execute(statement, values).fetchall())
        except (sqlite3.Error, OSError) as error:
            self._readable = self._writable = False
            self._say_lost(error)
            return []

    def transaction(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What `work` gives, all of it written or nothing; `otherwise` without a database."""

        def whole(connection: sqlite3.Connection) -> T:
            with _immediate(connection):
                return work(connection)

        if not self._writable:
            return otherwise
        try:
            return self._tried(whole)
        except (sqlite3.Error, OSError) as error:
            self._writable = False
            self._say_lost(error)
            return otherwise

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work` on the open database; once more on a new one where it was corrupt."""
        try:
            return work(self._open())
        except sqlite3.Error as error:
            if not (_is_corrupt(error) and self._move_aside()):
                raise
            return work(self._open())

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            _make_private(self.path)
            self._connection = _connect(self.path)
        return self._connection

    def _say_lost(self, error: Exception) -> None:
        self.close()
        if self._is_lost:
            return
        self._is_lost = True
        why = error.strerror if isinstance(error, OSError) else str(error)
        self._warn(
            f"the journal {self.path} cannot be used ({why}); "
            "nothing is remembered on this machine: note the ids of your runs"
        )

    def _move_aside(self) -> bool:
        """Put a corrupt journal out of the way; whether it is worth trying again.

        Under a lock, and only if it still is the file that was found corrupt: another process may
        have done it already, and the new file is not to be moved.
        """
        self.close()
        try:
            with _exclusive(self.path.with_suffix(".lock")):
                if not _still_corrupt(self.path):
                    return True
                stamp = clock.now().strftime("%Y%m%dT%H%M%S.%f")
                aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
                for suffix in ("-journal", "-wal", "-shm"):
                    with contextlib.suppress(FileNotFoundError):
                        Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
                self.path.rename(aside)
        except OSError:
            return False
        self._warn(f"the journal was corrupt; it was moved to {aside} and a new one begun")
        return True


@contextlib.contextmanager
def _immediate(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that takes the write lock at once, so that it cannot fail half-way."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_private(path: Path) -> None:
    """The folder 0700 and the file 0600, made or mended: prompts and answers are in it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for target, mode in ((path.parent, 0o700), (path, 0o600)):
        with contextlib.suppress(OSError):
            if target.stat().st_mode & 0o077:
                target.chmod(mode)


def _connect(path: Path) -> sqlite3.Connection:
    """An open journal of our version, its tables made where it was empty."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        version = _version(connection)
        if version > VERSION:
            raise ConfigurationError(
                f"the journal {path} was written by a newer hermesctl (its version is {version}, "
                f"this one knows {VERSION})",
                hint="use the newer hermesctl, or set XDG_STATE_HOME to another folder; "
                "nothing was changed and nothing was sent",
            )
        if version == 0:
            with _immediate(connection):
                if _version(connection) == 0:
                    _create(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _create(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise sqlite3.DatabaseError("it is a database, but not hermesctl's journal")
    for statement in _SCHEMA.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _is_corrupt(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _still_corrupt(path: Path) -> bool:
    try:
        with contextlib.closing(_connect(path)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            return bool(found != "ok")
    except sqlite3.Error as error:
        return _is_corrupt(error)
