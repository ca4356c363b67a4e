"""The order of the house, read off the source: who imports whom, and what only the edges do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "hermes_ctl"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# Low to high: a module imports from its own rank or from below.
RANKS = {
    **dict.fromkeys(
        (
            "",
            "errors",
            "known_keys",
            "secrets",
            "text",
            "durations",
            "clock",
            "addresses",
            "drafts",
        ),
        0,
    ),
    **dict.fromkeys(("config", "contexts", "discovery", "inventory"), 1),
    "api": 2,
    **dict.fromkeys(("runs", "checks", "lab"), 3),
    **dict.fromkeys(("report", "render", "monitor", "top"), 4),
    "cli": 5,
    **dict.fromkeys(("main", "__main__"), 6),
}
APART = {"runs", "checks", "lab"}

# Libraries that one part alone may touch.
OWNERS = {
    "httpx": {"api"},
    "httpx_sse": {"api"},
    "rich": {"render", "top"},
    "textual": {"top"},
    "prometheus_client": {"report", "monitor"},
    "typer": {"cli"},
    "click": set[str](),
}

# What only the edges do, and which module is the edge for it.
EDGES = {
    "print": set[str](),
    "sys.exit": {"__main__.py", "lab/supervisor.py"},
    "os._exit": {"cli/loop.py"},
    "os.environ": {"config.py", "lab/supervisor.py"},
    "os.getenv": set[str](),
    "datetime.now": {"clock.py"},
    "datetime.utcnow": set[str](),
    "datetime.today": set[str](),
    "time.time": set[str](),
}

LONGEST = 400
LONGER_FOR_A_REASON: dict[str, str] = {}


@dataclass(frozen=True)
class Import:
    """One import: from which file and line, of which module."""

    source: str
    line: int
    module: str

    @property
    def importer(self) -> str:
        return part_of(self.source)

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.module}"


def part_of(source: str) -> str:
    """The part of the house that a file belongs to: `api/client.py` -> `api`."""
    first = source.split("/")[0].removesuffix(".py")
    return "" if first == "__init__" else first


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(
        Import(path.relative_to(PACKAGE).as_posix(), node.lineno, module)
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in modules_of(node)
    )


def modules_of(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        assert node.level == 0, "relative imports hide where they point"
        if node.module == "hermes_ctl":
            yield from (f"hermes_ctl.{alias.name}" for alias in node.names)
        elif node.module:
            yield node.module


def own_imports() -> Iterator[tuple[Import, str]]:
    """Each import of our own with the part that it points to."""
    for item in all_imports():
        package, _, rest = item.module.partition(".")
        if package == "hermes_ctl":
            part = rest.split(".")[0]
            yield item, "" if part == "__version__" else part


def test_every_module_has_a_place() -> None:
    parts = {part_of(path.relative_to(PACKAGE).as_posix()) for path in SOURCES}
    assert parts <= RANKS.keys()
    assert {part for _, part in own_imports()} <= RANKS.keys()


def test_imports_point_one_way() -> None:
    upward = [
        str(item)
        for item, part in own_imports()
        if part in RANKS and RANKS[part] > RANKS.get(item.importer, 99)
    ]
    assert upward == []


def test_runs_checks_and_lab_stand_apart() -> None:
    crossing = [
        str(item)
        for item, part in own_imports()
        if item.importer in APART and part in APART - {item.importer}
    ]
    assert crossing == []


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_has_one_owner(library: str) -> None:
    strangers = [
        str(item)
        for item in all_imports()
        if item.module.split(".")[0] == library and item.importer not in OWNERS[library]
    ]
    assert strangers == []


def test_private_names_of_typer_are_types_only() -> None:
    """Its private modules may be named for the type checker, never loaded."""
    loaded = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in SOURCES
        for node in executed(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in modules_of(node)
        if module.startswith("typer._")
    ]
    assert loaded == []


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node` but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from executed(child)


@pytest.mark.parametrize("name", EDGES)
def test_only_the_edges(name: str) -> None:
    used = [
        f"{source}:{node.lineno}"
        for path in SOURCES
        if (source := path.relative_to(PACKAGE).as_posix()) not in EDGES[name]
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name
    ]
    assert used == []


def test_no_file_is_long() -> None:
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in SOURCES
    }
    long = {name: lines for name, lines in lengths.items() if lines > LONGEST}
    assert long.keys() == LONGER_FOR_A_REASON.keys(), long
