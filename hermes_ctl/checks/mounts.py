"""Where a path really lies: its mount, as its own process sees it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

VOLATILE_TYPES = frozenset({"tmpfs", "ramfs"})
"""Gone with the machine (bmas.md, 6)."""

OVERLAY_TYPES = frozenset({"overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs"})
"""Gone with the container."""

UNKNOWN_TYPE = "unknown"
PROC = Path("/proc")
ROOT = Path("/")

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
    exists, `outside` the same as reached from here, below `root`; `mount` what holds it."""

    path: str
    real: str
    existing: str
    outside: Path
    root: Path
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
    best = Mount("/", UNKNOWN_TYPE, False)
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best.point):
            best = mount
    return best


def locate(path: str, *, pid: int | None = None) -> Place:
    """Where `path` lies, seen from inside process `pid` (its root and mounts), or from here.

    Raises OSError where the process is gone or not ours to look into.
    """
    process = PROC / (str(pid) if pid else "self")
    root = process / "root" if pid else ROOT
    mounts = parse_mountinfo((process / "mountinfo").read_text(encoding="utf-8", errors="replace"))
    real = _resolve(path, root)
    existing = PurePosixPath(real)
    while not _outside(root, str(existing)).exists() and existing != existing.parent:
        existing = existing.parent
    outside = _outside(root, str(existing))
    return Place(path, real, str(existing), outside, root, mount_of(real, mounts))


def _outside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _resolve(path: str, root: Path) -> str:
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


def can_write(folder: Path, uid: int | None, gids: tuple[int, ...], root: Path = ROOT) -> bool:
    """Whether that user may make files there and reach it from `root`; our own user where `uid` is
    None."""
    if uid is None or uid == os.geteuid():
        return os.access(folder, os.W_OK | os.X_OK)
    if uid == 0:
        return True
    above = [parent for parent in folder.parents if parent.is_relative_to(root)]
    enter = all(_may(parent.stat(), uid, gids, stat.S_IXOTH) for parent in above)
    return enter and _may(folder.stat(), uid, gids, stat.S_IWOTH | stat.S_IXOTH)


def _may(status: os.stat_result, uid: int, gids: tuple[int, ...], wanted: int) -> bool:
    """`wanted` are the mode bits of everybody else; those of owner and group lie above them."""
    shift = 6 if status.st_uid == uid else 3 if status.st_gid in gids else 0
    return status.st_mode >> shift & wanted == wanted
