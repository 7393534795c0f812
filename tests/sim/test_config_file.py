"""`--config FILE` as SGLang merges it: the file first, so that the command line wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.sim.arguments import parse
from orchestrator.sim.config_file import ConfigRefused, with_config


def test_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text('# ours\napi-key: "sk-\\"1"\npp-size: 4\ntrust-remote-code: true\nenable-metrics: false\n')
    words = with_config(["--model-path", "m", "--config", str(file), "--pp-size", "8"])
    read = parse(words, version="0.5.23", environment={})
    values = (read.values["api_key"], read.values["pp_size"], read.values["trust_remote_code"])
    assert values == ('sk-"1', 8, True)
    assert not read.values["enable_metrics"]
    assert with_config(["--pp-size", "8"]) == ["--pp-size", "8"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [("a.txt", "", "must be YAML"), ("a.yaml", None, "not found"), ("a.yml", "x", "dictionary")],
)
def test_what_sglang_does_not_take(tmp_path: Path, name: str, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigRefused, match=told) as refused:
        with_config(["--config", str(tmp_path / name)])
    assert refused.value.exit_status == 1
