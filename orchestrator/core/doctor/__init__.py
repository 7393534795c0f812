"""A check-up of a host: facts in, findings out. What is asked stands in ``workflow.doctor``."""

from orchestrator.core.doctor.examine import examine
from orchestrator.core.doctor.facts import Finding, HostFacts

__all__ = ["Finding", "HostFacts", "examine"]
