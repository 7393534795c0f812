"""The shapes of `inventory.yaml` and of a sweep file, as pydantic models.

Every field may be missing here; what must be there is asked by ``inventory`` and ``sweep``, so that one missing
key hides none of the other faults. Keys of the plan for `tune` that nothing acts on yet stand in ``not_yet``:
they are refused as such, never ignored.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from orchestrator.project.document import Scalar
from orchestrator.project.words import (
    ENGINE_AXIS,
    Absolute,
    EnvironmentText,
    Hints,
    TemplateName,
    Text,
    UnitName,
    choice,
    decimal,
    duration,
    gibibytes,
    one_host,
    one_or_many,
    one_thing_or_many,
    pattern,
    switch,
    time_of_day,
    whole,
    whole_or,
)

_SSH = "that is ssh's to say: write it under `Host` in your ssh_config; `ssh NAME` is what is asked"

Port = Annotated[int, BeforeValidator(whole(1, 65535))]
Few = Annotated[int, BeforeValidator(whole(1, 100))]
Seed = Annotated[int, BeforeValidator(whole(0, 2**31 - 1))]
Tokens = Annotated[int, BeforeValidator(whole(1, 1_000_000))]
Concurrency = Annotated[int, BeforeValidator(whole(1, 4096))]
Rate = Annotated[float, BeforeValidator(decimal(0.001, 10_000))]
ArrivalWord = Annotated[str, BeforeValidator(choice("staggered", "burst", "constant", "poisson"))]
Stagger = Annotated[float, BeforeValidator(duration(0.0, 60.0))]
Lasting = Annotated[float, BeforeValidator(duration(1.0, 24 * 3600.0))]
Wait = Annotated[float, BeforeValidator(duration(1.0))]
Name = Annotated[str, BeforeValidator(pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", "a name of letters, digits, - and _"))]


class Shape(BaseModel):
    """A mapping with fixed keys; hyphens in the file are underscores here."""

    # Built when a file is read, the two whole files only: a class by itself would be built again in each that holds it.
    model_config = ConfigDict(
        frozen=True, defer_build=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-")
    )
    not_yet: ClassVar[frozenset[str]] = frozenset()
    needed: ClassVar[tuple[str, ...]] = ()  # keys that the readers tell as missing
    hints: ClassVar[Hints] = {}
    bare: ClassVar[str | None] = None  # the key that a single value in place of the mapping most probably means
    instead: ClassVar[str | None] = None  # what to write in its place where that is no question of the value
    is_secret: ClassVar[bool] = False  # what stands in place of the mapping is never shown

    @classmethod
    def meant(cls, text: str) -> str | None:
        """What a single value in place of the mapping should be written as: ``{count: 8}``."""
        return f"{{{cls.bare}: {text}}}" if cls.bare else cls.instead


class Gpus(Shape):
    """`gpus` of a host: what plans made offline need to know."""

    bare = "count"

    count: Annotated[int | None, BeforeValidator(whole(1, 1024))] = None
    memory: Annotated[float | None, BeforeValidator(gibibytes(1.0, 4096.0))] = None  # GiB of one card


class Host(Shape):
    """One entry under `hosts`."""

    instead = "{gpus: {count: 8}}"
    not_yet = frozenset({"nodes"})
    hints = dict.fromkeys(
        ("hostname", "address", "user", "port", "identity-file", "key", "password", "proxy-jump"), _SSH
    )

    connection: Annotated[str, BeforeValidator(choice("ssh", "local"))] = "ssh"
    manager: Annotated[str, BeforeValidator(choice("systemd", "process"))] = "systemd"
    ssh_config: Text | None = None
    gpus: Gpus = Gpus()

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_all_defaults(cls, node: Any) -> Any:
        return {} if isinstance(node, Scalar) and node.value is None else node


class ModelFile(Shape):
    """`model` of a service: where the model's config.json is."""

    needed = ("config",)
    bare = "config"

    config: Text | None = None


class Secret(Shape):
    """Where one secret value is found; never the value."""

    is_secret = True
    instead = "{file: PATH} or {env: NAME}"

    file: Text | None = None
    env: Text | None = None
    host_file: Absolute | None = None
    variable: Text | None = None
    flag: Text | None = None


class Startup(Shape):
    """How long a start may take, in all and without progress; how long what was deployed has to stay up."""

    bare = "timeout"

    timeout: Wait = 3600.0
    no_progress: Wait = 900.0
    healthy_for: Wait = 20.0


class Service(Shape):
    """One entry under `services`."""

    not_yet = frozenset({"nodes", "guard", "nightly"})
    needed = ("host", "unit", "port", "engines")
    hints: ClassVar[Hints] = {
        "env": "did you mean environment?",
        "exec-start": "the command line is built from engine and flags",
    }

    host: Annotated[str | None, BeforeValidator(one_host)] = None
    kind: Annotated[str, BeforeValidator(choice("sglang", "vllm"))] = "sglang"
    unit: UnitName | None = None
    template: TemplateName = "sglang.service.j2"
    user: Annotated[str | None, BeforeValidator(pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,30}\$?", "a user name"))] = None
    working_directory: Absolute | None = None
    engines: dict[str, Text] | None = None
    engine: Text | None = None
    model: ModelFile | None = None
    port: Port | None = None
    address: Annotated[
        str | None, BeforeValidator(pattern(r"[A-Za-z0-9._:%-]{1,253}", "a host name or an address"))
    ] = None
    reach: Annotated[str, BeforeValidator(choice("direct", "ssh-forward"))] = "direct"
    flags: dict[str, Any] = {}
    extra_args: Annotated[list[EnvironmentText], BeforeValidator(one_or_many)] = []
    environment: dict[str, EnvironmentText] = {}
    secrets: dict[str, Secret] = {}
    startup: Startup = Startup()
    lease: Annotated[float, BeforeValidator(duration(30.0, 24 * 3600.0))] = 600.0
    kept: Annotated[list[Text], BeforeValidator(one_or_many)] = []


class InventoryFile(Shape):
    """The whole of `inventory.yaml`."""

    not_yet = frozenset({"store", "database", "notify", "nightly", "teams"})
    needed = ("services",)

    hosts: dict[str, Host] = {}
    services: dict[str, Service] = {}


class Lengths(Shape):
    """`output-tokens`: one of the five; a bare number is `around`."""

    around: Tokens | None = None
    fixed: Tokens | None = None
    explicit: Annotated[list[Tokens] | None, BeforeValidator(one_or_many)] = None
    listed: dict[str, Annotated[list[Tokens], BeforeValidator(one_or_many)]] | None = None
    natural: Tokens | None = None
    assumed: Annotated[bool, BeforeValidator(switch)] = False

    @model_validator(mode="before")
    @classmethod
    def _a_number_is_around(cls, node: Any) -> Any:
        return {"around": node} if isinstance(node, Scalar) and node.value is not None else node


class Load(Shape):
    """The `workload` of a sweep."""

    needed = ("prompts", "output-tokens")
    hints: ClassVar[Hints] = {
        **dict.fromkeys(("max-tokens", "max-output-tokens"), "did you mean output-tokens?"),
        **dict.fromkeys(("rates", "request-rate"), "did you mean rate?"),
        **dict.fromkeys(("token-ids", "random-tokens"), "did you mean prompts: {random-tokens: N}?"),
    }
    not_yet = frozenset({"trace", "input-tokens", "mix", "slo", "think-time"})

    name: Name = "default"
    prompts: Annotated[list[Any] | None, BeforeValidator(one_thing_or_many)] = None
    output_tokens: Lengths | None = None
    concurrency: Annotated[list[Concurrency] | None, BeforeValidator(one_or_many)] = None
    requests_per_stream: Few = 4
    rate: Annotated[list[Rate] | None, BeforeValidator(one_or_many)] = None
    requests: Annotated[int | None, BeforeValidator(whole(1, 100_000))] = None
    duration: Lasting | None = None
    arrival: Annotated[list[ArrivalWord] | None, BeforeValidator(one_or_many)] = None
    stagger: Stagger = 0.1
    say_ok: Annotated[int, BeforeValidator(whole(0, 100))] = 0
    temperature: Annotated[float, BeforeValidator(decimal(0, 2))] = 0.0
    request_timeout: Wait = 1800.0
    gap_timeout: Wait = 120.0
    max_failed: Annotated[int, BeforeValidator(whole(0, 10_000))] = 0
    seed: Seed = 0


class Repeats(Shape):
    """`repeats` of a sweep."""

    bare = "per-level"

    per_level: Few = 1
    launches: Few = 1
    confirm: Annotated[int | str, BeforeValidator(whole_or(("auto", "none"), 2, 100))] = "none"


class At(Shape):
    """The load point that configs are compared at."""

    bare = "concurrency"

    concurrency: Concurrency | None = None
    rate: Rate | None = None
    arrival: ArrivalWord | None = None


class Objective(Shape):
    """`objective` of a sweep."""

    not_yet = frozenset({"minimize", "pareto"})

    @classmethod
    def meant(cls, text: str) -> str | None:
        """The throughput to be maximised, the usual one when the word is another."""
        return f"{{maximize: {text if text == 'whole_tok_s' else 'steady_tok_s'}}}"

    maximize: Annotated[str, BeforeValidator(choice("steady_tok_s", "whole_tok_s"))] = "steady_tok_s"
    at: At = At()
    slo: dict[str, Annotated[float, BeforeValidator(duration(0.0))]] = {}


class Budget(Shape):
    """`budget` of a sweep: one of the two."""

    not_yet = frozenset({"launches", "configs", "gpu-hours", "cost"})

    @classmethod
    def meant(cls, text: str) -> str | None:
        """``{until: "07:00"}`` of a time of day, ``{hours: 8}`` of a length."""
        until = None if text.isdecimal() else time_of_day(text)
        hours = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:h|hours?)?", text)
        return f'{{until: "{until}"}}' if until else f"{{hours: {hours[1]}}}" if hours else None

    until: Annotated[
        str | None,
        BeforeValidator(pattern(r"([01][0-9]|2[0-3]):[0-5][0-9]", 'a time of day such as "07:00"', mended=time_of_day)),
    ] = None
    hours: Annotated[float | None, BeforeValidator(decimal(0.01, 1000))] = None


class SweepFile(Shape):
    """The whole of a sweep file."""

    not_yet = frozenset({"mix", "nodes", "workloads", "search", "confirm", "stop-when", "checks"})
    needed = ("service", "workload")
    hints: ClassVar[Hints] = {
        "axes": "did you mean grid?",
        "env": "did you mean environment?",
        "engine": ENGINE_AXIS,
    }

    service: Text | None = None
    grid: dict[str, Any] | None = None
    where: Annotated[list[Text], BeforeValidator(one_or_many)] = []
    flags: dict[str, Any] = {}
    environment: dict[str, EnvironmentText] = {}
    workload: Load | None = None
    repeats: Repeats = Repeats()
    objective: Objective = Objective()
    budget: Budget = Budget()
    reference: Annotated[str, BeforeValidator(choice("production", "none"))] = "production"
    sanity: Annotated[int | str, BeforeValidator(whole_or(("on", "off"), 2, 256))] = "on"
    order: Annotated[str, BeforeValidator(choice("shuffled", "as-listed"))] = "shuffled"
    seed: Seed = 0
