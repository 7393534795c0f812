"""The original run: what was measured, and the output lengths assumed for it (its levels' means are known)."""

from __future__ import annotations

from orchestrator.sim.settings import Settings

A = Settings(pp=8, tp=1, depth=0, graph=False)
B = Settings(pp=8, tp=1, depth=8, graph=True)

_32 = """
    64 1497 2500 3312 4096 4096 4096 930 2138 2996 3784 4096 4096 64 1729 2670
    3469 4096 4096 4096 1235 2323 3155 3946 4096 4096 555 1941 2835 3626 4096 4096
"""
LENGTHS: dict[int, tuple[int, ...]] = {
    1: (2900,),
    4: (1028, 2691, 3966, 4096),
    8: (64, 3742, 1787, 4096, 3079, 990, 4096, 2450),
    16: (64, 2679, 4096, 4096, 2326, 3958, 4096, 1931, 3641, 4096, 1464, 3327, 4096, 848, 3010, 4096),
    32: tuple(map(int, _32.split())),
}
