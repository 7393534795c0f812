"""``tune sim``: the simulated engine as a server, as an installed environment, and its pretended GPUs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group()
def sim() -> None:
    """The simulated engine: SGLang's command line and routes over a model of its pipeline scheduler."""


@sim.command(context_settings=PASS_ON, add_help_option=False)
@click.option("--engine-version", default="0.5.23", show_default=True, help="Whose command line to speak.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def serve(engine_version: str, words: tuple[str, ...]) -> None:
    """Serve on the wall clock. Takes the flags of `python -m sglang.launch_server`; --help lists them.

    \b
    tune sim serve --model-path moonshotai/Kimi-K2.6 --pp-size 8 --mem-fraction-static 0.92 --port 30000
    TUNE_SIM_SPEED=20 TUNE_SIM_FAULT=slow-tail=0.1 tune sim serve --model-path m
    """
    from orchestrator.sim.server import main  # noqa: PLC0415 - start-up time of `tune --help`

    sys.exit(main(words, version=engine_version))


@sim.command()
def faults() -> None:
    """How the simulated engine fails on demand: one line a failure.

    \b
    TUNE_SIM_FAULT=oom-under-load=16 tune sim serve --model-path m     a server
    tune sweep sweeps/k26_pp.yaml --sim --sim-fault pp8.d0=drift=20    a rehearsal
    tune sweep sweeps/k26_pp.yaml --sim --sim-fault drift=2   a host that slows
    In a trial under systemd: the variable TUNE_SIM_FAULT in the sweep file.

    Several go with commas between them; NAME@2 fails in the second start of a config only.
    """
    from orchestrator.sim.faults import table  # noqa: PLC0415

    click.echo(table())


@sim.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--version", "engine_version", default="0.5.23", show_default=True, help="The SGLang version to pretend.")
@click.option(
    "--python",
    type=click.Path(path_type=Path),
    default=None,
    help="The interpreter to use: one that the service's user can run. By default the one behind tune's own.",
)
def env(folder: Path, engine_version: str, python: Path | None) -> None:
    """Make DIR look like an installed SGLang environment whose engine is the simulator.

    \b
    tune sim env /opt/sglang-sim --python /usr/bin/python3
    /opt/sglang-sim/bin/python -m sglang.launch_server --model-path m --port 30000
    """
    from orchestrator.sim.environment import make_environment  # noqa: PLC0415

    changed = make_environment(folder, version=engine_version, python=python)
    click.echo(f"{folder}: SGLang {engine_version}, simulated" + ("" if changed else " (nothing to change)"))


@sim.command(name="nvidia-smi", context_settings=PASS_ON, add_help_option=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def nvidia_smi(words: tuple[str, ...]) -> None:
    """Answer as nvidia-smi would, from the state that simulated servers write (TUNE_SIM_STATE).

    \b
    tune sim nvidia-smi --query-gpu=index,power.draw --format=csv,noheader,nounits -l 1
    """
    from orchestrator.sim.nvidia_smi import main  # noqa: PLC0415

    sys.exit(main(words))
