"""Exit codes: unique, documented, and owned by the errors themselves."""

from __future__ import annotations

from pathlib import Path

from orchestrator import errors
from orchestrator.errors import TuneError, exit_codes

DOCUMENT = Path(__file__).parent.parent / "docs" / "exit-codes.md"


def every_error() -> list[type[TuneError]]:
    found: list[type[TuneError]] = []
    pending: list[type[TuneError]] = [TuneError]
    while pending:
        kind = pending.pop()
        found.append(kind)
        pending.extend(kind.__subclasses__())
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_no_two_errors_claim_the_same_code() -> None:
    owners = [kind for kind in every_error() if "exit_code" in vars(kind)]
    codes = [kind.exit_code for kind in owners]
    assert len(codes) == len(set(codes))
    assert 0 not in codes


def test_an_error_that_owns_a_code_says_what_it_means() -> None:
    for kind in every_error():
        if "exit_code" in vars(kind):
            assert "meaning" in vars(kind), kind


def test_every_code_is_documented_in_the_same_words() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")][1:]
    documented = {
        int(row.split("|")[1]): row.split("|")[2].strip() for row in rows if row.split("|")[1].strip().isdigit()
    }
    assert documented == exit_codes()


def test_subclasses_without_a_code_share_their_parents() -> None:
    assert errors.OutcomeUnknown.exit_code == errors.HostFault.exit_code == 4
    assert errors.LeaseLost.exit_code == errors.Locked.exit_code == 7
