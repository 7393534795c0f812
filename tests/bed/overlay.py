"""A root file system of its own: an overlay of this machine's ``/`` on a bounded tmpfs, and the way back to a baseline.

The host's processes and the harness see the same overlay mount (``root``), so changes go through it and never
through the upper folder, which is only read to learn what a test has changed.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

WATCHED = ("etc", "usr", "opt", "root", "home", "srv")
"""Top folders that are put back file by file; of ``/var/lib`` only new entries are removed."""


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")


def unmount(folder: Path) -> None:
    """Unmount whatever is on ``folder``; a folder that is no mount point is left alone."""
    if os.path.ismount(folder):
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, timeout=60, check=True)


class Overlay:
    """``folder/root`` is the merged tree while mounted. ``size`` bounds everything the host ever writes."""

    def __init__(self, folder: Path, *, size: str = "512m") -> None:
        self.folder = folder
        self.root = folder / "root"
        self._memory = folder / "memory"
        self._upper = self._memory / "upper"
        self.baseline = self._memory / "baseline"
        self._size = size

    def mount(self) -> None:
        """Lay a fresh overlay. Raises ``RuntimeError`` with mount's own words."""
        self.root.mkdir(parents=True)
        self._memory.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={self._size},mode=0755", "tune-bed", str(self._memory))
        work = self._memory / "work"
        work.mkdir()
        self._upper.mkdir()
        options = f"lowerdir=/,upperdir={self._upper},workdir={work}"
        _run("mount", "-t", "overlay", "-o", options, "tune-bed", str(self.root))

    def unmount(self) -> None:
        """Give everything back: what was written is gone."""
        unmount(self.root)
        unmount(self._memory)
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self) -> None:
        """Make what is there now the baseline that ``put_back`` returns to."""
        shutil.rmtree(self.baseline, ignore_errors=True)
        self.baseline.mkdir()
        for top in WATCHED:
            if (self._upper / top).is_dir():
                _run("cp", "-a", str(self._upper / top), str(self.baseline / top))
        state = self.baseline / "var-lib"
        state.write_text("\n".join(_names(self.root / "var/lib")))

    def put_back(self) -> list[Path]:
        """Undo every change under ``WATCHED`` since ``keep``, and remove what is new in ``/var/lib``.

        Returns what had changed under ``WATCHED``, relative to the root.
        """
        changed: list[Path] = []
        for top in WATCHED:
            for find in (self._changed, self._lost):
                for relative in list(find(Path(top))):
                    self._restore(relative)
                    changed.append(relative)
        known = set((self.baseline / "var-lib").read_text().splitlines())
        for name in _names(self.root / "var/lib") - known:
            _remove(self.root / "var/lib" / name)
        return changed

    def _changed(self, relative: Path) -> Iterator[Path]:
        """Paths whose upper entry is new or differs from the baseline's, parents before children."""
        here, before = self._upper / relative, self.baseline / relative
        if not os.path.lexists(here):
            return
        if not _is_folder(here):
            if _mark(here) != _mark(before):
                yield relative
            return
        if not _is_folder(before) and not _is_folder(Path("/") / relative):
            yield relative  # a folder of the test's own: goes as a whole
            return
        for name in sorted(_names(here)):
            yield from self._changed(relative / name)

    def _lost(self, relative: Path) -> Iterator[Path]:
        """Paths of the baseline that are no longer in the upper folder."""
        before = self.baseline / relative
        if not os.path.lexists(before):
            return
        if not os.path.lexists(self._upper / relative):
            yield relative
        elif _is_folder(before):
            for name in sorted(_names(before)):
                yield from self._lost(relative / name)

    def _restore(self, relative: Path) -> None:
        _remove(self.root / relative)
        self._rebuild(relative)

    def _rebuild(self, relative: Path) -> None:
        """Make the entry again from the baseline, or from this machine where the baseline does not speak of it."""
        before, below, now = self.baseline / relative, Path("/") / relative, self.root / relative
        if not os.path.lexists(before):
            if os.path.lexists(below):
                _run("cp", "-a", str(below), str(now))
        elif _is_folder(before):
            now.mkdir()
            names = _names(before) | (_names(below) if _is_folder(below) else set())
            for name in sorted(names):
                self._rebuild(relative / name)
            status = before.lstat()
            os.chown(now, status.st_uid, status.st_gid)
            now.chmod(stat.S_IMODE(status.st_mode))
        elif not _is_whiteout(before):
            _run("cp", "-a", str(before), str(now))


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_whiteout(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _mark(path: Path) -> tuple[int, ...] | None:
    """What tells two versions of a file apart without reading them."""
    if not os.path.lexists(path):
        return None
    status = path.lstat()
    return (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
