"""What all pages of a studio share: its folder, the plan as it stands, and how pages look."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabladp.errors import NablaDPError, SchemaError
from nabladp.report import rendering
from nabladp.report.language import language
from nabladp.studio.workspace import PLAN, Workspace

if TYPE_CHECKING:
    from nabladp.release import Plan
    from nabladp.studio.documents import PlanDocument, SchemaDocument

_HERE = files("nabladp.studio")


class Studio:
    """The studio of one folder. ``change_token`` is what every form must hold; the guard checks it. ``steps`` are the
    titles of the pages that somebody goes through, by name."""

    def __init__(self, workspace: Workspace, change_token: str, steps: Mapping[str, str] | None = None) -> None:
        self.workspace, self.change_token, self.steps = workspace, change_token, dict(steps or {})
        self.notices: deque[str] = deque(maxlen=8)
        self._plan: tuple[str, Plan] | None = None
        self._templates = rendering.make_templates(_template)
        self._templates.globals["address"] = _address

    # ---- the files, as pages need them -------------------------------------------------------------------------------

    def plan_text(self) -> str | None:
        return self.workspace.read(PLAN)

    def schema_name(self) -> str:
        """The schema file that the plan names."""
        return self.workspace.schema_name()

    def schema_document(self) -> SchemaDocument | None:
        """The schema's text, to be edited; None where there is none yet."""
        from nabladp.studio.documents import SchemaDocument

        text = self.workspace.read(self.schema_name())
        return None if text is None else SchemaDocument(text)

    def plan_document(self) -> PlanDocument | None:
        """The plan's text, to be edited; None where there is none yet."""
        from nabladp.studio.documents import PlanDocument

        text = self.plan_text()
        return None if text is None else PlanDocument(text)

    def check_columns(self) -> None:
        """Refuse a schema that is not finished, in the words of this app."""
        document = self.schema_document()
        columns = [] if document is None else document.columns()
        left = sum(bool(column.to_do) for column in columns)
        if not columns:
            raise SchemaError("No table is chosen yet.", fix="Choose one: step 1.")
        if left:
            said = f"{left:,} of {len(columns):,} columns are not declared yet."
            raise SchemaError(said, fix="Declare them: step 2.")

    def plan(self) -> Plan:
        """The plan as the command line reads it; refused where it leads out of the folder. Kept until a file is
        edited."""
        from nabladp.release import Plan

        stamp = self.workspace.stamp()
        if self._plan is None or self._plan[0] != stamp:
            self.check_columns()
            text = self.plan_text()
            if text is not None:
                self.workspace.check_plan(text)
            self._plan = (stamp, Plan.load(self.workspace.path(PLAN)))
        return self._plan[1]

    def ready_plan(self) -> Plan | None:
        """The plan, or None while schema or plan are not finished."""
        try:
            return self.plan()
        except NablaDPError:
            return None

    # ---- writing them ------------------------------------------------------------------------------------------------

    def save_schema(self, what: str, document: SchemaDocument, stamp: str, names: tuple[str, ...] = ()) -> None:
        """Write an edited schema, once its loader accepts it; ``what`` is what undo says. ``names``: the columns that
        were edited, which must be finished."""
        document.check(names)
        self.workspace.change(what, {self.schema_name(): document.text()}, stamp)

    def save_plan(self, what: str, document: PlanDocument, stamp: str) -> None:
        """Write an edited plan, once its loader accepts it; ``what`` is what undo says."""
        self.workspace.check_plan(document.text())
        document.check(self.workspace.folder, self.workspace.read(self.schema_name()))
        self.workspace.change(what, {PLAN: document.text()}, stamp)

    # ---- pages -------------------------------------------------------------------------------------------------------

    def render(self, template: str, context: Mapping[str, Any]) -> str:
        """A page or a part of one as HTML; templates find the texts of reports and the steps."""
        t = language("en")
        own = {
            "steps": self.steps,
            "folder": self.workspace.folder.name,
            "csrf": self.change_token,
            "stamp": self.workspace.stamp(),
            "notices": [self.notices.popleft() for _ in range(len(self.notices))] if _is_page(template) else [],
            "undo": self.workspace.last_edit(),
            "redo": self.workspace.last_edit("undone"),
            "t": t,
            "texts": t.for_scripts(),
        }
        return self._templates.get_template(template).render({**own, **context})


def _is_page(template: str) -> bool:
    return not template.startswith("part-")


def _address(page: str, part: str = "", **query: str) -> str:
    """The address of a page or of one of its parts."""
    from urllib.parse import quote, urlencode

    path = f"/{page}" + (f"/{quote(part)}" if part else "")
    return f"{path}?{urlencode(query)}" if query else path


def _template(name: str) -> str:
    """A template of the studio's own, or else of the report."""
    own = _HERE / "templates" / name
    return own.read_text(encoding="utf-8") if own.is_file() else rendering.asset(name)


STATIC: Mapping[str, str] = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def static_file(name: str) -> tuple[bytes, str] | None:
    """A script or style: the studio's own, or else the report's."""
    kind = STATIC.get(Path(name).suffix)
    if kind is None or Path(name).name != name:
        return None
    readers: tuple[Callable[[], str], ...] = (
        lambda: (_HERE / "static" / name).read_text(encoding="utf-8"),
        lambda: rendering.asset(name),
    )
    for read in readers:
        try:
            return read().encode(), kind
        except OSError:
            continue
    return None
