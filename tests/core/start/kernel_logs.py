# ruff: noqa: E501 - the kernel writes long lines
"""Kernel logs as journalctl gives them (``--output=short-iso --utc``); hosts, addresses and numbers are made up."""

from __future__ import annotations

FELL_OFF = """\
2026-11-30T03:05:40+0000 k26 kernel: pcieport 0000:3a:00.0: AER: Corrected error message received from 0000:3b:00.0
2026-11-30T03:05:59+0000 k26 kernel: pcieport 0000:3a:00.0: AER: Uncorrectable (Fatal) error message received
2026-11-30T03:05:59+0000 k26 kernel: pcieport 0000:3a:00.0: pciehp: Slot(5): Link Down
2026-11-30T03:06:01+0000 k26 kernel: NVRM: GPU at PCI:0000:3b:00: GPU-2f9d6e32-8a0e-7c11-bb5a-0a1b2c3d4e5f
2026-11-30T03:06:01+0000 k26 kernel: NVRM: GPU Board Serial Number: 1650123456789
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
2026-11-30T03:06:01+0000 k26 kernel: NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, name=sglang::schedul, Ch 00000008
"""
FELL_OFF_WITHOUT_XID = """\
2026-11-30T03:06:01+0000 k26 kernel: NVRM: The NVIDIA GPU 0000:b3:00.0
2026-11-30T03:06:01+0000 k26 kernel: NVRM: (PCI ID: 10de:26b5) installed in this system has
2026-11-30T03:06:01+0000 k26 kernel: NVRM: fallen off the bus and is not responding to commands.
"""
GSP = """\
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 119, pid=4711, name=sglang::schedul, Timeout after 6s of waiting for RPC response from GPU3 GSP! Expected function 76 (GSP_RM_CONTROL)
2026-11-30T03:06:12+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 119, pid=4711, name=sglang::schedul, Timeout after 6s of waiting for RPC response from GPU3 GSP! Expected function 10 (FREE)
"""
MMU_FAULT = """\
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 31, pid=4711, name=sglang::schedul, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2a_4c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 43, pid=4711, name=sglang::schedul, Ch 00000008
"""
DOUBLE_BIT = """\
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error
2026-11-30T03:06:01+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping
2026-11-30T03:06:02+0000 k26 kernel: NVRM: Xid (PCI:0000:c1:00): 45, pid=4711, name=sglang::schedul, Ch 00000008
"""
UNIT_LIMIT = """\
2026-11-30T03:06:01+0000 k26 kernel: python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
2026-11-30T03:06:01+0000 k26 kernel: memory: usage 67108864kB, limit 67108864kB, failcnt 9120
2026-11-30T03:06:01+0000 k26 kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/system.slice/sglang-k26-trial.service,task_memcg=/system.slice/sglang-k26-trial.service,task=sglang::schedul,pid=4712,uid=997
2026-11-30T03:06:01+0000 k26 kernel: Memory cgroup out of memory: Killed process 4712 (sglang::schedul) total-vm:181220412kB, anon-rss:66012344kB, file-rss:98304kB, shmem-rss:0kB, UID:997 pgtables:131072kB oom_score_adj:0
"""
HOST_FULL = """\
2026-11-30T03:06:01+0000 k26 kernel: kworker/3:1 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
2026-11-30T03:06:01+0000 k26 kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/system.slice/sglang-k26-trial.service,task=sglang::schedul,pid=4712,uid=997
2026-11-30T03:06:01+0000 k26 kernel: Out of memory: Killed process 4712 (sglang::schedul) total-vm:981220412kB, anon-rss:466012344kB, file-rss:98304kB, shmem-rss:0kB, UID:997 pgtables:931072kB oom_score_adj:0
2026-11-30T03:06:03+0000 k26 kernel: oom_reaper: reaped process 4712 (sglang::schedul), now anon-rss:0kB, file-rss:98304kB, shmem-rss:0kB
"""
SOMEBODY_ELSE = HOST_FULL.replace("sglang-k26-trial.service", "backup.service").replace("sglang::schedul", "restic")
BEFORE_LINUX_5 = """\
2026-11-30T03:06:01+0000 k26 kernel: Out of memory: Kill process 4711 (python) score 901 or sacrifice child
2026-11-30T03:06:01+0000 k26 kernel: Killed process 4711 (python) total-vm:981220412kB, anon-rss:466012344kB, file-rss:0kB
"""
AER = """\
2026-11-30T03:05:40+0000 k26 kernel: pcieport 0000:c0:00.0: AER: Corrected error message received from 0000:c1:00.0
2026-11-30T03:05:40+0000 k26 kernel: nvidia 0000:c1:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer
2026-11-30T03:05:58+0000 k26 kernel: nvidia 0000:c1:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal)
"""
QUIET = """\
2026-11-30T03:00:01+0000 k26 kernel: TCP: request_sock_TCP: Possible SYN flooding on port 30000. Sending cookies.
2026-11-30T03:00:02+0000 k26 kernel: audit: type=1400 audit(1796000000.1:12): apparmor="STATUS" operation="profile_load"
"""
