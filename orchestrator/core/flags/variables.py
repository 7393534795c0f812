"""Environment variables that the catalogue does not list: which a sweep may set, and why it may not set the others.

A sweep's variables are part of a config, so they have to tune the engine (`NCCL_*`, `CUDA_*`, `OMP_*` …). What says
where things lie, who is asked, which code is loaded or which GPUs there are is the service's, the same for production
and every trial; what systemd or the engine itself sets is nobody's to set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_OF_THE_SERVICE = "write it under environment of the service in inventory.yaml: it then counts for every trial"

# Names as a pattern that has to match whole, why not, and what to do instead.
_REASONS: tuple[tuple[str, str, str | None], ...] = (
    (
        r"(?!TOKENIZERS_)(\w+_)?(TOKEN|API_?KEY|ACCESS_KEY(_ID)?|SECRET(_KEY)?|PASSWORD|PASSWD|CREDENTIALS?)",
        "is a secret; its value belongs in no file that others read",
        "under secrets of the service: {NAME: {file: PATH}}",
    ),
    (
        r"(CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES|CUDA_DEVICE_ORDER",
        "says which GPUs the engine sees, and the rules, the lock and the proof of teardown count all of the host's",
        "a layout on fewer GPUs is pp-size and tp-size",
    ),
    (
        r"LD_\w+|PYTHON(PATH|HOME|STARTUP|USERBASE|NOUSERSITE|SAFEPATH)|VIRTUAL_ENV|CONDA_\w+|CUDA_(HOME|PATH)",
        "says which code is loaded: another build, not another config",
        "an environment of its own is another version under engines of the service; else " + _OF_THE_SERVICE,
    ),
    (
        r"PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TERM|LANG|LC_\w+|TZ|MAIL|TMPDIR|TEMP|TMP",
        "is set by systemd for the service's user and tunes nothing",
        None,
    ),
    (
        r"INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET|MAINPID|MANAGERPID|SYSTEMD_\w+|LISTEN_(FDS|PID|FDNAMES)"
        r"|WATCHDOG_(USEC|PID)|(RUNTIME|STATE|CACHE|LOGS|CONFIGURATION|CREDENTIALS)_DIRECTORY|MEMORY_PRESSURE_\w+",
        "is set by systemd, for each start anew",
        None,
    ),
    (
        r"RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_(ADDR|PORT)|NODE_RANK|SGLANG_(HOST_IP|PORT)",
        "is set by the engine for each of its ranks",
        None,
    ),
    (
        r"(HF|HUGGINGFACE|TRANSFORMERS|XDG|TRITON|TORCHINDUCTOR|TORCH|VLLM|SGLANG|FLASHINFER|DG_JIT|MODELSCOPE)_"
        r"(\w+_)?(HOME|CACHE|CACHE_DIR|CACHE_HOME|DIR|ROOT|WORKSPACE_BASE|FOLDER|PATH)|HF_(ENDPOINT|HUB_OFFLINE)"
        r"|TRANSFORMERS_OFFLINE|CUDA_CACHE_PATH|(HTTPS?|NO|ALL|FTP)_PROXY|(https?|no|all|ftp)_proxy",
        "says where files lie or are fetched from, not how the engine runs",
        _OF_THE_SERVICE,
    ),
)
_COMPILED: Mapping[re.Pattern[str], tuple[str, str | None]] = {
    re.compile(expression): (why, hint) for expression, why, hint in _REASONS
}
VARIABLE = r"^([A-Z][A-Z0-9]*(_[A-Z0-9]+)+|PATH|HOME|USER|SHELL|LANG|TZ|RANK|TMPDIR)$"
"""How a variable that is no name of a flag is told apart from one: capitals with underscores, and the usual few."""


def is_variable(name: str) -> bool:
    """Whether a name that the catalogue does not know is written as an environment variable is: in capitals."""
    return re.match(VARIABLE, name) is not None


def why_not_tuned(name: str) -> tuple[str, str | None] | None:
    """Why a sweep may not set a variable, and what to do instead; None for one that it may."""
    return next((said for pattern, said in _COMPILED.items() if pattern.fullmatch(name)), None)
