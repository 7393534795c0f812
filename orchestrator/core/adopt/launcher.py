"""What an ExecStart runs: an engine we know, a launcher in front of one, or something that cannot be adopted.

Only the program that systemd itself starts counts. ``sglang.launch_server`` further back in the argv, inside a
container's or a shell's words, proves nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["sglang", "vllm"]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """An engine's command line taken apart. ``words`` counts how many words of the argv stand before its flags.

    ``folder`` is the environment the engine runs from; None when a launcher chooses it at start.
    """

    kind: Kind
    words: int
    folder: str | None
    positional: Literal["model", "none"] = "none"  # a bare first word is the model
    launcher: str = ""
    environment: tuple[str, ...] = ()  # NAME=value given by env(1)
    lost: tuple[str, ...] = ()  # interpreter options that an entry cannot hold


@dataclass(frozen=True, kw_only=True)
class NotAnEngine:
    """Why this command line is not adopted, and what can be done about it."""

    reason: str
    remedy: str


_DIRECT = "put the engine's own call into ExecStart=: /path/to/env/bin/python -m sglang.launch_server ..."
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "ctr", "crictl", "kubectl", "lxc", "lxc-start", "machinectl"})
_COMPOSE = frozenset({"docker-compose", "podman-compose"})
_IMAGES = frozenset({"singularity", "apptainer", "enroot", "systemd-nspawn", "flatpak", "snap", "nvidia-docker"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "busybox"})
_CHOOSE = {
    "uvx": "uvx builds an environment at start",
    "conda": "conda chooses the environment at start",
    "mamba": "mamba chooses the environment at start",
    "micromamba": "micromamba chooses the environment at start",
    "poetry": "poetry chooses the environment at start",
    "pipenv": "pipenv chooses the environment at start",
    "pdm": "pdm chooses the environment at start",
    "hatch": "hatch chooses the environment at start",
    "rye": "rye chooses the environment at start",
    "pixi": "pixi chooses the environment at start",
    "pipx": "pipx chooses the environment at start",
    "nix": "nix chooses the environment at start",
    "nix-shell": "nix-shell chooses the environment at start",
    "direnv": "direnv chooses the environment at start",
    "torchrun": "torchrun starts several processes of its own",
    "accelerate": "accelerate starts several processes of its own",
    "deepspeed": "deepspeed starts several processes of its own",
    "mpirun": "mpirun starts several processes of its own",
    "mpiexec": "mpiexec starts several processes of its own",
    "srun": "srun hands the engine to Slurm",
    "ray": "ray starts several processes of its own",
    "supervisord": "supervisord starts the engine from a file of its own",
    "tmux": "tmux detaches the engine from the unit",
    "screen": "screen detaches the engine from the unit",
}
_INSTEAD = {
    "numactl": "NUMAPolicy= and NUMAMask= (or CPUAffinity=)",
    "taskset": "CPUAffinity=",
    "nice": "Nice=",
    "ionice": "IOSchedulingClass=",
    "chrt": "CPUSchedulingPolicy=",
    "prlimit": "the Limit...= directives",
    "sudo": "User=",
    "su": "User=",
    "runuser": "User=",
    "setpriv": "User= and CapabilityBoundingSet=",
    "chroot": "an environment outside the other root",
    "unshare": "systemd's own sandboxing directives",
    "nsenter": "an engine outside the other namespace",
    "firejail": "systemd's own sandboxing directives",
    "bwrap": "systemd's own sandboxing directives",
    "timeout": "RuntimeMaxSec=",
    "stdbuf": "Environment=PYTHONUNBUFFERED=1",
    "nohup": "nothing: a unit has no terminal",
    "setsid": "nothing: a unit has a session of its own",
    "time": "nothing: systemd accounts CPU time itself",
    "systemd-run": "the unit itself",
    "systemd-inhibit": "the unit itself",
    "nsys": "a separate profiling run",
    "ncu": "a separate profiling run",
    "py-spy": "a separate profiling run",
}
_PYTHON = re.compile(r"python[0-9.]*t?\Z")
_LONE_OPTIONS = re.compile(r"-[uBOsEIq]+\Z")
_UV_ALONE = frozenset(
    {
        "--frozen",
        "--locked",
        "--no-sync",
        "--offline",
        "--no-dev",
        "--active",
        "--quiet",
        "-q",
        "--verbose",
        "-v",
        "--no-progress",
        "--all-extras",
        "--exact",
        "--",
    }
)
_UV_WITH_VALUE = frozenset({"--project", "--directory", "--extra", "--group", "--python", "-p"})


def read_command(path: str, argv: Sequence[str]) -> Launch | NotAnEngine:
    """``path`` is what systemd executes; ``argv[0]`` may be another name for it."""
    words = (path, *argv[1:])
    return _read(words, 0, ())


def _read(words: tuple[str, ...], at: int, environment: tuple[str, ...]) -> Launch | NotAnEngine:
    program = posixpath.basename(words[at])
    rest = words[at + 1 :]
    if program in _SHELLS:
        return _shell(program, rest)
    if program in _CONTAINERS | _COMPOSE | _IMAGES:
        return _container(program, rest)
    if program == "env":
        return _env(words, at)
    if program == "uv":
        return _uv(words, at, environment)
    if program in _CHOOSE:
        shown = " ".join([program, *(word for word in rest[:1] if not word.startswith("-"))])
        return NotAnEngine(reason=f"ExecStart runs {shown}: {_CHOOSE[program]}", remedy=_DIRECT)
    if program in _INSTEAD:
        return NotAnEngine(
            reason=f"ExecStart runs {program} in front of the engine, which an entry cannot hold",
            remedy=f"use {_INSTEAD[program]}, and {_DIRECT}",
        )
    return _engine(words, at, environment)


def _engine(words: tuple[str, ...], at: int, environment: tuple[str, ...]) -> Launch | NotAnEngine:
    program, path = posixpath.basename(words[at]), words[at]
    if not path.startswith("/"):
        return NotAnEngine(
            reason=f"ExecStart leaves it to PATH which {program} is started", remedy=f"write its whole path: {_DIRECT}"
        )
    folder = posixpath.dirname(posixpath.dirname(path))
    if program in ("sglang", "vllm"):
        return _served(program, words, at + 1, folder=folder, environment=environment, lost=())
    if _PYTHON.match(program):
        return _python(words, at, folder, environment)
    return NotAnEngine(
        reason=f"ExecStart runs {path}, which decides by itself what it starts: "
        "neither python -m sglang.launch_server, sglang serve nor vllm serve",
        remedy=_DIRECT,
    )


def _python(words: tuple[str, ...], at: int, folder: str, environment: tuple[str, ...]) -> Launch | NotAnEngine:
    lost: list[str] = []
    index = at + 1
    while index < len(words) and words[index] != "-m":
        word = words[index]
        if word in ("-X", "-W") and index + 1 < len(words):
            lost += [word, words[index + 1]]
            index += 2
        elif _LONE_OPTIONS.match(word) or word[:2] in ("-X", "-W"):
            lost.append(word)
            index += 1
        else:
            what = "a command of its own (-c)" if word == "-c" else f"the script {word}"
            return NotAnEngine(reason=f"ExecStart has python run {what}, which decides what is started", remedy=_DIRECT)
    module = words[index + 1] if index + 1 < len(words) else ""
    start = index + 2
    if module == "sglang.launch_server":
        return Launch(kind="sglang", words=start, folder=folder, environment=environment, lost=tuple(lost))
    if module == "vllm.entrypoints.openai.api_server":
        return Launch(kind="vllm", words=start, folder=folder, environment=environment, lost=tuple(lost))
    packages = {"sglang": "sglang", "sglang.cli.main": "sglang", "vllm": "vllm", "vllm.entrypoints.cli.main": "vllm"}
    if module in packages:
        return _served(packages[module], words, start, folder=folder, environment=environment, lost=tuple(lost))
    return NotAnEngine(
        reason=f"ExecStart has python run the module {module or '(none)'}, which is no engine that is known here",
        remedy=_DIRECT,
    )


def _served(
    package: str, words: tuple[str, ...], at: int, *, folder: str, environment: tuple[str, ...], lost: tuple[str, ...]
) -> Launch | NotAnEngine:
    command = words[at] if at < len(words) else ""
    if command != "serve":
        return NotAnEngine(reason=f"ExecStart runs {package} {command}".rstrip() + ", not serve", remedy=_DIRECT)
    kind: Kind = "vllm" if package == "vllm" else "sglang"
    return Launch(kind=kind, words=at + 1, folder=folder, positional="model", environment=environment, lost=lost)


def _env(words: tuple[str, ...], at: int) -> Launch | NotAnEngine:
    """``/usr/bin/env NAME=value program ...``: the assignments are the engine's environment."""
    index = at + 1
    while index < len(words) and "=" in words[index] and not words[index].startswith("-"):
        index += 1
    if index == len(words) or words[index].startswith("-"):
        return NotAnEngine(
            reason=f"ExecStart runs env with options ({' '.join(words[index : index + 1]) or 'and no program'})",
            remedy=f"use Environment= and UnsetEnvironment=, and {_DIRECT}",
        )
    return _read(words, index, words[at + 1 : index])


def _uv(words: tuple[str, ...], at: int, environment: tuple[str, ...]) -> Launch | NotAnEngine:
    if words[at + 1 : at + 2] != ("run",):
        what = " ".join(["uv", *words[at + 1 : at + 2]])
        return NotAnEngine(reason=f"ExecStart runs {what}: uv chooses the environment at start", remedy=_DIRECT)
    index = at + 2
    while index < len(words) and words[index].startswith("-"):
        option = words[index].partition("=")[0]
        if option in _UV_ALONE:
            index += 1
        elif option in _UV_WITH_VALUE:
            index += 1 if "=" in words[index] else 2
        else:
            return NotAnEngine(
                reason=f"ExecStart runs uv run with {option}, which an entry cannot hold",
                remedy=_DIRECT,
            )
    # What uv starts is found in an environment it has yet to choose; the name alone says which engine it is.
    inner = (
        _engine((*words[:index], f"/-/bin/{posixpath.basename(words[index])}", *words[index + 1 :]), index, environment)
        if index < len(words)
        else None
    )
    if isinstance(inner, Launch):
        return Launch(
            kind=inner.kind,
            words=inner.words,
            folder=None,
            positional=inner.positional,
            launcher="uv run",
            environment=environment,
            lost=inner.lost,
        )
    started = words[index] if index < len(words) else "nothing"
    return NotAnEngine(
        reason=f"ExecStart has uv run start {started}, which is no engine that is known here", remedy=_DIRECT
    )


def _shell(program: str, words: Sequence[str]) -> NotAnEngine:
    options = [word for word in words if word.startswith("-")]
    shown = " ".join([program, *options[:1]])
    text = " ".join(words)
    scripts = re.findall(r"(?:\bsource|(?<![\w./])\.)\s+([^\s;&|'\"]+)", text)
    if not any(option.startswith("-") and "c" in option for option in options):
        scripts = [word for word in words if not word.startswith("-")][:1]
    deciders = [posixpath.basename(script) for script in scripts] or ["the shell's own words"]
    if any(re.match(r"-\w*l|--login", option) for option in options):
        deciders.append("the login profile")
    reason = f"ExecStart is a shell ({shown}); flags and environment are decided in {_listed(deciders)}"
    if re.search(r"\bexec\s", text):
        reason += "; exec makes the running process look like a plain engine, but the next start goes through the shell"
    return NotAnEngine(reason=reason, remedy=_DIRECT)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_DOCKER_ALONE = frozenset(
    {"--rm", "--detach", "-d", "--init", "--interactive", "-i", "--tty", "-t", "--privileged", "--read-only"}
    | {"--publish-all", "-P", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust"}
    | {"--quiet", "-q", "--replace", "--tls", "--tlsverify", "--debug", "-D"}
)


def _container(program: str, words: Sequence[str]) -> NotAnEngine:
    remedy = (
        "run the engine from an environment on the host: a container's flags, paths and ports are not the host's. "
        "tune cannot deploy into containers"
    )
    is_compose = program in _COMPOSE or "compose" in words[:3]
    if is_compose:
        name = program if program in _COMPOSE else f"{program} compose"
        reason = f"ExecStart runs {name}; the engine is in a container of its file, not even a process of this unit"
        return NotAnEngine(reason=reason, remedy=remedy)
    image = _image(words)
    where = f"inside image {image}" if image else "inside a container"
    return NotAnEngine(reason=f"ExecStart runs {program}; the engine is {where}", remedy=remedy)


def _image(words: Sequence[str]) -> str | None:
    """The first bare word after ``run`` (or ``exec``: the container), options and their values passed over."""
    index = _bare(words, 0)
    if index is not None and words[index] == "container":
        index = _bare(words, index + 1)
    if index is None or words[index] not in ("run", "create", "start", "exec"):
        return None
    found = _bare(words, index + 1)
    return words[found] if found is not None and words[index] in ("run", "create") else None


def _bare(words: Sequence[str], index: int) -> int | None:
    while index < len(words):
        word = words[index]
        if not word.startswith("-"):
            return index
        takes_value = word not in _DOCKER_ALONE and "=" not in word and not re.fullmatch(r"-[ditPqD]+", word)
        if takes_value and not word.startswith("--") and len(word) > 2:
            takes_value = False  # -p8000:8000
        index += 2 if takes_value else 1
    return None
