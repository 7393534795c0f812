"""The installed engine's own parser is asked on the host: one start of its python for all command lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.clock import RealClock
from orchestrator.core.config import Config
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.start.render import render_unit
from orchestrator.core.units import TrialUnit
from orchestrator.errors import HostFault
from orchestrator.hosts.helper.tune_helper import SLOW
from orchestrator.hosts.process import ProcessService
from orchestrator.sim.environment import make_environment
from tests.bed import BedHost
from tests.hosts.stand_in import ENGINE, TEMPLATE, furnish, service, tell


def units(entry: ServiceEntry) -> dict[str, TrialUnit]:
    """One config that every parser takes; one with a word of the house; one with a choice that is none."""
    config = Config(flags={"model-path": "/models/m", "pp-size": 2})
    odd = replace(entry, extra_args=("--house-rule", "7"))
    kernel = replace(entry, extra_args=("--attention-backend", "magic"))
    return {
        name: render_unit(one, config, run="7f3c", trial=name)
        for name, one in {"pp2": entry, "odd": odd, "kernel": kernel}.items()
    }


def test_each_command_line_gets_the_parsers_own_words_as_the_services_user(gpu1: BedHost) -> None:
    engine = gpu1.install_sim_engine()
    gpu1.sh("useradd --system sglang")
    site = gpu1.sh(f"ls -d {engine}/lib/python3*/site-packages").strip()
    gpu1.write(
        f"{site}/sglang/house.py",
        "import json, os\n"
        "facts = [os.getuid(), os.getcwd(), os.environ.get('CUDA_VISIBLE_DEVICES'), os.environ.get('HOUSE')]\n"
        "open('/tmp/asked', 'a').write(json.dumps(facts) + chr(10))\n"
        "print('noise on standard output')\n",
    )
    gpu1.sh(f"echo 'import sglang.house' >> {site}/sglang/srt/server_args.py")
    door = service(
        gpu1.entry,
        engines={"0.5.23": engine},
        user="sglang",
        working_directory="/var",
        environment={"HOUSE": "a $rule of 100%"},
    )
    refused = door.check_argv(units(door._entry))
    uid = int(gpu1.sh("id -u sglang"))
    asked = [json.loads(line) for line in gpu1.read("/tmp/asked").splitlines()]
    gpu1.sh("userdel sglang")
    assert asked == [[uid, "/var", "", "a $rule of 100%"]]  # once, for all of them
    assert sorted(refused) == ["kernel", "odd"]
    assert refused["odd"] == "unrecognized arguments: --house-rule 7"
    assert refused["kernel"].startswith("argument --attention-backend: invalid choice: 'magic' (choose from ")
    assert gpu1.sh("systemctl list-units --all --no-legend 'tune-ask-*'") == ""


def test_an_environment_without_the_parser_is_a_fault_that_says_what_to_try(gpu1: BedHost) -> None:
    furnish(gpu1, start=False)
    door = service(gpu1.entry)
    with pytest.raises(HostFault, match="cannot be asked which arguments it takes: ModuleNotFoundError") as caught:
        door.check_argv(units(door._entry))
    assert str(caught.value).startswith(f"gpu1:{ENGINE}: ")
    assert caught.value.remedy is not None
    assert f"{ENGINE}/bin/python -c 'import sglang.srt.server_args'" in caught.value.remedy
    gone = service(gpu1.entry, engines={"0.5.23": "/opt/gone"})
    asked = units(gone._entry)
    with pytest.raises(HostFault, match=r"gone/bin/python.*No such file"):
        gone.check_argv(asked)


def test_a_parser_that_does_not_answer_is_ended_at_its_bound(gpu1: BedHost) -> None:
    service(gpu1.entry).check_argv({})
    service(gpu1.entry).record()  # puts the helper there
    told = tell(gpu1, "ask", user="", argv=["sh", "-c", "echo begun; sleep 987"], stdin="", deadline_s=1)
    assert told["kind"] == "host"
    assert told["fact"] == SLOW.format(1.0)
    assert gpu1.attempt("pgrep -f 'sleep 98[7]'").stdout == ""
    nobody = tell(gpu1, "ask", user="no-such-person", argv=["true"], stdin="", deadline_s=1)
    assert nobody["fact"] == "there is no account no-such-person on this host"


def test_the_process_manager_asks_the_same_parser(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    make_environment(engine, version="0.5.23")
    entry = ServiceEntry(
        name="small",
        host=HostEntry(name="here", connection="local", manager="process"),
        unit="small.service",
        template="sglang.service.j2",
        template_text=TEMPLATE,
        engines={"0.5.23": str(engine)},
        engine="0.5.23",
        port=30000,
    )
    door = ProcessService(entry, tmp_path / "state", owner="ann@box", clock=RealClock())
    refused = door.check_argv(units(entry))
    assert sorted(refused) == ["kernel", "odd"]
    assert refused["odd"] == "unrecognized arguments: --house-rule 7"
