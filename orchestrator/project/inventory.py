"""`inventory.yaml` to ``core.inventory``: hosts, services, their templates and their models."""

from __future__ import annotations

from pathlib import Path

from packaging.version import InvalidVersion, Version

from orchestrator.core.config import FlagValue
from orchestrator.core.flags import SECRET
from orchestrator.core.inventory import HostEntry, Inventory, Model, SecretRef, ServiceEntry, Startup
from orchestrator.core.nearest import nearest
from orchestrator.project import shapes
from orchestrator.project.checked import missing, validate
from orchestrator.project.document import Document, Mention, Place, dotted, read_text
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.model import read_model
from orchestrator.project.settings import foreign_flags, read_environment, read_flags
from orchestrator.project.words import ENVIRONMENT_NAME, HOST_NAME, ONE_NAME

MAX_TEMPLATE = 256 * 1024


def read_inventory(document: Document, folder: Path, templates: tuple[Path, ...], faults: Faults) -> Inventory:
    """Everything the file says that is sound; every fault is added.

    ``templates`` are the folders a template is looked up in, the project's own first.
    """
    shape = validate(shapes.InventoryFile, document, faults)
    for name in shape.hosts:
        _check_name(document, ("hosts", name), faults)
    hosts = {name: _host(document, name, host, faults) for name, host in shape.hosts.items()}
    services: dict[str, ServiceEntry] = {}
    for name, service in shape.services.items():
        _check_name(document, ("services", name), faults)
        entry = _Service(document, name, service, faults).entry(hosts, folder, templates)
        if entry is not None:
            services[name] = entry
    _check_units(document, services, faults)
    if document.node(("services",)) is None:
        missing(document, (), "services", faults)
    return Inventory(hosts=hosts, services=services)


def _check_name(document: Document, place: Place, faults: Faults) -> None:
    is_host = place[0] == "hosts"
    if not (HOST_NAME if is_host else ONE_NAME).fullmatch(str(place[-1])):
        accepted = "what `ssh NAME` would be told" if is_host else "letters, digits, . _ and -, at most 63"
        text = f'"{place[-1]}" is no name; accepted: {accepted}'
        faults.add(Fault(document.name, document.line(place), dotted(place[:-1]), text))


def _host(document: Document, name: str, host: shapes.Host, faults: Faults) -> HostEntry:
    if host.manager == "process" and host.connection == "ssh":
        place = ("hosts", name, "manager")
        text = 'read "process"; accepted: systemd'
        hint = "the process manager starts engines on this machine: add connection: local"
        faults.add(Fault(document.name, document.line(place), dotted(place), text, hint=hint))
    return HostEntry(
        name=name,
        connection="local" if host.connection == "local" else "ssh",
        manager="process" if host.manager == "process" else "systemd",
        ssh_config=host.ssh_config,
        gpus=host.gpus.count,
        gpu_memory_gib=host.gpus.memory,
    )


def _check_units(document: Document, services: dict[str, ServiceEntry], faults: Faults) -> None:
    seen: dict[tuple[str, str], str] = {}
    for name, entry in services.items():
        first = seen.setdefault((entry.host.name, entry.unit), name)
        if first != name:
            place = ("services", name, "unit")
            text = f'"{entry.unit}" on host {entry.host.name} is already service {first}'
            faults.add(Fault(document.name, document.line(place), dotted(place), text))


class _Service:
    """One entry under `services` while it is being read."""

    def __init__(self, document: Document, name: str, shape: shapes.Service, faults: Faults) -> None:
        self.document = document
        self.place: Place = ("services", name)
        self.name = name
        self.shape = shape
        self.faults = faults

    def entry(self, hosts: dict[str, HostEntry], folder: Path, templates: tuple[Path, ...]) -> ServiceEntry | None:
        """The entry, or None when something it cannot be without has a fault. Everything is looked at first."""
        shape = self.shape
        for key in shape.needed:
            if getattr(shape, key) is None:
                missing(self.document, self.place, key, self.faults)
        host = self._host(hosts)
        engines = self._engines(host, folder)
        engine = self._engine(engines)
        template = self._template(templates)
        flags = self._flags()
        environment = read_environment(self.document, (*self.place, "environment"), shape.environment, self.faults)
        secrets = self._secrets()
        model = self._model(folder, str(flags.get("model-path", self.name)))
        if host is None or shape.unit is None or shape.port is None or engine is None or template is None:
            return None
        return ServiceEntry(
            name=self.name,
            host=host,
            unit=shape.unit,
            template=shape.template,
            template_text=template,
            engines=engines,
            engine=engine,
            port=shape.port,
            address=shape.address,
            user=shape.user,
            working_directory=shape.working_directory,
            model=model,
            reach="ssh-forward" if shape.reach == "ssh-forward" else "direct",
            flags=flags,
            environment=environment,
            secrets=secrets,
            startup=Startup(
                timeout_s=shape.startup.timeout,
                no_progress_s=shape.startup.no_progress,
                healthy_for_s=shape.startup.healthy_for,
            ),
            lease_s=shape.lease,
            kept=tuple(shape.kept),
            kind="vllm" if shape.kind == "vllm" else "sglang",
            extra_args=tuple(shape.extra_args),
        )

    def _fault(self, key: str, text: str, hint: str | None = None) -> None:
        place = (*self.place, *key.split("."))
        self.faults.add(Fault(self.document.name, self.document.line(place), dotted(place), text, hint=hint))

    def _host(self, hosts: dict[str, HostEntry]) -> HostEntry | None:
        name = self.shape.host
        if name is None:
            return None
        if name not in hosts:
            is_told = self.faults.is_misspelt(self.document.name, "", "hosts")
            if self.document.node(("hosts", name)) is None and not is_told:
                hint = did_you_mean(nearest(name, hosts)) or "add it under hosts"
                self._fault("host", f'read "{name}"; accepted: {" or ".join(hosts) or "a name under hosts"}', hint)
            return None
        return hosts[name]

    def _engines(self, host: HostEntry | None, folder: Path) -> dict[str, str]:
        engines: dict[str, str] = {}
        for version, path in (self.shape.engines or {}).items():
            place = (*self.place, "engines", version)
            line = self.document.line(place)
            if not is_version(version):
                text = f'"{version}" is no version; accepted: one such as "0.5.23", in quotes'
                self.faults.add(Fault(self.document.name, line, dotted(place[:-1]), text))
            is_local = host is not None and host.connection == "local"
            if path.startswith("/"):
                engines[version] = path
            elif is_local and not path.startswith("~"):
                engines[version] = str((folder / path).absolute())
            else:
                accepted = "an absolute path" + (" or one inside the project" if is_local else " on the host")
                text = f'read "{path}"; accepted: {accepted}'
                self.faults.add(Fault(self.document.name, line, dotted(place[:-1]), text))
        return engines

    def _engine(self, engines: dict[str, str]) -> str | None:
        written = list(self.shape.engines or {})
        if self.shape.engines == {}:
            self._fault("engines", "read an empty mapping; accepted: versions and their folders")
        if self.shape.engine is None:
            if len(written) > 1:
                missing(
                    self.document, self.place, "engine", self.faults, hint=f"which of {', '.join(written)} runs now?"
                )
            return next(iter(engines), None) if len(written) == 1 else None
        if written and self.shape.engine not in written:
            hint = did_you_mean(nearest(self.shape.engine, written))
            self._fault("engine", f'read "{self.shape.engine}"; accepted: {" or ".join(written)}', hint)
        return self.shape.engine if self.shape.engine in engines else None

    def _template(self, templates: tuple[Path, ...]) -> str | None:
        found = [path for folder in templates if (path := folder / self.shape.template).exists()]
        if not found:
            known = sorted({path.name for folder in templates if folder.is_dir() for path in folder.glob("*.j2")})
            hint = did_you_mean(nearest(self.shape.template, known))
            self._fault("template", f'read "{self.shape.template}"; accepted: {" or ".join(known)}', hint)
            return None
        mention = Mention(self.document, (*self.place, "template"))
        shown = f"templates/{self.shape.template}"
        return read_text(found[0], shown, self.faults, limit=MAX_TEMPLATE, mention=mention)

    def _flags(self) -> dict[str, FlagValue]:
        place = (*self.place, "flags")
        if self.shape.kind == "sglang":
            return read_flags(self.document, place, self.shape.flags, self.faults)
        return foreign_flags(self.document, place, self.shape.flags, self.faults)

    def _secrets(self) -> tuple[SecretRef, ...]:
        secrets: list[SecretRef] = []
        for name, secret in self.shape.secrets.items():
            key = f"secrets.{name}"
            if not ENVIRONMENT_NAME.fullmatch(name):
                self._fault(key, f'"{name}" is no name of an environment variable; accepted: letters, digits and _')
            if [secret.file, secret.env, secret.host_file].count(None) != 2:
                self._fault(key, "accepted: one of file, env and host-file")
            if (secret.host_file is None) != (secret.variable is None):
                self._fault(key, "accepted: host-file and variable together, or neither")
            if self.shape.kind == "sglang" and secret.flag is not None and secret.flag not in SECRET:
                known = ", ".join(sorted(SECRET))
                self._fault(
                    f"{key}.flag",
                    f'read "{secret.flag}"; accepted: {known}',
                    did_you_mean(nearest(secret.flag, SECRET)),
                )
            first = next((other.name for other in secrets if other.flag == secret.flag is not None), None)
            if first is not None:
                self._fault(f"{key}.flag", f'"{secret.flag}" is what {first} is for already')
            secrets.append(SecretRef(name=name, **dict(secret)))
        return tuple(secrets)

    def _model(self, folder: Path, name: str) -> Model | None:
        if self.shape.model is None or self.shape.model.config is None:
            if self.shape.model is not None:
                missing(self.document, (*self.place, "model"), "config", self.faults)
            return None
        path = self.shape.model.config
        mention = Mention(self.document, (*self.place, "model", "config"))
        return read_model(folder / Path(path).expanduser(), path, name, mention, self.faults)


def is_version(text: str) -> bool:
    """Whether packaging can order it: 0.5.23, 0.5.10.post1, 0.5.23+cu130."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
