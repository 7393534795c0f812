"""Secret values are read from where the inventory points, or every reason why not is told, and never a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.cli.secret_values import read_values
from orchestrator.core.inventory import HostEntry, SecretRef, ServiceEntry
from orchestrator.errors import InputRefused


def entry(*secrets: SecretRef) -> ServiceEntry:
    return ServiceEntry(
        name="k26",
        host=HostEntry(name="box"),
        unit="s.service",
        template="t.j2",
        template_text="",
        engines={"0.5.23": "/e"},
        engine="0.5.23",
        port=1,
        secrets=secrets,
    )


def test_values_come_from_files_variables_and_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("hf_12345678\n")
    monkeypatch.setenv("OPS_KEY", "sk-12345678")
    service = entry(
        SecretRef(name="A", file="token"),
        SecretRef(name="B", file=str(tmp_path / "token")),
        SecretRef(name="C", env="OPS_KEY", flag="api-key"),
        SecretRef(name="D", host_file="/etc/k26.env", variable="THEIRS", flag="admin-api-key"),
    )
    on_host = {"/etc/k26.env": "# keys\nOTHER=1\nTHEIRS='adm 12345678'\n"}
    assert read_values(service, tmp_path, on_host.__getitem__) == {
        "A": "hf_12345678",
        "B": "hf_12345678",
        "C": "sk-12345678",
        "D": "adm 12345678",
    }


def test_every_secret_that_cannot_be_used_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short").write_text("1234567\n")
    (tmp_path / "two").write_text("first line\nsecond line\n")
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    service = entry(
        SecretRef(name="A", file="nowhere"),
        SecretRef(name="B", file="short"),
        SecretRef(name="C", file="two"),
        SecretRef(name="D", env="NOT_SET_HERE"),
        SecretRef(name="E", host_file="/etc/k26.env", variable="THEIRS"),
    )
    with pytest.raises(InputRefused) as refused:
        read_values(service, tmp_path, lambda _: "OTHER=1\n")
    assert refused.value.faults == (
        "services.k26.secrets.A: nowhere cannot be read: No such file or directory",
        "services.k26.secrets.B: the secret B has fewer than 8 characters: it could not be kept out of logs",
        "services.k26.secrets.C: the secret C holds line ends, control characters or characters outside ASCII",
        "services.k26.secrets.D: the variable NOT_SET_HERE is not set in tune's own environment",
        "services.k26.secrets.E: /etc/k26.env on the host does not set THEIRS",
    )
