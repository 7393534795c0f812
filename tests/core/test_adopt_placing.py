"""An entry goes into inventory.yaml, and every other byte stays as its owner wrote it."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from orchestrator.core.adopt import Content, Entry, block, content, lines, place
from orchestrator.core.inventory import SecretRef
from orchestrator.errors import InputRefused

ENTRY = Entry(
    name="chat",
    host="gpu1",
    kind="sglang",
    unit="chat.service",
    template="sglang.service.j2",
    engines={"0.5.20": "/srv/chat/.venv"},
    engine="0.5.20",
    port=8100,
    flags={"model-path": "m", "tp-size": 2},
    environment={},
)
CHAT = """\
  chat:
    host: gpu1
    unit: chat.service
    template: sglang.service.j2
    engines: {"0.5.20": /srv/chat/.venv}
    engine: "0.5.20"
    port: 8100
    flags:
      model-path: m
      tp-size: 2
"""


def _placed(text: str, entry: Entry = ENTRY, existing: dict[str, Content] | None = None, **more: bool) -> str:
    done = place(text, entry, existing=existing, overwrite=more.get("overwrite", False), file="inventory.yaml")
    return done.text


def test_an_empty_file_gets_both_sections() -> None:
    assert _placed("") == f"hosts:\n  gpu1: {{}}\n\nservices:\n{CHAT}"


def test_comments_blank_lines_and_odd_spelling_stay() -> None:
    text = dedent("""\
        # our boxes
        hosts:          # by ssh name
          k26: {gpus: {count: 8}}   # the big one

          # to be retired
        # --- services below
        services:
          k26:
            host:   'k26'
            # a remark at its end

        # end of file
        """)
    expected = text.replace("# the big one\n", "# the big one\n").replace(
        "  # to be retired\n", "  # to be retired\n  gpu1: {}\n"
    )
    expected = expected.replace("    # a remark at its end\n", f"    # a remark at its end\n{CHAT}")
    assert _placed(text) == expected


def test_the_indentation_of_the_file_is_kept() -> None:
    text = "services:\n    other:\n        host: gpu1\nhosts:\n    gpu1: {}\n"
    placed = _placed(text)
    assert placed.startswith(
        "services:\n    other:\n        host: gpu1\n    chat:\n        host: gpu1\n        unit: chat"
    )
    assert placed.endswith("          tp-size: 2\nhosts:\n    gpu1: {}\n")


@pytest.mark.parametrize("empty", ["services:\n", "services: {}\n", "services: # none yet\n", "services: ~\n"])
def test_an_empty_section_is_filled(empty: str) -> None:
    placed = _placed(f"hosts:\n  gpu1: {{}}\n{empty}")
    assert placed == "hosts:\n  gpu1: {}\n" + ("services: # none yet\n" if "#" in empty else "services:\n") + CHAT


def test_windows_line_ends_stay() -> None:
    placed = _placed("hosts:\r\n  gpu1: {}\r\nservices:\r\n  x:\r\n    host: gpu1\r\n")
    assert placed.count("\n") == placed.count("\r\n") == len(CHAT.splitlines()) + 5


def test_a_file_in_braces_is_refused_with_its_line() -> None:
    with pytest.raises(InputRefused) as refused:
        _placed("hosts: {}\nservices: {x: {host: gpu1}}\n")
    assert refused.value.faults == (
        "inventory.yaml:2: services is written in braces; adopt adds to files in block style only\n"
        "    write one key a line",
    )


def test_the_same_entry_leaves_the_same_bytes() -> None:
    text = f"hosts:\n  gpu1: {{}}\nservices:\n{CHAT}"
    done = place(text, ENTRY, existing=content(ENTRY), overwrite=False, file="inventory.yaml")
    assert (done.text, done.state) == (text, "unchanged")


def test_what_only_the_owner_says_is_no_difference() -> None:
    existing = content(ENTRY) | {
        "model": {"config": "m.json"},
        "startup": {"timeout": "60m"},
        "template": "mine.service.j2",
        "engines": {"0.5.23": "/opt/new", "0.5.20": "/srv/chat/.venv"},
        "address": "chat.example",
    }
    done = place("services:\n", ENTRY, existing=existing, overwrite=False, file="inventory.yaml")
    assert done.state == "unchanged"


OTHER = """\
hosts:
  gpu1: {}
services:
  chat:
    # ours since spring
    host: gpu1
    model: {config: m.json}   # copied from the hub
    unit: chat.service
    engines: {"0.5.23": /opt/new, "0.5.20": /srv/chat/.venv}
    engine: "0.5.20"
    port: 8100
    startup:
      timeout: 60m
    flags: {model-path: m, tp-size: 4}
    kept: ["Nice=5"]
  other:
    host: gpu1
"""
EXISTING: dict[str, Content] = {
    **content(ENTRY),
    "flags": {"model-path": "m", "tp-size": 4},
    "engines": {"0.5.23": "/opt/new", "0.5.20": "/srv/chat/.venv"},
    "model": {"config": "m.json"},
    "startup": {"timeout": "60m"},
    "kept": ["Nice=5"],
}


def test_another_entry_is_shown_and_left() -> None:
    done = place(OTHER, ENTRY, existing=EXISTING, overwrite=False, file="inventory.yaml")
    assert (done.state, done.text) == ("differs", OTHER)
    assert "-    flags: {model-path: m, tp-size: 4}" in done.diff
    assert "+      tp-size: 2" in done.diff


def test_another_entry_is_replaced_on_demand_but_not_what_the_owner_added() -> None:
    done = place(OTHER, ENTRY, existing=EXISTING, overwrite=True, file="inventory.yaml")
    assert done.state == "replaced"
    assert done.text == dedent("""\
        hosts:
          gpu1: {}
        services:
          chat:
            host: gpu1
            unit: chat.service
            template: sglang.service.j2
            engines: {"0.5.23": /opt/new, "0.5.20": /srv/chat/.venv}
            engine: "0.5.20"
            port: 8100
            flags:
              model-path: m
              tp-size: 2
            # ours since spring
            model: {config: m.json}   # copied from the hub
            startup:
              timeout: 60m
          other:
            host: gpu1
        """)


def test_every_kind_of_value_has_its_spelling() -> None:
    entry = replace(
        ENTRY,
        flags={"a": True, "b": False, "c": 0.5, "d": (1, 2), "e": ("x", "y, z"), "f": "on", "g": "1e3"},
        environment={"EMPTY": "", "COLON": "a: b", "BOTH": 'it\'s "so"', "PATH": "a:b,c"},
        extra=("--house-rule", "7", "a,b"),
        secrets=(SecretRef(name="KEY", host_file="/e", variable="KEY", flag="api-key"),),
        kept=("Restart=always",),
    )
    text = block(lines(entry), "chat")
    assert text[text.index("    flags:") :].splitlines() == [
        "    flags:",
        "      a: on",
        "      b: off",
        "      c: 0.5",
        "      d: [1, 2]",
        "      e:",
        "        - x",
        '        - "y, z"',
        '      f: "on"',
        '      g: "1e3"',
        '    extra-args: ["--house-rule", "7", "a,b"]',
        "    environment:",
        '      EMPTY: ""',
        '      COLON: "a: b"',
        "      BOTH: 'it''s \"so\"'",
        "      PATH: a:b,c",
        "    secrets:",
        "      KEY: {host-file: /e, variable: KEY, flag: api-key}",
        "    kept:",
        "      - Restart=always",
    ]
