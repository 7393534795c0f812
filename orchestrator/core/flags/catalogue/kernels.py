"""Which kernels attend, multiply and sample.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.flag import INVERTED, Flag, Form, Option

_ATTENTION = (
    "triton",
    "torch_native",
    "flex_attention",
    "dsa",
    "nsa",
    "qsa",
    "dsv4",
    "compressed",
    "fa3",
    "fa4",
    "flashinfer",
    "llada2_cfg_flashinfer",
    "flashmla",
    "trtllm_mla",
    "cutedsl_mla",
    "tokenspeed_mla",
    "trtllm_mha",
    "hpc_ops",
    "minicpm_flashattn",
    "minicpm_flashinfer",
    "aiter",
    "wave",
    "intel_amx",
    "ascend",
    "intel_xpu",
)
_ATTENTION_SINCE = {
    "intel_xpu": "0.5.4",
    "dsv4": "0.5.12",
    "compressed": "0.5.12",
    "tokenspeed_mla": "0.5.12",
    "dsa": "0.5.13",
    "cutedsl_mla": "0.5.13",
    "hpc_ops": "0.5.17",
    "minicpm_flashattn": "0.5.19",
    "minicpm_flashinfer": "0.5.19",
    "qsa": "0.5.20",
    "llada2_cfg_flashinfer": "0.5.22",
}
_ATTENTION_GONE = {"cutlass_mla": "0.5.20", "dual_chunk_flash_attn": "0.5.20"}

FLAGS: tuple[Flag, ...] = (
    Flag(
        name="attention-backend",
        kind="enum",
        group="kernel",
        short="attn",
        choices=_ATTENTION,
        note="unset with MLA: triton on SM120, fa3 on SM90, trtllm_mla or flashinfer on SM100",
        choices_since=_ATTENTION_SINCE,
        choices_gone=_ATTENTION_GONE,
    ),
    Flag(
        name="prefill-attention-backend",
        kind="enum",
        group="kernel",
        short="pattn",
        choices=_ATTENTION,
        choices_since=_ATTENTION_SINCE,
        choices_gone=_ATTENTION_GONE,
    ),
    Flag(
        name="decode-attention-backend",
        kind="enum",
        group="kernel",
        short="dattn",
        choices=_ATTENTION,
        choices_since=_ATTENTION_SINCE,
        choices_gone=_ATTENTION_GONE,
    ),
    Flag(
        name="sampling-backend",
        kind="enum",
        group="kernel",
        short="sample",
        choices=("pytorch", "intel_xpu", "ascend", "flashinfer"),
        choices_since={"ascend": "0.5.6", "intel_xpu": "0.5.21"},
    ),
    Flag(
        name="grammar-backend",
        kind="enum",
        group="kernel",
        short="grammar",
        choices=("xgrammar", "outlines", "llguidance", "none"),
    ),
    Flag(
        name="fp8-gemm-backend",
        kind="enum",
        group="kernel",
        short="fp8",
        default="auto",
        choices=(
            "auto",
            "deep_gemm",
            "flashinfer_trtllm",
            "flashinfer_cutlass",
            "flashinfer_deepgemm",
            "flashinfer_cutedsl",
            "cutlass",
            "triton",
            "aiter",
        ),
        since="0.5.6.post2",
        choices_since={"flashinfer_deepgemm": "0.5.9", "flashinfer_cutlass": "0.5.10", "flashinfer_cutedsl": "0.5.18"},
    ),
    Flag(
        name="fp4-gemm-backend",
        kind="enum",
        group="kernel",
        short="fp4",
        default="auto",
        choices=("auto", "flashinfer_cudnn", "flashinfer_cutedsl", "flashinfer_cutlass", "flashinfer_trtllm", "marlin"),
        since="0.5.8",
        choices_since={"cutlass": "0.5.10", "flashinfer_cutedsl": "0.5.12", "marlin": "0.5.13"},
        choices_gone={"cutlass": "0.5.16"},
    ),
    Flag(
        name="bf16-gemm-backend",
        kind="enum",
        group="kernel",
        short="bf16",
        default="auto",
        choices=("auto", "cutedsl", "gemv", "torch"),
        since="0.5.15",
        choices_since={"torch": "0.5.17", "flashinfer_pr4266": "0.5.19", "gemv": "0.5.19"},
        choices_gone={"flashinfer_pr4266": "0.5.20"},
    ),
    Flag(name="triton-attention-num-kv-splits", kind="int", group="kernel", short="splits", default=8),
    Flag(name="flashinfer-mla-disable-ragged", kind="switch", group="kernel", short="noragged", default=False),
    Flag(
        name="flashinfer-autotune",
        kind="switch",
        group="kernel",
        short="notune",
        since="0.5.7",
        default=True,
        forms=(Form(option="disable-flashinfer-autotune", when=False),),
    ),
    Flag(
        name="mm-attention-backend",
        kind="enum",
        group="kernel",
        short="mmattn",
        choices=(
            "sdpa",
            "fa3",
            "fa4",
            "triton_attn",
            "ascend_attn",
            "aiter_attn",
            "flashinfer_cudnn",
            "amx_attn",
            "xpu_attn",
        ),
        choices_since={
            "aiter_attn": "0.5.5",
            "fa4": "0.5.9",
            "flashinfer_cudnn": "0.5.10",
            "amx_attn": "0.5.13",
            "xpu_attn": "0.5.13",
        },
    ),
)

OPTIONS: tuple[Option, ...] = (
    Option(
        name="disable-flashinfer-autotune", kind="switch", means="flashinfer-autotune", becomes=INVERTED, since="0.5.7"
    ),
)
