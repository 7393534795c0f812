"""Templates make exactly the unit that was meant, or are refused with file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.inventory import HostEntry, SecretRef, ServiceEntry
from orchestrator.core.start.render import Kept, kept, render_production, render_unit
from orchestrator.core.units import TrialUnit
from orchestrator.errors import InputRefused

TEMPLATE = (Path(__file__).parents[3] / "templates/sglang.service.j2").read_text()
FLAGS: dict[str, FlagValue] = {"model-path": "m/K2", "pp-size": 8, "cuda-graph": False, "mem-fraction-static": 0.92}


def entry(**changes: Any) -> ServiceEntry:
    return replace(
        ServiceEntry(
            name="k26",
            host=HostEntry(name="k26"),
            unit="sglang-k26.service",
            template="sglang.service.j2",
            template_text=TEMPLATE,
            engines={"0.5.23": "/opt/sglang-0.5.23"},
            engine="0.5.23",
            port=30000,
            user="sglang",
            environment={"HF_HOME": "/data/hf"},
        ),
        **changes,
    )


def rendered(config: Config | None = None, **changes: Any) -> TrialUnit:
    return render_unit(entry(**changes), config or Config(flags=FLAGS), run="7f3c", trial="pp8.d0.eager")


def directives(text: str) -> str:
    """A unit without its comments and blank lines."""
    return "".join(f"{line}\n" for line in text.splitlines() if line and not line.startswith("#"))


def test_the_whole_unit() -> None:
    unit = rendered(kept=("LimitNOFILE=131072", "Restart=always", "Requires=nvidia-persistenced.service"))
    assert unit.name == "sglang-k26-trial.service"
    assert unit.text.startswith("# tune: trial 7f3c/pp8.d0.eager of sglang-k26.service\n")
    assert directives(unit.text) == (
        "[Unit]\n"
        "Description=tune trial pp8.d0.eager of sglang-k26.service (run 7f3c)\n"
        "Conflicts=sglang-k26.service\n"
        "After=sglang-k26.service\n"
        "Requires=nvidia-persistenced.service\n"
        "[Service]\n"
        "Type=exec\n"
        "TimeoutStartSec=120\n"
        "User=sglang\n"
        'Environment="HF_HOME=/data/hf"\n'
        "ExecStart=/opt/sglang-0.5.23/bin/python -m sglang.launch_server \\\n"
        "    --model-path m/K2 \\\n"
        "    --pp-size 8 \\\n"
        "    --disable-cuda-graph \\\n"
        "    --mem-fraction-static 0.92 \\\n"
        "    --host 0.0.0.0 \\\n"
        "    --port 30000\n"
        "KillMode=mixed\n"
        "SendSIGKILL=yes\n"
        "TimeoutStopSec=120\n"
        "Restart=no\n"
        "OOMPolicy=stop\n"
        "LimitMEMLOCK=infinity\n"
        "LimitNOFILE=1048576\n"
        "LimitCORE=0\n"
        "TasksMax=infinity\n"
        "LimitNOFILE=131072\n"
    )
    assert unit.argv[:3] == ("/opt/sglang-0.5.23/bin/python", "-m", "sglang.launch_server")
    assert unit.environment == {"HF_HOME": "/data/hf"}


def test_an_engine_that_is_not_reached_over_the_network_listens_on_loopback() -> None:
    assert "--host 127.0.0.1" in rendered(reach="ssh-forward").text
    assert "--host 127.0.0.1" in rendered(host=HostEntry(name="here", connection="local")).text
    assert "--host 10.0.0.5" in rendered(flags={"host": "10.0.0.5", "pp-size": 4}).text


def test_a_service_without_an_account_keeps_its_home_and_one_with_a_folder_runs_there() -> None:
    text = rendered(user=None, working_directory="/srv/k 26").text
    assert 'Environment="HOME=/root"\n' in text
    assert "WorkingDirectory=/srv/k 26\n" in text
    assert "User=" not in directives(text)
    assert '"HOME=' not in directives(rendered(user=None, kept=("DynamicUser=yes", "StateDirectory=e")).text)


def test_tunables_of_the_config_win_over_the_services_environment() -> None:
    config = Config(flags=FLAGS, environment={"HF_HOME": "/other", "SGLANG_X": "1"})
    assert rendered(config).environment == {"HF_HOME": "/other", "SGLANG_X": "1"}


def test_words_the_catalogue_does_not_know_come_last_as_written() -> None:
    assert rendered(extra_args=("--house-rule", "7 $")).argv[-2:] == ("--house-rule", "7 $")


def test_kept_lines_are_sorted_by_what_they_are() -> None:
    lines = (
        "Restart=always",
        "Nice=-5",
        "After=x.service",
        "WantedBy=multi-user.target",
        "ExecStartPre=/bin/y",
        "a\nb",
    )
    assert kept(lines) == Kept(unit=("After=x.service",), service=("Nice=-5",))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Type=exec", "Type={{ tpye }}", "'tpye' is undefined"),
        (
            "Type=exec",
            "Type={{ service.tpye }}",
            "'orchestrator.core.inventory.ServiceEntry object' has no attribute 'tpye'",
        ),
        ("{% for line in kept.unit %}", "{% for line in %}", "Expected an expression"),
        ("service.user | user", "service.name | usre", "No filter named 'usre' found."),
        ("ExecStart={{ argv | exec }}", "", "0 ExecStart commands, one is needed"),
        (
            "{{ argv | exec }}",
            "{{ argv | exec }} --more",
            "ExecStart is not the argv that was meant: '--more' is too much",
        ),
        (
            "{{ argv | exec }}",
            "{{ argv[:-2] | exec }}",
            "ExecStart is not the argv that was meant: '--port' is missing",
        ),
        (
            "{{ argv | exec }}",
            "{{ argv | join(' ') }} $X",
            "what it makes is no unit: a single $ in a command line: '$X'",
        ),
        ("Environment={{ name | environment(value) }}", "", "HF_HOME: not set in the unit"),
        ("Restart=no", "Restart=always", "[Service] Restart= is always; accepted: no"),
        ("Type=exec", "Type=simple", "[Service] Type= is simple; accepted: exec"),
        ("KillMode=mixed", "KillMode=process", "[Service] KillMode= is process; accepted: mixed or control-group"),
        ("SendSIGKILL=yes", "SendSIGKILL=no", "[Service] SendSIGKILL= is no"),
        ("TimeoutStopSec=120", "", "[Service] TimeoutStopSec= is not set"),
        ("Conflicts={{", "# {{", "[Unit] Conflicts= does not name sglang-k26.service"),
        ("After={{", "# {{", "[Unit] After= does not name sglang-k26.service"),
        ("TasksMax=infinity", "[Install]\nWantedBy=multi-user.target", "[Install]: a trial is never enabled"),
        ("# tune: trial", "# my trial", "1: the first line does not begin with"),
        ("Type=exec", "Type", "what it makes is no unit: line"),
        ("{{ run | text }}", "{{ run.__class__ }}", "access to attribute '__class__'"),
    ],
)
def test_a_template_that_makes_something_else_is_refused(old: str, new: str, fault: str) -> None:
    assert old in TEMPLATE
    with pytest.raises(InputRefused) as refused:
        rendered(template_text=TEMPLATE.replace(old, new))
    assert any(text.startswith("templates/sglang.service.j2") and fault in text for text in refused.value.faults), (
        refused.value.faults
    )


@pytest.mark.parametrize("wrong", ["{{ tpye }}", "{{ service.tpye }}", "{% for %}", "{{ run | usre }}", "{{ 1 / 0 }}"])
def test_a_mistake_in_a_template_is_told_with_its_line(wrong: str) -> None:
    line = TEMPLATE.splitlines().index("Type=exec") + 1
    with pytest.raises(InputRefused) as refused:
        rendered(template_text=TEMPLATE.replace("Type=exec", f"Type={wrong}"))
    assert [text.split(": ")[0] for text in refused.value.faults] == [f"templates/sglang.service.j2:{line}"]


def test_all_faults_of_a_template_are_told_at_once_each_with_its_line() -> None:
    broken = TEMPLATE.replace("Restart=no", "Restart=always").replace("KillMode=mixed\n", "")
    with pytest.raises(InputRefused) as refused:
        rendered(template_text=broken)
    line = max(
        n for n, text in enumerate(broken.splitlines(), start=1) if text == "Restart=always"
    )  # production's first
    assert refused.value.faults == (
        f"templates/sglang.service.j2:{line}: [Service] Restart= is always; accepted: no",
        "templates/sglang.service.j2: [Service] KillMode= is not set; accepted: mixed or control-group",
    )


def test_a_value_that_no_unit_can_hold_is_refused_where_the_template_writes_it() -> None:
    with pytest.raises(InputRefused) as refused:
        rendered(environment={"A": "x\ny"})
    line = next(n for n, text in enumerate(TEMPLATE.splitlines(), 1) if "| environment(value)" in text)
    assert refused.value.faults == (
        f"templates/sglang.service.j2:{line}: control character '\\n' cannot stand in a unit: 'A=x\\ny'",
    )


def test_a_flag_that_the_version_does_not_have_is_refused() -> None:
    with pytest.raises(InputRefused):
        rendered(Config(flags={**FLAGS, "pp-async-batch-depth": 2}), engines={"0.5.3": "/opt/x"}, engine="0.5.3")


def test_secrets_come_from_files_that_the_unit_names() -> None:
    token, key = SecretRef(name="HF_TOKEN", file="~/.secrets/hf"), SecretRef(name="KEY", env="KEY", flag="api-key")
    unit = rendered(secrets=(token, key))
    assert [line for line in unit.text.splitlines() if "/run/tune" in line] == [
        "EnvironmentFile=/run/tune/k26/environment",
        "LoadCredential=engine.yaml:/run/tune/k26/engine.yaml",
    ]
    assert unit.argv[-2:] == ("--config", "/run/credentials/sglang-k26-trial.service/engine.yaml")
    assert "--config" not in rendered(secrets=(token,)).argv


def test_a_template_that_leaves_the_secrets_out_is_refused() -> None:
    without = TEMPLATE.replace("{% for line in kept.service %}", "{% for line in [] %}")
    with pytest.raises(InputRefused) as refused:
        rendered(template_text=without, secrets=(SecretRef(name="HF_TOKEN", env="HF_TOKEN"),))
    assert "EnvironmentFile=/run/tune/k26/environment is not in it" in refused.value.faults[0]


def test_what_trials_cannot_have_yet_is_refused_not_ignored() -> None:
    with pytest.raises(InputRefused, match="only of sglang"):
        rendered(kind="vllm")


def test_production_keeps_what_a_person_wrote_and_comes_back_by_itself() -> None:
    config = Config(flags=FLAGS)
    plain = render_production(entry(), config)
    assert plain.name == "sglang-k26.service"
    assert plain.text.startswith("# tune: production sglang-k26.service\n")
    assert "\nRestart=always\n" in plain.text
    assert "Conflicts=" not in plain.text
    assert plain.text.endswith("[Install]\nWantedBy=multi-user.target\n")
    assert plain.argv == rendered(config).argv
    own = ("Restart=on-failure", "Type=simple", "Description=mine", "StartLimitBurst=9", "WantedBy=graphical.target")
    lines = render_production(entry(kept=own), config).text.splitlines()
    service, install = lines.index("[Service]"), lines.index("[Install]")
    assert lines.index("Description=mine") < service
    assert lines.index("StartLimitBurst=9") < service
    assert service < lines.index("Restart=on-failure") < install
    assert lines[install:] == ["[Install]", "WantedBy=graphical.target"]
    assert "Type=simple" not in lines
    assert "Restart=no" not in lines
