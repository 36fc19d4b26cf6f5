"""Files of a release are on the disk, whole, before anything depends on them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nabladp.release.publish import _sync_folder, _write_synced


def test_a_file_is_whole_when_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    _write_synced(tmp_path / "file", b"0123456789")
    assert sizes == [10] and (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_folder_is_synced_and_its_handle_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    _sync_folder(tmp_path)
    (handle,) = synced
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)
