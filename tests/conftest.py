"""What every test may use: the real tables where they are present, and parts of the system that may be missing.

Where several processes run tests, each takes whole files, so that what a file's tests share is made once; those that
take longest come first. All tests on Spark are for one process: another would start a second cluster.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import slow_tests
from hypothesis import settings

settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a runner in the background; its tests press Ctrl-C all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {
    "pdftotext": ("pdftotext",),  # of poppler, as the next
    "pdftocairo": ("pdftocairo",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "java": ("java",),
    "postgres": ("postgres",),
}
MEMORY, LEAST_MEMORY = "/dev/shm", 8 << 30
POSTGRES_HOMES = "/usr/lib/postgresql/*/bin"
IN_A_BROWSER = ("tests/cli/test_report.py::test_on_paper_and_as_pictures",)
SLOW_FIXTURES = {"by_mbi", "site", "many"}  # whoever comes first would wait for them
SLOW = slow_tests.listed()  # tests that take long, and how many seconds
ON_SPARK = ("tests/engines/test_spark.py", "tests/engines/test_spark_plans.py", "tests/contract/test_engines.py")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is written to the cache of whoever runs the tests, nor read from it; subprocesses inherit this.

    Folders of tests are in memory where there is enough: a ledger waits for the disk many times.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with suppress(OSError):
            if shutil.disk_usage(MEMORY).free > LEAST_MEMORY and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
                os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
        os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="nabladp-cache-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Marks for what a test needs, from its path and its fixtures; ``make check`` leaves marked ones out."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))  # doctests and the like have none
        if item.nodeid.startswith(ON_SPARK) or fixtures & {"spark", "cluster"}:
            item.add_marker(pytest.mark.spark)
        if "tests/engines/test_postgres" in item.nodeid:
            item.add_marker(pytest.mark.postgres)
        if "browser" in fixtures or item.nodeid.startswith(IN_A_BROWSER):
            item.add_marker(pytest.mark.browser)
        if item.nodeid.partition("[")[0] in SLOW or fixtures & SLOW_FIXTURES:
            item.add_marker(pytest.mark.slow)
    yield  # unwanted ones are left out
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = longest_first(items)


def longest_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """By what goes to one process together; within that, as they stand in their files."""
    together: dict[str, list[pytest.Item]] = {}
    for item in items:
        together.setdefault(share(item.nodeid), []).append(item)

    def seconds(share: list[pytest.Item]) -> float:
        names = {item.nodeid.partition("[")[0] for item in share}  # in an order that differs between processes
        return math.fsum(SLOW.get(name, 0.0) for name in names) + 0.02 * len(share)

    return [item for share in sorted(together.values(), key=seconds, reverse=True) for item in share]


def share(nodeid: str) -> str:
    return "Spark" if nodeid.startswith(ON_SPARK) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """(xdist's groups rely on a part of pytest that is gone since 9.2.)"""
    from xdist.scheduler import LoadScopeScheduling

    class LongestFirst(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share(nodeid)

    config.option.loadscopereorder = False  # not by how many tests there are
    return LongestFirst(config, log)


def find_program(name: str) -> str | None:
    """Where a part of the system lives, or None."""
    for candidate in PROGRAMS[name]:
        if found := shutil.which(candidate):
            return found
    if name == "postgres":
        homes = sorted(Path("/").glob(POSTGRES_HOMES.lstrip("/")))
        return str(homes[-1] / "postgres") if homes else None
    return None


def missing(what: str) -> None:
    """Skip by name; with NABLADP_REQUIRE_ALL=1 a missing part is a failure."""
    if os.environ.get("NABLADP_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is required here but was not found")
    pytest.skip(f"{what} not found")


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """The path of a part of the system by name; skipped by name where it is missing."""

    def find(name: str) -> str:
        found = find_program(name)
        if found is None:
            missing(name)
        return str(found)

    return find


@pytest.fixture(scope="session")
def browser(program: Callable[[str], str]) -> Iterator[Any]:
    """One Chromium for all tests of a process: Playwright does not start twice in one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program("chromium"), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real tables (``NABLADP_DATA``, by default ``../shared/data``)."""
    folder = Path(os.environ.get("NABLADP_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        missing("the folder of real tables (NABLADP_DATA)")
    return folder
