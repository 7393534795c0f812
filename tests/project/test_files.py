"""Files that are not there, not text, not YAML or not what they should be are told in one message each."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import InputRefused
from orchestrator.project import Project
from tests.project.projects import INVENTORY, SWEEP, changed, faults, read, write_project


def _told(project: Project, path: str = "sweeps/night.yaml") -> list[str]:
    with pytest.raises(InputRefused) as refused:
        project.sweep(Path(path))
    return list(refused.value.faults)


def _absent(path: Path) -> None:
    path.unlink()


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (_absent, "sweeps/night.yaml: does not exist"),
        (_folder, "sweeps/night.yaml: is no regular file"),
        (_pipe, "sweeps/night.yaml: is no regular file"),
        (lambda path: path.write_bytes(b""), "sweeps/night.yaml:1: is empty; a mapping of keys is needed"),
        (lambda path: path.write_bytes(b"# only\n\n"), "sweeps/night.yaml:1: is empty; a mapping of keys is needed"),
        (lambda path: path.write_bytes(b"---\n"), "sweeps/night.yaml:1: is empty; a mapping of keys is needed"),
        (
            lambda path: path.write_bytes(b"\n- a\n"),
            "sweeps/night.yaml:2: holds a list at the top level; a mapping of keys is needed",
        ),
        (
            lambda path: path.write_bytes(b"just words\n"),
            "sweeps/night.yaml:1: holds a single value at the top level; a mapping of keys is needed",
        ),
        (
            lambda path: path.write_bytes(b"service: k26\n\xff\xfe\x00\n"),
            "sweeps/night.yaml:2: is not UTF-8 text: byte 0xff at offset 13\n    save the file as UTF-8",
        ),
        (
            lambda path: path.write_bytes(b"service: k26\na: \x1b[31m\n"),
            "sweeps/night.yaml:2: is not text: control character 0x1b",
        ),
        (lambda path: path.write_bytes(b"\x7fELF\x00\x01"), "sweeps/night.yaml:1: is not text: control character 0x7f"),
        (lambda path: path.write_bytes(b"a: 1\n" * 300_000), "sweeps/night.yaml: is larger than 1024 KiB"),
        (
            lambda path: path.write_bytes(b"a: [" + b"1," * 60_000 + b"]\n"),
            "sweeps/night.yaml:1: holds more than 50000 values",
        ),
        (
            lambda path: path.write_bytes(b"a: " + b"[" * 50 + b"]" * 50 + b"\n"),
            "sweeps/night.yaml:1: is nested deeper than 16 levels",
        ),
        (
            lambda path: path.write_bytes(b"a: 1\n---\nb: 2\n"),
            "sweeps/night.yaml:2: holds a second document; only one is read",
        ),
        (
            lambda path: path.write_bytes(b"a: &x [1]\nb: *x\n"),
            "sweeps/night.yaml:1: &x: anchors and aliases are not read; write it out",
        ),
    ],
)
def test_a_sweep_file_that_cannot_be_read(tmp_path: Path, make: Callable[[Path], object], expected: str) -> None:
    project = write_project(tmp_path)
    make(tmp_path / "sweeps" / "night.yaml")
    assert _told(project) == [expected]


def test_a_file_that_the_system_refuses_to_open(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    (tmp_path / "sweeps" / "night.yaml").unlink()
    (tmp_path / "sweeps" / "night.yaml").symlink_to("night.yaml")
    assert _told(project) == ["sweeps/night.yaml: cannot be read: Too many levels of symbolic links"]


def test_a_path_that_no_file_can_have(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    name = "x" * 300 + ".yaml"
    assert _told(project, name) == [f"{name}: cannot be read: File name too long"]


def test_a_sweep_file_with_a_slip_in_its_name(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    expected = "does not exist\n    did you mean sweeps/night.yaml?"
    assert _told(project, "sweeps/night.yml") == [f"sweeps/night.yml: {expected}"]
    assert _told(project, "nihgt.yaml") == [f"nihgt.yaml: {expected}"]
    assert _told(project, "entirely-different") == ["entirely-different: does not exist"]


def test_both_files_broken_are_both_told(tmp_path: Path) -> None:
    assert faults(tmp_path, inventory="hosts: [\n", sweep="a: {\n") == [
        "sweeps/night.yaml:2: is not YAML: while parsing a flow node, expected the node content, "
        "but found '<stream end>'",
        "inventory.yaml:2: is not YAML: while parsing a flow node, expected the node content, but found '<stream end>'",
    ]


@pytest.mark.parametrize("change", ["\ufeff{}", "{}\n# end without newline"])
def test_marks_that_do_no_harm(tmp_path: Path, change: str) -> None:
    assert read(tmp_path, sweep=change.format(SWEEP)).workload.concurrency == (1, 4)


def test_windows_line_ends_keep_the_line_numbers(tmp_path: Path) -> None:
    windows = changed(SWEEP, "arrival: staggered", "arrival: stagered").replace("\n", "\r\n")
    assert faults(tmp_path, sweep=windows) == [
        'sweeps/night.yaml:15: workload.arrival: read "stagered"; accepted: staggered or burst or constant or poisson\n'
        "    did you mean staggered?"
    ]


def test_a_template_of_the_project_goes_before_the_shipped_one(tmp_path: Path) -> None:
    assert read(tmp_path).service.template_text == "[Service]\n"
    (tmp_path / "templates" / "sglang.service.j2").unlink()
    assert "[Service]" in read_shipped(tmp_path)


def read_shipped(folder: Path) -> str:
    """The template that a project without one of its own gets."""
    return Project.open(folder).sweep(Path("sweeps/night.yaml")).service.template_text


def test_a_template_that_is_no_text(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    (tmp_path / "templates" / "sglang.service.j2").write_bytes(b"\xff")
    assert _told(project) == [
        "templates/sglang.service.j2:1: is not UTF-8 text: byte 0xff at offset 0\n    save the file as UTF-8"
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"prompt": "hello"}\n{"prompt": 1}\n', ['chats.jsonl:2: read {"prompt": 1}; accepted: a line such as ']),
        ('{"prompt": "hello"}\nhello\n', ["chats.jsonl:2: read hello; accepted: a line such as "]),
        ("\n\n", ["chats.jsonl: holds 0 prompts; accepted: 1 to 10000"]),
    ],
)
def test_prompt_files_with_mistakes(tmp_path: Path, content: str, expected: list[str]) -> None:
    project = write_project(tmp_path, sweep=changed(SWEEP, "[quicksort, redis-guide]", "chats.jsonl"))
    (tmp_path / "sweeps" / "chats.jsonl").write_text(content)
    told = [fault.partition('{"prompt": "…"}')[0] for fault in _told(project)]
    assert told == expected


def test_prompts_of_a_file_beside_the_sweep(tmp_path: Path) -> None:
    write_project(tmp_path, sweep=changed(SWEEP, "[quicksort, redis-guide]", "[chats.jsonl, quicksort]"))
    (tmp_path / "sweeps" / "chats.jsonl").write_text('{"prompt": "one"}\n\n{"prompt": "two", "id": 3}\n')
    prompts = Project.open(tmp_path).sweep(Path("sweeps/night.yaml")).workload.prompts
    assert [(prompt.name, prompt.text) for prompt in prompts[:2]] == [("chats:1", "one"), ("chats:3", "two")]
    assert prompts[2].name == "quicksort"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "model.json:1: is not JSON: Expecting property name enclosed in double quotes"),
        ("[1]", "model.json:1: holds no mapping at the top level; a model's config.json is needed"),
        ('{"hidden_size": 1, "num_attention_heads": 1}', 'model.json: key "num_hidden_layers" is missing'),
        (
            '{"num_hidden_layers": 0, "hidden_size": 1, "num_attention_heads": 1}',
            "model.json: num_hidden_layers: read 0; accepted: a whole number above 0",
        ),
        (
            '{"num_hidden_layers": 1, "hidden_size": 1, "num_attention_heads": 1, "weight_gib": "big"}',
            'model.json: weight_gib: read "big"; accepted: a number above 0',
        ),
    ],
)
def test_model_files_with_mistakes(tmp_path: Path, content: str, expected: str) -> None:
    inventory = changed(INVENTORY, "port: 30000", "port: 30000\n    model: {config: model.json}")
    project = write_project(tmp_path, inventory=inventory)
    (tmp_path / "model.json").write_text(content)
    assert _told(project) == [expected]


_LINES = st.sampled_from(
    ["", "x", "- a", "  - a", "on", "a: b", "  a: b", "\t", "[", "{", "? a", ": b", "'", '"', "%", "*a", "|", "9" * 400]
)


@given(
    which=st.sampled_from(["inventory", "sweep"]),
    at=st.integers(0, 25),
    act=st.sampled_from(["drop", "double", "replace", "insert", "cut"]),
    line=_LINES,
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_read_or_refused(tmp_path: Path, which: str, at: int, act: str, line: str) -> None:
    lines = (INVENTORY if which == "inventory" else SWEEP).splitlines()
    at %= len(lines)
    damaged = {
        "drop": [*lines[:at], *lines[at + 1 :]],
        "double": [*lines[: at + 1], *lines[at:]],
        "replace": [*lines[:at], line, *lines[at + 1 :]],
        "insert": [*lines[:at], line, *lines[at:]],
        "cut": [*lines[:at], lines[at][: len(lines[at]) // 2], *lines[at + 1 :]],
    }[act]
    text = "\n".join(damaged) + "\n"
    project = write_project(tmp_path, inventory=text) if which == "inventory" else write_project(tmp_path, sweep=text)
    try:
        project.sweep(Path("sweeps/night.yaml"))
    except InputRefused as refused:
        told = list(refused.faults)
        assert told == sorted(set(told), key=told.index)
        assert all(fault.startswith(("inventory.yaml", "sweeps/night.yaml")) for fault in told)


@given(
    key=st.sampled_from(
        ["service", "grid", "where", "flags", "environment", "workload", "repeats", "objective", "budget"]
    ),
    value=st.recursive(
        st.sampled_from(["x", "1", "-1", "1.5", "on", "~", '""', "1e9", "07:00"]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
            st.dictionaries(st.sampled_from(["pp-size", "a", "1", "at", "fixed", "until"]), inner, max_size=3).map(
                lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
            ),
        ),
        max_leaves=6,
    ),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_of_any_key_is_read_or_refused(tmp_path: Path, key: str, value: str) -> None:
    base = "service: k26\nworkload: {prompts: quicksort, output-tokens: 8, concurrency: 1}\n"
    text = "".join(line for line in base.splitlines(keepends=True) if not line.startswith(key)) + f"{key}: {value}\n"
    project = write_project(tmp_path, sweep=text)
    try:
        project.sweep(Path("sweeps/night.yaml"))
    except InputRefused as refused:
        told = refused.faults
        assert told


def test_what_a_model_file_says_is_nothing_is_not_known(tmp_path: Path) -> None:
    inventory = changed(INVENTORY, "port: 30000", "port: 30000\n    model: {config: model.json}")
    write_project(tmp_path, inventory=inventory)
    content = '{"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,'
    (tmp_path / "model.json").write_text(content + ' "head_dim": null, "kv_lora_rank": null, "vocab_size": 100}')
    model = Project.open(tmp_path).inventory.services["k26"].model
    assert model is not None
    assert (model.kv_heads, model.head_dim, model.kv_lora_rank, model.vocabulary) == (2, 0, 0, 100)
