"""The folder of a studio: its files are the state. Nothing outside of it is read or written; one writer at a time.

Every edit is kept in ``.nabladp/history``, so that it can be undone. A form carries the version of the files that it
was made from; what was edited meanwhile, in another tab or by hand, is never overwritten.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from nabladp.checks import parse_toml, read_file
from nabladp.errors import NablaDPError, PlanError, SourceError, quote

PRIVATE = ".nabladp"
PLAN, SCHEMA = "plan.toml", "schema.toml"
RECORD, DIGESTS = (
    "release.json",
    "digests.txt",
)  # as `release.record` calls them, which is heavy
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".ndjson", ".jsonl", ".json", ".arrow", ".feather", ".ipc", ".xlsx")
BOOKS = (".json", ".csv", ".xml", ".dta", ".sav")
MOST_EDITS = 500
MOST_FILES = 2_000
QUERY = re.compile(r"\s*(select|from|with)\s", re.IGNORECASE)


class OutsideFolder(NablaDPError, PermissionError):
    """A path that leads out of the studio's folder."""


class StaleForm(NablaDPError, RuntimeError):
    """A form of files that have been edited since it was shown."""


class Workspace:
    """A folder with a table, a schema, a plan and a ledger."""

    def __init__(self, folder: str | Path) -> None:
        try:
            self.folder = Path(folder).resolve(strict=True)
        except OSError:
            raise SourceError(
                f"There is no folder {quote(str(folder))}.", fix="Make it first, or name another."
            ) from None
        if not self.folder.is_dir():
            raise SourceError(f"{quote(self.folder.name)} is not a folder.", fix="Give the folder of a plan.")

    # ---- paths -------------------------------------------------------------------------------------------------------

    def path(self, name: str | Path) -> Path:
        """The path of a file in the folder, links followed; refused where it leads out of the folder."""
        text = str(name)
        if not text or "\0" in text or not text.isprintable():
            raise OutsideFolder("A file name holds characters that it cannot have.", fix="Choose a file of the folder.")
        try:
            found = Path(os.path.realpath(self.folder / text))
        except (OSError, ValueError):
            raise OutsideFolder(f"{quote(text)} is not a path.", fix="Choose a file of the folder.") from None
        if found != self.folder and self.folder not in found.parents:
            raise OutsideFolder(
                f"{quote(text)} is outside of the studio's folder.",
                fix="Move it into the folder, or use the command line.",
            )
        if PRIVATE in found.relative_to(self.folder).parts:
            raise OutsideFolder(f"{quote(text)} belongs to the studio.", fix="Choose another file of the folder.")
        return found

    def private(self, name: str) -> Path:
        """A path among the studio's own files, which only their owner may read."""
        home = self.folder / PRIVATE
        if home.is_symlink():
            raise OutsideFolder(f"{PRIVATE} is a link.", fix="Remove it.")
        home.mkdir(mode=0o700, exist_ok=True)
        path = home / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def files(self, endings: tuple[str, ...]) -> list[str]:
        """The files of the folder and of the folders in it that have one of these endings, by name."""
        found = []
        for path in sorted([*self.folder.glob("*"), *self.folder.glob("*/*")])[:MOST_FILES]:
            name = str(path.relative_to(self.folder))
            hidden = any(part.startswith(".") for part in path.relative_to(self.folder).parts)
            if hidden or not name.lower().removesuffix(".gz").endswith(endings) or not path.is_file():
                continue
            if (path.parent / RECORD).exists():
                continue  # what was published is no source
            try:
                self.path(name)
            except OutsideFolder:
                continue
            found.append(name)
        first = endings[0].lstrip(".")
        return sorted(found, key=lambda name: first not in name.lower().split("."))

    # ---- what a plan may name ----------------------------------------------------------------------------------------

    def check_source(self, source: Any) -> None:
        """Refuse a table that is read from outside of the folder: a file, a glob, a query or a path for Spark."""
        if isinstance(source, Mapping):
            path = source.get("path")
            if isinstance(path, str) and "://" not in path:
                self.path(path)
            return
        if not isinstance(source, str):
            return
        if not QUERY.match(source) or os.path.exists(self.folder / source):
            return self._check_files(source)
        from nabladp.release.drafts import query_files

        named = query_files(source)
        if named is None:
            raise OutsideFolder(
                "The query reads from something other than files that it names.",
                fix="Name files of the folder in it, such as FROM 'people.csv', or use the command line.",
            )
        for name in named:
            self._check_files(name)

    def _check_files(self, pattern: str) -> None:
        """A file or a glob: no file that it stands for may be outside."""
        if pattern.startswith("~") or "://" in pattern:
            raise OutsideFolder("A table is read from a file of the folder.", fix="Move it into the folder.")
        if not glob.has_magic(pattern) or os.path.exists(self.folder / pattern):
            self.path(pattern)
            return
        if ".." in Path(pattern).parts:
            raise OutsideFolder(f"{quote(pattern)} leads out of the folder.", fix="Leave out '..'.")
        start = str(Path(glob.escape(str(self.folder))) / pattern)
        for name in islice(glob.iglob(start, recursive=True), MOST_FILES):
            self.path(name)
        self.path(pattern.split("*")[0].rpartition("/")[0] or ".")

    def check_plan(self, text: str) -> None:
        """Refuse a plan whose files are not all in the folder. A ledger in a database is not a file."""
        data = parse_toml(text, "The plan", PlanError)
        table, budget, report = (_table(data.get(name)) for name in ("table", "budget", "report"))
        self.check_source(table.get("source"))
        ledger = budget.get("ledger")
        shapes = report.get("shapes")
        named = [table.get("schema"), report.get("folder"), report.get("logo")]
        named += list(shapes.values()) if isinstance(shapes, Mapping) else [shapes]
        named += [ledger] if isinstance(ledger, str) and "://" not in ledger else []
        for name in named:
            if isinstance(name, str) and name:
                self.path(name)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def read(self, name: str) -> str | None:
        """The text of a file, or None where there is none."""
        path = self.path(name)
        try:
            return read_file(path, f"The file {quote(name)}").decode("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise SourceError(f"{quote(name)} is not UTF-8 text.", fix="Save it as UTF-8.") from None
        except NablaDPError:
            raise
        except OSError:
            raise SourceError(f"{quote(name)} cannot be read.", fix="Check its permissions.") from None

    def schema_name(self) -> str:
        """The name of the schema file: the one that the plan names, if it names one."""
        text = self.read(PLAN)
        try:
            name = None if text is None else parse_toml(text, "The plan", PlanError).get("table", {}).get("schema")
            if isinstance(name, str) and name.strip():
                self.path(name)
                return name
        except (PlanError, AttributeError, OutsideFolder):
            pass  # reading the plan reports it
        return SCHEMA

    def stamp(self) -> str:
        """The version of schema and plan: another one as soon as either is edited, by whomever."""
        digest = hashlib.sha256()
        for name in (self.schema_name(), PLAN):
            text = self.read(name)
            digest.update(b"0" if text is None else b"1" + hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()[:24]

    # ---- writing -----------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One writer at a time, in whatever process."""
        with self.private("lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield  # closing the file gives the lock back

    def change(self, what: str, texts: Mapping[str, str], stamp: str | None) -> None:
        """Write new texts of some files, all or nothing, and remember the old ones. ``stamp``: the version that they
        were made from (None: whatever it is)."""
        with self.writing():
            self._check_stamp(stamp)
            before = {name: self.read(name) for name in texts}
            if before == dict(texts):
                return
            self._write_all(texts)
            for path in self._edits("undone"):
                path.unlink()
            self._keep("history", {"what": what, "time": _now(), "before": before, "after": dict(texts)})

    def _check_stamp(self, stamp: str | None) -> None:
        if stamp is not None and stamp != self.stamp():
            raise StaleForm(
                "The schema or the plan was edited since this form was shown, in another tab or outside the studio.",
                fix="Nothing was saved. Look at the page as it is now, and make your edit again.",
            )

    def _write_all(self, texts: Mapping[str, str | None]) -> None:
        for name, text in texts.items():
            path = self.path(name)
            if text is None:
                path.unlink(missing_ok=True)
            else:
                write_whole(path, text)

    # ---- undo --------------------------------------------------------------------------------------------------------

    def _edits(self, kind: str) -> list[Path]:
        """The edits that can be undone ("history") or made again ("undone"), oldest first."""
        return sorted(self.private(f"{kind}/-").parent.glob("*.json"))

    def _keep(self, kind: str, edit: Mapping[str, Any]) -> None:
        kept = self._edits(kind)
        number = int(kept[-1].stem) + 1 if kept else 1
        write_whole(self.private(f"{kind}/{number:08d}.json"), json.dumps(edit, ensure_ascii=False))
        for old in kept[: max(0, len(kept) + 1 - MOST_EDITS)]:
            old.unlink(missing_ok=True)

    def last_edit(self, kind: str = "history") -> str | None:
        """What the last edit was about, if there is one to undo ("history") or to make again ("undone")."""
        kept = self._edits(kind)
        return None if not kept else str(json.loads(kept[-1].read_text(encoding="utf-8"))["what"])

    def undo(self, stamp: str | None) -> str:
        """Undo the last edit; returns what it was about."""
        return self._move("history", "undone", "after", "before", stamp)

    def redo(self, stamp: str | None) -> str:
        """Make the edit again that was undone last."""
        return self._move("undone", "history", "before", "after", stamp)

    def _move(self, source: str, goal: str, now: str, then: str, stamp: str | None) -> str:
        with self.writing():
            self._check_stamp(stamp)
            kept = self._edits(source)
            if not kept:
                raise StaleForm("There is no edit to undo.", fix="Nothing was changed.")
            edit = json.loads(kept[-1].read_text(encoding="utf-8"))
            if any(self.read(name) != text for name, text in edit[now].items()):
                raise StaleForm(
                    "The files were edited outside of the studio since, so that edit cannot be undone.",
                    fix="Nothing was changed. Edit the column or the plan anew.",
                )
            self._write_all(edit[then])
            kept[-1].unlink()
            self._keep(goal, edit)
            return str(edit["what"])


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def write_whole(path: Path, text: str) -> None:
    """Write a file, all or nothing, synced to disk."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise SourceError(f"{quote(path.name)} cannot be written.", fix="Check that the folder is writable.") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
