"""Real hosts for tests: systemd and sshd in systemd-nspawn containers over an overlay of this machine's own root.

Use the ``bed`` fixture (``tests/conftest.py``) and ask it for a host by name: ``bed.host("gpu1")``. Hosts boot
once a session, in two or three seconds, and are put back as found after each test.
"""

from tests.bed.bed import Bed, missing
from tests.bed.host import BedHost

__all__ = ["Bed", "BedHost", "missing"]
