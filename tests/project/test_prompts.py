"""Prompts from files and as random token ids: what is read, and what is said of files with mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.core.load.levels import digest
from orchestrator.core.workload import Prompt, Workload
from orchestrator.project import Project
from orchestrator.project.prompts import MAX_FILE, SHOWN_LINES
from tests.project.projects import INVENTORY, SWEEP, changed, faults, read

OLD = "prompts: [quicksort, redis-guide]"


def workload(folder: Path, prompts: str, **files: str) -> Workload:
    """The workload of a project whose sweep has these prompts, with files beside the sweep file."""
    (folder / "sweeps").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "sweeps" / name.replace("_", ".")).write_text(content)
    return read(folder, sweep=changed(SWEEP, OLD, f"prompts: {prompts}")).workload


def told(folder: Path, prompts: str, **files: str) -> list[str]:
    (folder / "sweeps").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "sweeps" / name.replace("_", ".")).write_text(content)
    return faults(folder, sweep=changed(SWEEP, OLD, f"prompts: {prompts}"))


def test_lines_of_prompts_and_of_conversations(tmp_path: Path) -> None:
    lines = [
        {"prompt": "one"},
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "two"}]},
        {"prompt": "three", "output-tokens": 7, "id": 12},
    ]
    content = "\n".join(json.dumps(line) for line in lines)
    assert workload(tmp_path, "{file: asked.txt}", asked_txt=content).prompts == (
        Prompt(name="asked:1", text="one"),
        Prompt(name="asked:2", messages=(("system", "be brief"), ("user", "two"))),
        Prompt(name="asked:3", text="three", output_tokens=7),
    )


def test_only_the_first_of_a_file(tmp_path: Path) -> None:
    found = workload(tmp_path, "[{file: a.jsonl, first: 2}, quicksort]", a_jsonl='{"prompt": "x"}\n' * 5)
    assert [prompt.name for prompt in found.prompts] == ["a:1", "a:2", "quicksort"]


def test_every_wrong_line_is_told_up_to_a_bound(tmp_path: Path) -> None:
    lines = ['{"prompt": "fine"}', *['{"prompt": 3}'] * (SHOWN_LINES + 3)]
    found = told(tmp_path, "a.jsonl", a_jsonl="\n".join(lines))
    assert [fault.split(": ", 1)[0] for fault in found] == [f"a.jsonl:{n}" for n in range(2, SHOWN_LINES + 3)]
    assert found[-1] == f"a.jsonl:{SHOWN_LINES + 2}: this line and 2 more, too"


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ('{"prompt": "a", "messages": []}', "a line such as"),
        ('{"messages": []}', 'messages such as [{"role": "user", "content": "…"}]'),
        ('{"messages": [{"role": "robot", "content": "a"}]}', 'messages such as [{"role": "user", "content": "…"}]'),
        ('{"messages": [{"role": "user", "content": [1]}]}', 'messages such as [{"role": "user", "content": "…"}]'),
        ('{"prompt": "a", "output-tokens": true}', '"output-tokens": a whole number from 1 to 1000000'),
        ('{"prompt": "a", "output-tokens": 0}', '"output-tokens": a whole number from 1 to 1000000'),
        ("[" * 100_000, "a line such as"),
    ],
)
def test_a_wrong_line(tmp_path: Path, line: str, accepted: str) -> None:
    (fault,) = told(tmp_path, "a.jsonl", a_jsonl=line)
    assert fault.startswith("a.jsonl:1: read ")
    assert f"; accepted: {accepted}" in fault


CONVERSATIONS = [
    {"id": "a", "conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hi"}]},
    {"id": "b", "conversations": [{"from": "gpt", "value": "I begin"}]},
    {"id": "c", "conversations": []},
    {"id": "d", "conversations": [{"from": "human", "value": "again"}]},
    {"id": "e", "conversations": [{"from": "human", "value": "third"}]},
]


def test_the_first_human_turn_of_each_conversation(tmp_path: Path) -> None:
    text = json.dumps(CONVERSATIONS, indent=1)
    found = workload(tmp_path, "{sharegpt: share.json, first: 2}", share_json=text)
    assert [(prompt.name, prompt.text) for prompt in found.prompts] == [("share:1", "hello"), ("share:4", "again")]


def test_a_file_that_is_larger_than_anybody_wants_to_read_is_read_as_far_as_needed(tmp_path: Path) -> None:
    one = json.dumps(CONVERSATIONS[0])
    head = f"[{one},\n"
    rest = json.dumps({"conversations": [{"from": "human", "value": "x" * 300_000}]}) + ",\n"
    (tmp_path / "sweeps").mkdir()
    with (tmp_path / "sweeps" / "share.json").open("w") as file:
        file.write(head)
        for _ in range(MAX_FILE // len(rest) + 2):
            file.write(rest)
    found = read(tmp_path, sweep=changed(SWEEP, OLD, "prompts: {sharegpt: share.json, first: 3}"))
    assert [len(prompt.text) for prompt in found.workload.prompts] == [5, 300_000, 300_000]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "share.json:1: is not JSON here: no list; accepted: a list of conversations"),
        ('[{"a": 1}\n{"b": 2}]', "share.json:2: is not JSON here: no comma; accepted: a list of conversations"),
        ('[{"a": 1},\n{"b": ', "share.json:2: is not JSON here: "),
        ('[{"a": 1}]', "share.json: holds no conversation that a human begins"),
        ("[]", "share.json: holds no conversation that a human begins"),
        ("[" * 100_000, "share.json:1: is not JSON here: nested too deep"),
    ],
)
def test_a_file_that_is_no_list_of_conversations(tmp_path: Path, content: str, said: str) -> None:
    (fault,) = told(tmp_path, "{sharegpt: share.json}", share_json=content)
    assert fault.startswith(said)


def test_random_tokens_know_the_models_vocabulary(tmp_path: Path) -> None:
    assert workload(tmp_path, "{random-tokens: 512}").prompts == (
        Prompt(name="random-512", random_tokens=512, vocabulary=32_000),
    )
    model = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 163840}
    (tmp_path / "model.json").write_text(json.dumps(model))
    inventory = INVENTORY.replace("    port: 30000\n", "    port: 30000\n    model: {config: model.json}\n")
    sweep = changed(SWEEP, OLD, "prompts: [{random-tokens: 512}, quicksort]")
    found = read(tmp_path, inventory=inventory, sweep=sweep).workload.prompts
    assert found[0] == Prompt(name="random-512", random_tokens=512, vocabulary=163_840)
    assert found[1].name == "quicksort"


def test_the_digest_covers_what_a_file_holds(tmp_path: Path) -> None:
    first = workload(tmp_path, "{file: a.jsonl}", a_jsonl='{"prompt": "x"}\n')
    (tmp_path / "sweeps" / "a.jsonl").write_text('{"prompt": "y"}\n')
    second = Project.open(tmp_path).sweep(Path("sweeps/night.yaml")).workload
    assert digest(first) != digest(second)
