"""Where a path really lies: its mount, as its own process sees it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

VOLATILE_TYPES = frozenset(
    {"tmpfs", "ramfs", "overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs"}
)
"""Gone with the machine, or with the container (bmas.md, 6)."""

SHARED_TYPES = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "gluster")
"""File locks may not hold there."""

VOLATILE_FOLDERS = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm")
"""Cleaned at boot or by a timer, whatever the file system: `/tmp` may be plain ext4 (bmas.md, 6)."""

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    type: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A path as the process sees it: `real` after symbolic links, `existing` the nearest folder that
    exists, `outside` the same as reached from here, `mount` what holds it."""

    path: str
    real: str
    existing: str
    outside: Path
    mount: Mount


def parse_mountinfo(text: str) -> list[Mount]:
    """The mounts of a `/proc/PID/mountinfo`, in its order (proc(5))."""
    mounts = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, after = left.split(), right.split()
        if not separator or len(fields) < 6 or not after:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        options = set(fields[5].split(","))
        options |= set(after[2].split(",")) if len(after) > 2 else set()
        mounts.append(Mount(point, after[0], "ro" in options))
    return mounts


def mount_of(path: str, mounts: list[Mount]) -> Mount:
    """The mount with the longest prefix of `path`; of two on one point the later one hides the other."""
    best = Mount("/", "unknown", False)
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


def locate(path: str, *, pid: int | None = None) -> Place:
    """Where `path` lies, seen from inside process `pid` (its root and mounts), or from here.

    Raises OSError where the process is gone or not ours to look into.
    """
    process = f"/proc/{pid}" if pid else "/proc/self"
    root = f"{process}/root" if pid else "/"
    mounts = parse_mountinfo(
        Path(process, "mountinfo").read_text(encoding="utf-8", errors="replace")
    )
    real = _resolve(path, root)
    existing = PurePosixPath(real)
    while not _outside(root, str(existing)).exists() and existing != existing.parent:
        existing = existing.parent
    return Place(path, real, str(existing), _outside(root, str(existing)), mount_of(real, mounts))


def _outside(root: str, path: str) -> Path:
    return Path(root, path.lstrip("/"))


def _resolve(path: str, root: str) -> str:
    """`path` with its symbolic links followed inside `root`, as the process itself would."""
    waiting = [part for part in path.split("/") if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        candidate = _outside(root, "/".join([*done, part]))
        if candidate.is_symlink() and links < 40:
            links += 1
            target = str(candidate.readlink())
            done = [] if target.startswith("/") else done
            waiting = [piece for piece in target.split("/") if piece not in ("", ".")] + waiting
            continue
        done.append(part)
    return "/" + "/".join(done)


def is_volatile_folder(path: str) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in VOLATILE_FOLDERS)


def can_write(folder: Path, uid: int | None, gids: tuple[int, ...]) -> bool:
    """Whether that user may make files there; our own user where `uid` is None."""
    if uid is None or uid == os.geteuid():
        return os.access(folder, os.W_OK | os.X_OK)
    if uid == 0:
        return True
    status = folder.stat()
    if status.st_uid == uid:
        need = stat.S_IWUSR | stat.S_IXUSR
    elif status.st_gid in gids:
        need = stat.S_IWGRP | stat.S_IXGRP
    else:
        need = stat.S_IWOTH | stat.S_IXOTH
    return status.st_mode & need == need
