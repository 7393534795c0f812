"""JSON and CSV of a run: the database's names, and absent is absent."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.report import export
from orchestrator.report.conditions import CONDITIONS
from orchestrator.store import Store
from orchestrator.store.schema import metadata
from tests.store.story import Story, until_killed, whole_night


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("store")) as opened:
        for event in whole_night(Story()):
            opened.tell(event)
        yield opened


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_json_nests_levels_in_launches_in_trials(store: Store) -> None:
    content = json.loads(export.as_json(store.read()))
    assert (content["run"], content["simulated"], content["state"]) == ("7f3c", False, "done")
    assert content["plan"]["objective"]["concurrency"] == 32
    production, first, failed, cut = content["trials"]
    assert (production["role"], production["launches"][0]["ready_s"]) == ("production", None)
    assert (failed["state"], failed["launches"][0]["failure_class"], failed["launches"][0]["levels"]) == (
        "failed",
        "kv-too-small",
        [],
    )
    assert cut["launches"][0]["levels"][-1]["whole_tok_s"] is None
    level = first["launches"][0]["levels"][-1]
    assert (level["level"], level["purpose"], level["steady_tok_s"], level["gap_p99_s"]) == (
        "c32.r1",
        "measure",
        362.4,
        None,
    )
    assert level["telemetry"]["power_w_max"] == 232.0
    assert level["request_file"]["path"] == "runs/7f3c/pp8.d0/pp8.d0.l1.c32.r1.jsonl.gz"
    assert [note["trial"] for note in content["notes"]] == ["pp4.tp2.d0"]


def test_names_are_the_databases(store: Store) -> None:
    columns = {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}
    content = json.loads(export.as_json(store.read()))
    trial = content["trials"][1]
    launch = trial["launches"][0]
    level = launch["levels"][0]
    own_words = {"trials", "notes", "comparison", "drift", "confirmation", "sanity"}
    assert set(content) - own_words <= columns["run"]
    assert set(trial) - {"launches"} <= columns["trial"] | columns["config"]
    assert set(launch) - {"levels"} <= columns["launch"] | columns["build"]
    assert set(level) - {"request_file", "telemetry"} <= columns["level"]
    assert set(level["telemetry"]) <= columns["telemetry"]
    assert set(level["request_file"]) <= columns["request_file"]
    own = columns["level"] | {f"{table}_{name}" for table, names in columns.items() for name in names}
    of_conditions = {f"conditions_{name}" for name in CONDITIONS}  # of a column that is a tree
    judged = {name for name in export.COLUMNS if name.startswith("against_")}
    assert set(export.COLUMNS) <= own | of_conditions | judged | {"trial_config_json"}


def test_csv_has_a_row_for_each_level_and_for_what_came_to_none(store: Store) -> None:
    rows = rows_of(export.as_csv(store.read()))
    measured = [row for row in rows if row["purpose"] == "measure" and row["state"] == "measured"]
    assert len(measured) == 10
    assert {row["simulated"] for row in rows} == {"false"}
    (best,) = [row for row in measured if (row["trial"], row["concurrency"]) == ("pp8.d0", "32")]
    assert (best["steady_tok_s"], best["whole_tok_s"], best["watts_per_gpu"], best["launch_ready_s"]) == (
        "362.4",
        "347.3",
        "231.0",
        "412.0",
    )
    assert (best["against_steady_verdict"], best["against_steady_change"]) == ("", "")  # production has no C=32
    (told,) = [row for row in measured if (row["trial"], row["concurrency"]) == ("pp8.d0", "8")]
    assert told["against_steady_verdict"] == "cannot tell"
    assert float(told["against_steady_change"]) == pytest.approx(151.2 / 101.0 - 1)
    assert (told["against_steady_lower"], told["against_steady_upper"]) == ("", "")
    (failed,) = [row for row in rows if row["trial"] == "pp4.tp2.d0"]
    assert (failed["launch_failure_class"], failed["level"], failed["whole_tok_s"], failed["concurrency"]) == (
        "kv-too-small",
        "",
        "",
        "",
    )
    (cut,) = [row for row in rows if row["state"] == "interrupted"]
    assert (cut["level"], cut["whole_tok_s"], cut["requests_ok"], cut["telemetry_samples"]) == ("c16.r1", "", "", "")


def test_a_config_that_was_never_launched_has_a_row(tmp_path: Path) -> None:
    with Store.open(tmp_path / "other") as store:
        story = Story()
        for event in (story.started(), *story.planned()):
            store.tell(event)
        rows = rows_of(export.as_csv(store.read()))
    assert [(row["trial"], row["trial_state"], row["launch"], row["level"]) for row in rows] == [
        ("production", "planned", "", ""),
        ("pp8.d0", "planned", "", ""),
        ("pp4.tp2.d0", "planned", "", ""),
        ("pp8.d8", "planned", "", ""),
    ]


def test_runs_as_json(tmp_path: Path) -> None:
    with Store.open(tmp_path / "two") as store:
        for story, night in ((Story(), whole_night), (Story(run="beef", simulated=True), until_killed)):
            for event in night(story):
                store.tell(event)
        listed = store.runs()
    latest, first = json.loads(export.runs_as_json(listed))
    assert (latest["run"], latest["simulated"], latest["state"], latest["levels"]) == ("beef", True, "open", 8)
    assert (first["trials"], first["measured"], first["failed"], first["restore_state"]) == (3, 2, 1, "verified")
    assert "plan" not in first


def test_a_run_that_confirms_nothing_says_so(store: Store) -> None:
    assert json.loads(export.as_json(store.read()))["confirmation"] is None
