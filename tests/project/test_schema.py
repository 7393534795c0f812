"""The JSON Schemas accept what the readers accept, and find what an editor can find."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from orchestrator.cli.main import run
from orchestrator.core.flags import Flag, ValueRefused, find, names, setting
from orchestrator.core.flags.catalogue import OPTIONS
from orchestrator.project import shipped
from orchestrator.project.meanings import MEANINGS
from orchestrator.project.schema import FILES, schema
from orchestrator.project.shapes import Shape
from tests.project.projects import INVENTORY, SWEEP, changed

INVENTORY_SCHEMA, SWEEP_SCHEMA = schema("inventory"), schema("sweep")


def mistakes(made: dict[str, Any], text: str) -> list[str]:
    content = json.loads(json.dumps(yaml.safe_load(text)))  # keys are text in JSON
    found = jsonschema.Draft202012Validator(made).iter_errors(content)
    return sorted(".".join(map(str, each.absolute_path)) for each in found)


@pytest.mark.parametrize("file", FILES)
def test_it_is_valid_json_schema(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", file]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == schema(file)
    jsonschema.Draft202012Validator.check_schema(printed)


@pytest.mark.parametrize("path", sorted(shipped("sweeps").glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_sweeps_are_accepted(path: Path) -> None:
    assert mistakes(SWEEP_SCHEMA, path.read_text()) == []


def test_sound_files_are_accepted() -> None:
    assert mistakes(INVENTORY_SCHEMA, shipped("inventory.yaml").read_text()) == []
    assert mistakes(INVENTORY_SCHEMA, INVENTORY) == []
    assert mistakes(SWEEP_SCHEMA, SWEEP) == []
    as_editors_read_it = SWEEP.replace("[on, off]", '["on", "off"]').replace("OVERLAP: on", 'OVERLAP: "on"')
    assert mistakes(SWEEP_SCHEMA, as_editors_read_it) == []
    group = changed(SWEEP, "tp-size: [1, 2]", "layout: [{--tp_size: 1, ep-size: 1}, {tensor-parallel-size: 2}]")
    assert mistakes(SWEEP_SCHEMA, group) == []
    assert mistakes(SWEEP_SCHEMA, changed(SWEEP, "cuda-graph: [on", "disable-cuda-graph: [on")) == []
    vllm = changed(INVENTORY, "unit: sglang", "kind: vllm\n    unit: sglang").replace("pp-size", "any-thing")
    assert mistakes(INVENTORY_SCHEMA, vllm) == []


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("services:", "service:", ""),
        ("    port: 30000\n", "", "services.k26"),
        ("port: 30000", "port: '30000'", "services.k26.port"),
        ("pp-size: 8", "pp-sice: 8", "services.k26.flags"),
        ("pp-size: 8", "pp-size: eight", "services.k26.flags.pp-size"),
        ("pp-size: 8", "api-key: sk-1", "services.k26.flags"),
        ("user: sglang", "secrets: {HF_TOKEN: {file: a, env: B}}", "services.k26.secrets.HF_TOKEN"),
        ("timeout: 60m", "timeout: 60", "services.k26.startup.timeout"),
        ("gpus: {count: 8}", "gpus: 8", "hosts.box.gpus"),
    ],
)
def test_a_mistake_in_the_inventory_is_found(old: str, new: str, place: str) -> None:
    assert place in mistakes(INVENTORY_SCHEMA, changed(INVENTORY, old, new))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("service: k26\n", "", ""),
        ("grid:", "axes:", ""),
        ("tp-size: [1, 2]", "tp-size: 1", "grid.tp-size"),
        ("tp-size: [1, 2]", "tp-sise: [1, 2]", "grid.tp-sise.0"),
        ("tp-size: [1, 2]", "layout: [{tp-sise: 2}]", "grid.layout.0"),
        ("tp-size: [1, 2]", "port: [1, 2]", "grid.port.0"),
        ("cuda-graph: [on, off]", "cuda-graph: [maybe]", "grid.cuda-graph.0"),
        ("quicksort", "bubblesort", "workload.prompts"),
        ("arrival: staggered", "arrival: sometimes", "workload.arrival"),
        ("output-tokens: 1024", "output-tokens: {fixed: 1, around: 2}", "workload.output-tokens"),
        ('{until: "07:00"}', '{until: "25:00"}', "budget.until"),
        ('{until: "07:00"}', '{until: "07:00", hours: 8}', "budget"),
        ("repeats: {per-level: 2}", "repeats: {per_level: 2}", "repeats"),
    ],
)
def test_a_mistake_in_a_sweep_is_found(old: str, new: str, place: str) -> None:
    assert place in mistakes(SWEEP_SCHEMA, changed(SWEEP, old, new))


def test_every_key_says_what_it_means() -> None:
    shapes = {shape: {field.alias for field in shape.model_fields.values()} for shape in Shape.__subclasses__()}
    assert {shape.__name__: set(meanings) for shape, meanings in MEANINGS.items()} == {
        shape.__name__: keys for shape, keys in shapes.items()
    }


VALUES = (True, False, "on", "off", 0, 1, 8, 64, -1, 0.5, "8", "128k", "1Ki", "auto", "some text", [1, 8], ["a", "b"])


@pytest.mark.parametrize("name", names())
def test_a_value_that_is_read_is_accepted(name: str) -> None:
    """The other way round is not asked for: rules that an editor cannot know stay with `tune plan`."""
    flag = find(name)
    assert flag is not None
    place = "flags" if isinstance(flag, Flag) else "environment"
    definition = SWEEP_SCHEMA["$defs"]["Flags"] if place == "flags" else SWEEP_SCHEMA["properties"]["environment"]
    if isinstance(flag, Flag) and name not in definition["properties"]:
        definition = INVENTORY_SCHEMA["$defs"]["Flags"]
    if name not in definition["properties"]:
        assert name in {"port", "api-key", "admin-api-key", "ssl-keyfile-password"}
        return
    check = jsonschema.Draft202012Validator(definition["properties"][name])
    choices = flag.choices if isinstance(flag, Flag) else ()
    for value in (*VALUES, *choices):
        try:
            setting(name, value)
        except ValueRefused:
            continue
        assert check.is_valid(value), value


def test_every_spelling_is_accepted_and_only_canonical_ones_are_offered() -> None:
    flags = SWEEP_SCHEMA["$defs"]["Flags"]
    (spelled,) = flags["patternProperties"]
    for option in OPTIONS:
        if option.means in flags["properties"]:
            for written in (option.name, f"--{option.name}", option.name.replace("-", "_"), *option.aliases):
                assert re.search(spelled, written), written
    assert flags["properties"].keys() <= set(names())
