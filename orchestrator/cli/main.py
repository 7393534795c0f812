"""The error boundary and the list of commands. Only here is an error printed and an exit code chosen.

Commands are imported when they run, so that ``tune --help`` costs nothing.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from orchestrator import __version__
from orchestrator.cli import streams
from orchestrator.cli.complaint import bug_text, error_text
from orchestrator.cli.signals import as_ctrl_c
from orchestrator.core.nearest import nearest
from orchestrator.errors import StoreFault, TuneError


@dataclass(frozen=True)
class Entry:
    """One command of the menu: where it lives and its line in the help."""

    where: str  # module:attribute
    group: str
    line: str


COMMANDS = {
    "init": Entry("orchestrator.cli.init:init", "tune", "Lay out a project folder to start from."),
    "plan": Entry("orchestrator.cli.plan:plan", "tune", "Show what a sweep would do; touch nothing."),
    "sweep": Entry("orchestrator.cli.sweep:sweep", "tune", "Run a sweep: deploy, measure, restore, compare."),
    "attach": Entry("orchestrator.cli.attach:attach", "tune", "Watch a run that goes on in another terminal."),
    "stop": Entry("orchestrator.cli.stop:stop", "tune", "Stop such a run; production is put back."),
    "render": Entry("orchestrator.cli.render:render", "tune", "Print the systemd unit of one config."),
    "bench": Entry("orchestrator.cli.bench:bench", "tune", "Measure any OpenAI-compatible endpoint."),
    "adopt": Entry("orchestrator.cli.adopt:adopt", "operate", "Write the inventory entry of a running unit."),
    "deploy": Entry("orchestrator.cli.deploy:deploy", "operate", "Put another version in service; back if it fails."),
    "rollback": Entry("orchestrator.cli.deploy:rollback", "operate", "Put an earlier release back in service."),
    "status": Entry("orchestrator.cli.releases:status", "operate", "What serves, since when, and what has drifted."),
    "logs": Entry("orchestrator.cli.logs:logs", "operate", "The journal of a service; -f goes on."),
    "lock": Entry("orchestrator.cli.lock:lock", "operate", "Who holds a service; end a hold."),
    "doctor": Entry(
        "orchestrator.cli.doctor:doctor", "operate", "Check hosts and services; each finding with its remedy."
    ),
    "host": Entry("orchestrator.cli.host:host", "operate", "Prepare a host: put the helper there, allow a login."),
    "runs": Entry("orchestrator.cli.runs:runs", "understand", "List the runs recorded in this project."),
    "show": Entry("orchestrator.cli.show:show", "understand", "Show the results of a run."),
    "compare": Entry(
        "orchestrator.cli.compare:compare", "understand", "Two runs side by side: verdicts, and what differs."
    ),
    "history": Entry(
        "orchestrator.cli.history:history", "understand", "One config's figure over all runs: table, chart."
    ),
    "releases": Entry("orchestrator.cli.releases:releases", "understand", "What was in service, who, when and why."),
    "diff": Entry("orchestrator.cli.releases:diff", "understand", "The unit file against the release in place."),
    "schema": Entry("orchestrator.cli.schema:schema", "understand", "JSON Schema of the files you write, for editors."),
    "exit-codes": Entry("orchestrator.cli.exit_codes:exit_codes", "understand", "Print every exit code."),
    "sim": Entry("orchestrator.cli.sim:sim", "simulate", "The simulated engine: serve, env, nvidia-smi."),
}
BEFORE_THE_COMMAND = ("-C", "--project", "--debug", "--plain")
GROUPS = ("tune", "operate", "understand", "simulate")


class Menu(click.Group):
    """A click group whose commands are imported only when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        """Every name, in the order of the menu."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command, or None for an unknown name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry.where.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; an unknown name is answered with the nearest."""
        match = nearest(args[0], COMMANDS) if args[0] not in COMMANDS else None
        if match and not args[0].startswith("-"):
            ctx.fail(f"No such command '{args[0]}', did you mean {match}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The menu by groups, from the table alone."""
        for group in GROUPS:
            rows = [(name, entry.line) for name, entry in COMMANDS.items() if entry.group == group]
            with formatter.section(group.capitalize()):
                formatter.write_dl(rows)


@click.group(cls=Menu, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tune")
@click.option(
    "-C",
    "--project",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The project folder (inventory.yaml, sweeps/, templates/, .tune/); the current one by default.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.option("--plain", is_flag=True, help="Line-based output even on a terminal.")
@click.pass_context
def tune(ctx: click.Context, folder: Path, debug: bool, plain: bool) -> None:
    """Find the best SGLang server flags on your own box, under systemd, without losing production.

    \b
    tune plan sweeps/k26_pp.yaml          what would run, and for how long
    tune sweep sweeps/k26_pp.yaml --sim   rehearse it without a GPU
    tune sweep sweeps/k26_pp.yaml         run it, put production back, compare
    """
    ctx.obj = {"folder": folder, "debug": debug, "plain": plain or not sys.stdout.isatty()}


def run(words: list[str] | None = None) -> int:
    """Run the command line (``sys.argv`` by default) and return its exit code; never raises."""
    debug = "--debug" in (sys.argv[1:] if words is None else words)
    streams.settle()
    # Without click's own error handling it returns what `ctx.exit` was told, and else what the command returned.
    return guarded(lambda: tune.main(args=words, prog_name="tune", standalone_mode=False), debug=debug)


def guarded(act: Callable[[], object], *, debug: bool) -> int:
    """The boundary itself: do it, and turn whatever is raised into words and an exit code."""
    try:
        with as_ctrl_c():
            ended = act()
        return ended if isinstance(ended, int) else 0
    except click.exceptions.Abort:
        streams.say("interrupted", err=True)
        return 130
    except click.ClickException as wrong:
        with suppress(OSError):
            wrong.show()
            if isinstance(wrong, click.NoSuchOption) and wrong.option_name in BEFORE_THE_COMMAND:
                click.echo(f"It goes before the command: tune {wrong.option_name} …", err=True)
        return 2
    except BrokenPipeError:  # the reader went away (`tune show | head`): nothing is wrong
        streams.let_go(sys.stdout)
        return 0
    except TuneError as error:
        return _known(error, debug=debug)
    except KeyboardInterrupt:
        streams.say("interrupted; nothing was under way on a host", err=True)
        return 130
    except Exception as bug:  # noqa: BLE001 - the boundary: a bug is said in one line, its traceback kept in a file
        if isinstance(bug, OSError) and streams.is_of_output(bug):
            streams.let_go(sys.stdout)
            return _known(StoreFault(f"the output cannot be written: {bug.strerror}"), debug=debug)
        return _bug(bug, debug=debug)


def _known(error: TuneError, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    streams.say(error_text(error), err=True)
    return error.exit_code


def _bug(bug: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    told = "".join(traceback.format_exception(bug))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="tune-bug-", suffix=".txt", delete=False, encoding="utf-8") as log:
            log.write(told)
        streams.say(bug_text(bug, log.name), err=True)
    except OSError:  # a full disk may be what the bug is about
        streams.say(f"{told}{bug_text(bug, 'above; no file could be written')}", err=True)
    return TuneError.exit_code
