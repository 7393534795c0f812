"""Recorded answers of real hosts → the exact entry or refusal; and the rules behind it, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.core.adopt import expand, secrets
from orchestrator.core.adopt.arguments import read_sglang, read_vllm
from orchestrator.core.adopt.expand import Variable, Word
from orchestrator.core.adopt.launcher import Launch, NotAnEngine, read_command
from tests.core.adopting import CASES, Replay, outcome, replay
from tests.hosts.handwritten import KEY

ALL = sorted(path.stem for path in CASES.glob("*.json"))


@pytest.mark.parametrize("case", ALL)
def test_the_recorded_host_gives_the_same_entry_or_refusal(case: str) -> None:
    assert outcome(*replay(case)) == (CASES / f"{case}.txt").read_text()


@pytest.mark.parametrize("case", ALL)
def test_no_secret_is_in_any_outcome(case: str) -> None:
    said = outcome(*replay(case))
    for secret in (KEY, "hf_abcdefghijklmnop", "hf_neverinanentry1", "sk-literal"):
        assert secret not in said


def _changed(case: str, program: str, **answer: Any) -> str:
    """A case's outcome when the answer of the commands that contain ``program`` is another."""
    host, entry, unit = replay(case)
    recorded = json.loads((CASES / f"{case}.json").read_text())
    changed = [said | answer if program in " ".join(said["argv"]) else said for said in recorded["answers"]]
    assert changed != recorded["answers"]
    return outcome(Replay(host.name, changed), entry, unit)


def test_an_interpreter_that_has_no_engine_is_refused() -> None:
    said = "importlib.metadata.PackageNotFoundError: No package metadata was found for sglang"
    assert _changed("bare-python", "-B -c", returncode=1, stdout="", stderr=f"Traceback\n{said}\n") == (
        "refused\n"
        "/etc/systemd/system/chat.service:10: chat.service on gpu1: /srv/chat/.venv/bin/python does not say which "
        f"sglang it has: {said}\n"
        "    it is asked for the version, and trials start it: make it so that /srv/chat/.venv/bin/python runs on the "
        "host\n"
    )


def test_a_parser_that_cannot_be_asked_is_said() -> None:
    text = _changed("bare-python-house-rule", "--help", returncode=1, stdout="", stderr="no module named torch\n")
    assert "warning: --house-rule: not in the catalogue, and the installed parser could not be asked" in text
    assert 'extra-args: ["--house-rule", "7"]' in text


def test_a_parser_that_knows_the_option_is_said() -> None:
    text = _changed("bare-python-house-rule", "--help", stdout="usage: x\n  --house-rule N\n")
    assert "warning: --house-rule: known to the installed parser, not to the catalogue; kept as written" in text


def test_a_process_that_renamed_itself_is_not_compared() -> None:
    text = _changed("bare-python", "/cmdline", stdout="sglang::server\0")
    assert "the running process calls itself 'sglang::server': its command line cannot be compared" in text


def test_another_secret_in_the_running_process_is_said_without_it() -> None:
    host, entry, unit = replay("braced")
    recorded = json.loads((CASES / "braced.json").read_text())
    for answer in recorded["answers"]:
        answer["stdout"] = answer["stdout"].replace(f"{KEY}\0", "sk-older-key-of-the-day\0")
    text = outcome(Replay(host.name, recorded["answers"]), entry, unit)
    assert "the running process was started with another value of a secret flag than its next start would use" in text
    assert "older-key" not in text


def test_an_empty_word_is_refused_with_why_it_is_empty() -> None:
    text = _changed("braced", "engine.env", stdout="ENGINE_MODEL=m\nENGINE_HOST=0.0.0.0\nENGINE_PORT=8200\n")
    assert text == (
        "refused\n"
        "/etc/systemd/system/adapters.service:7: adapters.service on gpu1: the engine gets an empty word for "
        "${ENGINE_KEY}: $ENGINE_KEY is empty: neither the unit nor a file sets it\n"
        "    set it, or leave the word out\n"
    )


def test_a_port_that_is_no_number_is_refused() -> None:
    text = _changed("braced", "engine.env", stdout="ENGINE_MODEL=m\nENGINE_HOST=h\nENGINE_PORT=http\nENGINE_KEY=k\n")
    assert "--port has no single number: http" in text
    text = _changed("one-variable", "engine.conf", stdout="ENGINE_ARGS=--model-path m --port http\n")
    assert 'engine.service:9: engine.service on gpu1: port: read "http", accepted: a whole number, at least 1' in text


def test_a_key_among_other_flags_of_a_variable_is_left_out_with_what_to_do() -> None:
    text = _changed("one-variable", "engine.conf", stdout="ENGINE_ARGS=--model-path m --api-key topsecretword\n")
    assert "topsecretword" not in text
    assert "since $ENGINE_ARGS in /etc/engine.conf holds more than it: give it a variable of its own" in text


def test_a_short_key_in_the_units_own_text_is_left_out_too() -> None:
    host, entry, unit = replay("braced")
    recorded = json.loads((CASES / "braced.json").read_text())
    for answer in recorded["answers"]:
        answer["stdout"] = answer["stdout"].replace(f"ENGINE_KEY='{KEY}'", "").replace(f"{KEY}\0", "k9\0")
        answer["stdout"] = answer["stdout"].replace(
            '{"type":"as","data":["PATH=', '{"type":"as","data":["ENGINE_KEY=k9","PATH='
        )
    text = outcome(Replay(host.name, recorded["answers"]), entry, unit)
    assert "k9" not in text
    assert "ENGINE_KEY in Environment= is a secret in the unit's text" in text


def test_a_config_file_and_several_nodes_are_refused_together() -> None:
    text = _changed("one-variable", "engine.conf", stdout="ENGINE_ARGS=--model-path m --config c.yaml --nnodes 2\n")
    assert [line.rpartition("gpu1: ")[2] for line in text.splitlines()[1::2]] == [
        "--config: more flags are decided in c.yaml",
        "--nnodes 2: an engine over several hosts",
    ]


# --- what ExecStart runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "kind", "folder", "words"),
    [
        ("/v/bin/python -m sglang.launch_server --model-path m", "sglang", "/v", 3),
        ("/v/bin/python3.12 -u -X dev -m sglang.launch_server --model-path m", "sglang", "/v", 6),
        ("/usr/bin/env HF_HOME=/d /v/bin/python3 -m sglang.launch_server", "sglang", "/v", 5),
        ("/v/bin/sglang serve m --tp 8", "sglang", "/v", 2),
        ("/v/bin/python -m sglang serve --model-path m", "sglang", "/v", 4),
        ("/v/bin/vllm serve m", "vllm", "/v", 2),
        ("/v/bin/python -m vllm.entrypoints.openai.api_server --model m", "vllm", "/v", 3),
        ("/usr/bin/uv run --frozen --project /p vllm serve m", "vllm", None, 7),
        ("/usr/bin/uv run python -m sglang.launch_server", "sglang", None, 5),
        ("/usr/bin/env uv run -- vllm serve m", "vllm", None, 6),
    ],
)
def test_engines_are_recognised(command: str, kind: str, folder: str | None, words: int) -> None:
    argv = command.split()
    launch = read_command(argv[0], argv)
    assert isinstance(launch, Launch)
    assert (launch.kind, launch.folder, launch.words) == (kind, folder, words)


NO_ENGINES = (CASES / "no-engines").read_text().splitlines()


@pytest.mark.parametrize(("command", "reason"), list(zip(NO_ENGINES[::2], NO_ENGINES[1::2], strict=True)))
def test_what_is_no_engine_is_named(command: str, reason: str) -> None:
    argv = command.split()
    launch = read_command(argv[0], argv)
    assert isinstance(launch, NotAnEngine)
    assert reason.strip() in launch.reason
    assert launch.remedy


# --- words -------------------------------------------------------------------------------------------------------


def _words(*texts: str) -> tuple[Word, ...]:
    return tuple(Word(text=text) for text in texts)


def test_a_word_of_its_own_is_split_and_a_braced_one_is_not() -> None:
    variables = {"A": Variable(value="x  'y z'", source="/e", is_file=True)}
    found = expand.expand(["$A", "${A}", "<${A}>", "$$A", "b$A", "$B"], variables)
    assert [word.text for word in found.words] == ["x", "y z", "x  'y z'", "<x  'y z'>", "$A", "b$A"]
    assert found.unset == ("B",)


def test_lines_of_an_environment_file_that_systemd_ignores_are_told() -> None:
    read = expand.read_environment("A=1\nexport B=2\nnonsense\n# x \\\nC=3\n")
    assert (dict(read.values), read.ignored, read.doubtful) == (
        {"A": "1", "C": "3"},
        ((2, '"export B" is no variable name'),),
        (4,),
    )


def test_vllm_words_keep_their_names_and_json_every_byte() -> None:
    words = _words("big", "--a.b_c-d", "1", "--on", "--two", '{"x": 1}', "-1", "--v=0.90", "-tp", "8", "--v=7")
    read = read_vllm(words, {}, positional=True)
    assert dict(read.flags) == {"model": "big", "a.b_c-d": 1, "on": True, "two": ('{"x": 1}', "-1"), "v": 7}
    assert read.extra == ("-tp", "8")
    assert [warning.split(":")[0] for warning in read.warnings] == ['"-tp"', "--v"]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--api-key", "k1", "--port", "1"], {"port": 1}),
        (["--api-key=k1", "--port", "1"], {"port": 1}),
        (["--api-k", "k1", "--port", "1"], {"port": 1}),
        (["--admin-api-key", "k1"], {}),
        (["--house-token", "k1", "--port", "1"], {"port": 1}),
        (["--served-model-name", "hf_abcdefghijklmn", "--port", "1"], {"port": 1}),
    ],
)
def test_secret_values_never_become_flags_or_kept_words(words: list[str], left: dict[str, int]) -> None:
    read = read_sglang(_words(*words), {}, "0.5.23")
    assert dict(read.flags) == left
    assert read.extra == ()
    assert {secret.value for secret in read.secrets} == {
        next(word for word in words if "k1" in word or "hf_" in word).removeprefix("--api-key=")
    }
    assert not any("k1" in warning or "hf_" in warning for warning in read.warnings)


def test_text_is_shown_without_secrets() -> None:
    text = "curl -H 'Authorization: Bearer abc123' https://ann:pw@host --api-key plain HF_TOKEN=zzz word=topsecret"
    shown = secrets.redact(text, ["topsecret"])
    assert not any(secret in shown for secret in ("abc123", "ann:pw", "plain", "zzz", "topsecret"))
    assert secrets.mask_words(["--api-key", "k", "--port", "1", "--admin-api-key=q"], ()) == (
        "--api-key",
        secrets.SHOWN,
        "--port",
        "1",
        f"--admin-api-key={secrets.SHOWN}",
    )
