"""What of a server's command line the model reacts to, and SGLang's defaults for what is not given."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

CARD_MIB = 97_887  # RTX PRO 6000 Blackwell, as nvidia-smi has it
CARD_NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One engine's settings in the model's terms. ``None`` means SGLang computes it."""

    pp: int = 1
    tp: int = 1
    ep: int = 1
    depth: int = 0
    graph: bool = True
    graph_max_batch: int | None = None
    micro_batch_cap: int | None = None  # pp-max-micro-batch-size
    max_running: int | None = None
    memory_fraction: float | None = None
    chunked_prefill: int | None = None
    max_total_tokens: int | None = None  # upper bound of the KV pool
    kv_value_bytes: float = 2.0  # 1 with an fp8 cache
    context_length: int = 262_144
    partition: tuple[int, ...] = field(default_factory=tuple)  # SGLANG_PP_LAYER_PARTITION
    all_reduce_s: float | None = None  # one small all-reduce; None: the table's value for this tp

    @property
    def gpus(self) -> int:
        """Ranks, one a GPU."""
        return self.pp * self.tp

    @property
    def slots(self) -> int:
        """The length of the scheduler's loop: micro-batches that can be in flight. One when nothing is pipelined."""
        return self.pp + self.depth if self.pp > 1 else 1

    @property
    def chunk(self) -> int:
        """Prompt tokens of one prefill pass; 8192 is SGLang's own choice for 60-160 GiB cards."""
        return self.chunked_prefill if self.chunked_prefill and self.chunked_prefill > 0 else 8192

    @property
    def captured_batch(self) -> int:
        """The largest batch that runs from a graph; larger ones run eager. 0 without graphs."""
        if not self.graph:
            return 0
        return self.graph_max_batch or (256 if self.tp < 4 else 512)

    def captured_sizes(self) -> list[int]:
        """Batch sizes SGLang captures up to ``captured_batch``."""
        ladder = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 497, 16), *range(512, 4097, 32)]
        return [size for size in ladder if size <= self.captured_batch]

    def layers_of(self, layers: int) -> tuple[int, ...]:
        """Layers on each stage: equal, the remainder on the last ones (SGLang's split), or the given partition.

        Raises ``ValueError`` in SGLang's words when a given partition does not fit.
        """
        if not self.partition:
            base, more = divmod(layers, self.pp)
            return tuple(base + (1 if stage >= self.pp - more else 0) for stage in range(self.pp))
        if len(self.partition) != self.pp:
            raise ValueError(f"len(partitions)={len(self.partition)} does not match pp_size={self.pp}.")
        if sum(self.partition) != layers:
            raise ValueError(f"sum(partitions)={sum(self.partition)} does not match num_hidden_layers={layers}.")
        return self.partition

    def automatic_fraction(self, *, multimodal: bool) -> float:
        """mem-fraction-static when unset: what SGLang 0.5.23 reserves on cards above 60 GiB.

        A multimodal model's is then cut by a factor between 0.8 and 1; 0.93 is the middle of what was seen.
        """
        reserve = max(
            10_240.0,
            512 + 1.5 * max(self.chunk, 2048) + 128 * self.gpus + 2 * self.captured_batch,
        )
        fraction = (CARD_MIB - reserve) / CARD_MIB
        return round(fraction * (0.93 if multimodal else 1.0), 3)

    @property
    def tp_doublings(self) -> float:
        """log2 of tp."""
        return math.log2(self.tp)
