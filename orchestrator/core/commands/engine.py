"""Questions to an installed engine, asked of its own interpreter: nothing is started, no model is read, no GPU used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from orchestrator.core.commands import Command, Reply
from orchestrator.core.commands.systemd import Setting
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.units import TrialUnit
from orchestrator.errors import HostFault

PARSER_S = 180.0
"""SGLang imports most of itself before it can parse a command line: 11 to 15 s on a small machine that does nothing
else, a minute and more on one that does, or from a folder that is not in the page cache yet."""

LAUNCH_MODULE = "sglang.launch_server"

_NO_GPU = "CUDA_VISIBLE_DEVICES="
"""Importing SGLang looks at the GPUs it may see, and production holds them. Parsing needs none."""

# `ServerArgs.add_cli_args` declares every option of the installed version; `ServerArgs` itself is not built, for that
# needs the model. The engine's imports may print, so the answer has a descriptor of its own. argparse lets other
# exceptions of an option's own type pass, and whatever it is, the engine would die of it.
_ASK_PARSER = """\
import os, sys
told = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import argparse, contextlib, io, json
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser(prog="launch_server.py")
ServerArgs.add_cli_args(parser)
refused = {}
for name, words in json.load(sys.stdin).items():
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parser.parse_args(words)
    except SystemExit as end:
        last = (said.getvalue().strip().splitlines() or [""])[-1]
        refused[name] = last.partition(" error: ")[2] or (last if end.code else "it would print its help and end")
    except Exception as error:
        refused[name] = f"{type(error).__name__}: {error}"
json.dump(refused, told)
"""


def check_units(entry: ServiceEntry, units: Mapping[str, TrialUnit]) -> Iterator[Command[Mapping[str, str]]]:
    """``check_arguments`` for the trial units of a service, in its folder and environment: one question an engine."""
    by_python: dict[str, dict[str, Sequence[str]]] = {}
    for name, unit in units.items():
        by_python.setdefault(unit.argv[0], {})[name] = unit.argv
    place = "" if entry.host.connection == "local" else f"{entry.host.name}:"
    for python, command_lines in by_python.items():
        setting = Setting(
            python=python,
            folder=entry.working_directory,
            variables=tuple(f"{name}={value}" for name, value in entry.environment.items()),
        )
        yield check_arguments(setting, command_lines, engine=f"{place}{python.removesuffix('/bin/python')}")


def check_arguments(
    setting: Setting, command_lines: Mapping[str, Sequence[str]], *, engine: str
) -> Command[Mapping[str, str]]:
    """Have the parser read every command line at once; the answer has its last words on those it refuses.

    ``command_lines`` are whole argvs under names of the caller's; ``engine`` names the environment in messages.
    Raises ``HostFault`` when there is no parser to be asked.
    """
    words = {name: options(line) for name, line in command_lines.items()}

    def parse(reply: Reply) -> Mapping[str, str]:
        if reply.returncode == 0:
            return {str(name): str(said) for name, said in json.loads(reply.stdout).items()}
        said = reply.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {reply.returncode}"]
        raise HostFault(
            f"{engine}: the engine installed there cannot be asked which arguments it takes: {said[-1]}",
            cause="the environment is not complete, is no SGLang, or its user may not read it",
            remedy=f"on the host, as the service's user: {setting.python} -c 'import sglang.srt.server_args'",
            evidence=said[-5:],
        )

    asking = Setting(
        python=setting.python,
        folder=setting.folder or "/",
        variables=(*setting.variables, _NO_GPU),
        person=setting.person,
    )
    return Command(argv=asking.argv("-c", _ASK_PARSER), stdin=json.dumps(words).encode(), parse=parse)


def options(command_line: Sequence[str]) -> list[str]:
    """The words of a command line that are the engine's own: those after ``-m sglang.launch_server``."""
    words = list(command_line)
    return words[words.index(LAUNCH_MODULE) + 1 :] if LAUNCH_MODULE in words else words[1:]
