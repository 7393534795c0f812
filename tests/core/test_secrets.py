"""Where secret values go, and that texts are kept free of them in whatever form they were written down."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from orchestrator.core.adopt.expand import read_environment
from orchestrator.core.events import LaunchFailed
from orchestrator.core.inventory import HostEntry, SecretRef, ServiceEntry
from orchestrator.core.secrets import SHOWN, Redactor, check, config_words, files, obstacles, unit_lines, variables
from orchestrator.errors import HostFault, InputRefused

NASTY = 'sk-Dist"in\\ct$ive`7f3c 100%'
TOKEN = SecretRef(name="HF_TOKEN", env="HF_TOKEN")
KEY = SecretRef(name="KEY", env="KEY", flag="api-key")


def entry(*secrets: SecretRef) -> ServiceEntry:
    fixed: dict[str, Any] = {"unit": "s.service", "template": "t.j2", "template_text": "", "port": 1}
    return ServiceEntry(
        name="k26", host=HostEntry(name="h"), engines={"0.5.23": "/e"}, engine="0.5.23", secrets=secrets, **fixed
    )


def test_a_service_without_secrets_has_nothing_of_it() -> None:
    assert (unit_lines(entry()), config_words(entry()), files(entry(), {})) == ((), (), {})


def test_a_child_process_has_variables_and_nothing_that_systemd_would_have_to_read() -> None:
    child = replace(entry(TOKEN), host=HostEntry(name="h", manager="process"))
    assert (unit_lines(child), config_words(child), obstacles(child)) == ((), (), ())
    assert variables(child, {"HF_TOKEN": NASTY}) == {"HF_TOKEN": NASTY}
    (why,) = obstacles(replace(child, secrets=(TOKEN, KEY)))
    assert why == "secrets (KEY) of flags are given to units of systemd only, and h has manager: process"


def test_files_hold_the_values_as_their_readers_take_them() -> None:
    made = files(entry(TOKEN, KEY), {"HF_TOKEN": NASTY, "KEY": NASTY})
    assert read_environment(made["environment"]).values == {"HF_TOKEN": NASTY}
    name, _, value = made["engine.yaml"].partition(": ")
    assert (name, json.loads(value)) == ("api-key", NASTY)


@pytest.mark.parametrize(
    ("value", "is_flag"), [("", False), ("short", False), ("two\nlines long", False), ("-dashed-1", True)]
)
def test_a_value_that_could_not_be_kept_or_delivered_is_refused_without_saying_it(value: str, is_flag: bool) -> None:
    with pytest.raises(InputRefused) as refused:
        check("KEY", value, is_flag=is_flag)
    assert not value or value not in str(vars(refused.value))


def test_every_form_of_a_value_is_taken_out() -> None:
    redactor = Redactor()
    text = f"{NASTY} | {json.dumps({'key': NASTY})} | http://h/?k={quote(NASTY, safe='')} | shorter sk-Dist"
    assert redactor.text(text) == text
    redactor.learn([NASTY, f"{NASTY}-and-more"])
    assert redactor.text(text) == f'{SHOWN} | {{"key": "{SHOWN}"}} | http://h/?k={SHOWN} | shorter sk-Dist'
    assert redactor.text(f"{NASTY}-and-more") == SHOWN


def test_events_and_errors_are_redacted_all_through() -> None:
    redactor = Redactor()
    redactor.learn([NASTY])
    said: dict[str, Any] = {"explanation": f"a {NASTY}", "next_step": "", "evidence": ("fine", f"key={NASTY}")}
    event = LaunchFailed(run="r", at="t", trial="x", launch="l", failure_class="c", verdict="v", seconds=1.0, **said)
    told = redactor.anything(event)
    assert (told.explanation, told.evidence) == (f"a {SHOWN}", ("fine", f"key={SHOWN}"))
    assert NASTY not in repr(redactor.anything({"settings": [{"api_key": NASTY, "pp_size": 8}]}))
    error = HostFault(f"{NASTY} failed", cause=NASTY, evidence=[NASTY])
    redactor.error(error)
    assert NASTY not in str(error) + str(vars(error))
    assert error.evidence == (SHOWN,)
