"""The database file: made whole, migrated, and refused in words when it cannot be used. Real files, real limits."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect

from orchestrator.core.events import Event, LevelEnded
from orchestrator.errors import StoreFault
from orchestrator.store import Store
from orchestrator.store.schema import metadata
from orchestrator.store.upgrading import MIGRATIONS
from tests.store.story import Story, until_killed, whole_night

ROOT = Path(__file__).parents[2]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder whose store holds one night."""
    with Store.open(tmp_path) as store:
        for event in whole_night(Story()):
            store.tell(event)
    return tmp_path


def tell_all(store: Store, told: Iterable[Event]) -> None:
    for event in told:
        store.tell(event)


def execute(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "tune.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_the_files_are_named_after_the_layouts_they_make() -> None:
    """By their names the store knows whether it is up to date, without loading Alembic."""
    script = ScriptDirectory(str(MIGRATIONS))
    steps = {Path(step.path).name[1:5]: step.revision for step in script.walk_revisions()}
    assert all(name == revision for name, revision in steps.items())
    assert script.get_current_head() == max(steps)


def test_opening_what_is_up_to_date_does_not_load_alembic(filled: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from orchestrator.store import Store; "
        "Store.open(Path(sys.argv[1]), create=False).close(); print('alembic' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program, str(filled)], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


def test_the_migrations_make_exactly_the_schema(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'tune.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        made = inspect(connection)
        for table in metadata.sorted_tables:
            keys = {key["name"] for key in made.get_foreign_keys(table.name)}
            assert keys == {key.name for key in table.foreign_key_constraints}
            assert made.get_pk_constraint(table.name)["constrained_columns"] == list(table.primary_key.columns.keys())
    engine.dispose()


def test_the_database_is_in_wal_mode_with_foreign_keys(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store._engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2, "busy_timeout": 30000}


def test_opening_makes_nothing_when_told_so(tmp_path: Path) -> None:
    assert not Store.is_there(tmp_path)
    with pytest.raises(StoreFault, match="nothing has been recorded in"):
        Store.open(tmp_path / "nowhere", create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_database_yet(tmp_path: Path) -> None:
    (tmp_path / "tune.db").touch()
    with Store.open(tmp_path) as store:
        assert store.runs() == ()


def test_leftovers_of_a_killed_creation_are_in_nobodys_way(tmp_path: Path) -> None:
    for name in ("tune.db.new", "tune.db.new-wal", "tune.db.new-shm"):
        (tmp_path / name).write_bytes(b"half of something")
    Store.open(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["tune.db"]


def test_processes_that_open_a_new_folder_at_once_share_one_database(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from orchestrator.store import Store; from tests.store.story import Story\n"
        "with Store.open(Path(sys.argv[1])) as store: store.tell(Story(run=sys.argv[2]).started())"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"000{number}"], cwd=ROOT) for number in range(4)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]
    with Store.open(tmp_path) as store:
        assert {summary.run.run for summary in store.runs()} == {"0000", "0001", "0002", "0003"}


def test_a_database_of_a_newer_tune_is_left_alone(filled: Path) -> None:
    execute(filled, "UPDATE alembic_version SET version_num = '9999'")
    before = (filled / "tune.db").read_bytes()
    with pytest.raises(StoreFault, match=r"tune\.db has the layout 9999, which this tune does not know") as refused:
        Store.open(filled)
    assert refused.value.remedy == "upgrade tune on this machine; the file was not touched"
    assert (filled / "tune.db").read_bytes() == before


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    execute(tmp_path, "CREATE TABLE cookies (name TEXT)")
    before = (tmp_path / "tune.db").read_bytes()
    with pytest.raises(StoreFault, match="is a database of something else"):
        Store.open(tmp_path)
    assert (tmp_path / "tune.db").read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tune.db").write_text("dear diary\n" * 100)
    with pytest.raises(StoreFault, match=r"tune\.db is not a database") as refused:
        Store.open(tmp_path)
    assert refused.value.remedy is not None
    assert "move it away" in refused.value.remedy
    assert (tmp_path / "tune.db").read_text() == "dear diary\n" * 100


def test_a_damaged_database_is_named_and_kept(filled: Path) -> None:
    path = filled / "tune.db"
    whole = path.read_bytes()
    damaged = whole[:4096] + b"\xff" * (len(whole) - 4096)
    path.write_bytes(damaged)
    with pytest.raises(StoreFault, match=r"tune\.db is damaged") as refused, Store.open(filled) as store:
        store.read()
    assert refused.value.remedy is not None
    assert ".recover" in refused.value.remedy
    assert path.read_bytes() == damaged


def test_a_log_without_its_database_is_not_mixed_into_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "tune.db-wal").write_bytes(b"of a database that was deleted")
    with pytest.raises(StoreFault, match=r"tune\.db is missing but tune\.db-wal is there"):
        Store.open(tmp_path)


def test_a_database_locked_by_another_process_is_waited_for_then_named(filled: Path) -> None:
    holder = sqlite3.connect(filled / "tune.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with Store.open(filled, busy_timeout_s=0.2) as store:
        with pytest.raises(StoreFault, match=r"tune\.db is locked by another process"):
            store.tell(Story(run="beef").started())
        assert store.find_run() == "7f3c"  # reading never waits
        holder.execute("ROLLBACK")
        store.tell(Story(run="beef").started())
        assert [row.run.run for row in store.runs()] == ["beef", "7f3c"]
        assert store.find_run() == "7f3c"  # beef has started nothing yet
    holder.close()


def test_a_full_disk_loses_nothing_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    story = Story()
    night = list(until_killed(story))
    with Store.open(tmp_path) as store:
        for event in night[:40]:
            store.tell(event)
        before = store.read()
        largest = max(path.stat().st_size for path in tmp_path.iterdir())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # The kernel's own refusal to let a file grow; Python ignores its SIGXFSZ.
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
        try:
            with pytest.raises(StoreFault) as refused:
                tell_all(store, night[40:])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "tune.db" in refused.value.fact
        assert refused.value.remedy is not None
        assert len(store.levels("7f3c")) >= len(before.trials[0].levels)
        for event in night:
            store.tell(event)
        assert store.runs()[0].levels == 8


def test_records_that_find_no_room_leave_their_level_open(tmp_path: Path) -> None:
    night = list(until_killed(Story()))
    first = next(number for number, event in enumerate(night) if isinstance(event, LevelEnded))
    with Store.open(tmp_path) as store:
        tell_all(store, night[:first])
        folder = tmp_path / "runs"
        folder.mkdir()
        with mounted_small(folder) as room:
            (room / "ballast").write_bytes(b"x" * room_left(room))
            with pytest.raises(StoreFault, match="No space left on device") as refused:
                tell_all(store, night[first:])
            assert refused.value.remedy == "free space there, then resume"
            assert store.levels("7f3c")[-1].state == "open"
            assert list(room.rglob("*.new")) == []
            (room / "ballast").unlink()
            for event in night:
                store.tell(event)
            assert store.runs()[0].levels == 8


@contextmanager
def mounted_small(folder: Path) -> Iterator[Path]:
    """A file system of 1 MiB at ``folder``; skips where mounting is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def room_left(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def test_a_database_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    with mounted_small(tmp_path) as room:
        with Store.open(room) as store:
            store.tell(Story().started())
        subprocess.run(["mount", "-o", "remount,ro", str(room)], check=True)
        with pytest.raises(StoreFault) as refused, Store.open(room) as store:
            store.tell(Story(run="beef").started())
        assert refused.value.fact == f"{room / 'tune.db'} cannot be opened"
        assert refused.value.remedy == "check the folder's owner and mode, or copy it somewhere you may write"


def test_a_database_of_somebody_else_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        Store.open(folder / "store").close()
        with as_nobody(), pytest.raises(StoreFault) as refused:
            Store.open(folder / "store")
        assert refused.value.fact == f"{folder / 'store' / 'tune.db'} cannot be read or written: Permission denied"
        assert refused.value.cause == "it belongs to somebody else"


@contextmanager
def as_nobody() -> Iterator[None]:
    """The rights of another user; skips where that cannot be had."""
    if os.geteuid() != 0:
        pytest.skip("needs root to act as another user")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
