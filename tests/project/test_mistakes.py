"""Every mistake in a file gives its one message: file, line, key, what was read, what is accepted, the nearest match.

The cases are in mistakes-sweep.txt and mistakes-inventory.txt: what is replaced (-), what stands there instead (+),
and every fault that gives.
"""

from pathlib import Path

import pytest

from tests.project.projects import INVENTORY, SWEEP, changed, faults, read, write_project


def _cases(name: str) -> list[tuple[str, str, str]]:
    blocks = Path(__file__).with_name(name).read_text().strip().split("\n\n")
    return [_case(block) for block in blocks]


def _case(block: str) -> tuple[str, str, str]:
    old, new, told = block.split("\n", 2)
    assert old.startswith("- ")
    assert new.startswith("+")
    return _unescaped(old[2:]), _unescaped(new[2:]), told


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


IN_SWEEP = _cases("mistakes-sweep.txt")
IN_INVENTORY = _cases("mistakes-inventory.txt")


@pytest.mark.parametrize(("old", "new", "told"), IN_SWEEP, ids=[new for _, new, _ in IN_SWEEP])
def test_in_a_sweep_file(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert "\n".join(faults(tmp_path, sweep=changed(SWEEP, old, new))) == told


@pytest.mark.parametrize(("old", "new", "told"), IN_INVENTORY, ids=[new for _, new, _ in IN_INVENTORY])
def test_in_the_inventory(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert "\n".join(faults(tmp_path, inventory=changed(INVENTORY, old, new))) == told


def test_all_of_both_files_are_told_at_once(tmp_path: Path) -> None:
    inventory = changed(INVENTORY, "port: 30000", "port: many")
    inventory = changed(inventory, "pp-size: 8", "pp-sise: 8")
    inventory = changed(inventory, "HF_HOME: /data/hf", "HF-HOME: /data/hf")
    sweep = changed(SWEEP, "pp-size: [8, 4]", "pp-asynch-batch-depth: [8, 4]")
    sweep = changed(sweep, "pp_size * tp_size == gpus", "pp_sise * tp_size == gpus")
    sweep = changed(sweep, "chunked-prefill-size: 8192", "chunked-prefill-size: lots")
    sweep = changed(sweep, "arrival: staggered", "arrival: poisson")
    sweep = changed(sweep, "repeats: {per-level: 2}", "repeats: {per-level: 2, confirm: 1}\nwrokload: {}")
    assert faults(tmp_path, inventory=inventory, sweep=sweep) == [
        'inventory.yaml:12: services.k26.port: read "many"; accepted: a whole number from 1 to 65535',
        'inventory.yaml:15: services.k26.flags: unknown flag "pp-sise"\n    did you mean pp-size?',
        'inventory.yaml:18: services.k26.environment: "HF-HOME" is no name of an environment variable; '
        "accepted: letters, digits and _",
        'sweeps/night.yaml:3: grid: unknown flag "pp-asynch-batch-depth"\n    did you mean pp-async-batch-depth?',
        'sweeps/night.yaml:6: where: "pp_sise * tp_size == gpus": unknown name "pp_sise"\n    did you mean pp_size?',
        'sweeps/night.yaml:8: flags.chunked-prefill-size: read "lots"; accepted: a whole number, at least -1',
        'sweeps/night.yaml:15: workload.arrival: read "poisson"; accepted of a closed loop (concurrency): '
        "staggered or burst",
        "sweeps/night.yaml:17: repeats.confirm: read 1; accepted: auto, none or a whole number from 2 to 100",
        'sweeps/night.yaml:18: unknown key "wrokload"\n    did you mean workload?',
    ]


def test_count_and_host_state_end_the_message(tmp_path: Path) -> None:
    from orchestrator.errors import InputRefused

    project = write_project(tmp_path, sweep=changed(SWEEP, "pp-size: [8, 4]", "pp-size: [a, b]"))
    with pytest.raises(InputRefused) as refused:
        project.sweep(Path("sweeps/night.yaml"))
    assert refused.value.fact == "2 faults. Nothing has been touched."
    assert refused.value.exit_code == 2


def test_the_files_without_mistakes_are_read(tmp_path: Path) -> None:
    assert read(tmp_path).name == "night"
