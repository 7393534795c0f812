"""Images, sound and video in prompts.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.catalogue.rows import choice, pair, switch, text, texts, whole
from orchestrator.core.flags.flag import Flag

FLAGS: tuple[Flag, ...] = (
    switch("disable-fast-image-processor", "multimodal"),
    text("mm-process-config", "multimodal", since="0.5.6"),
    switch("enable-broadcast-mm-inputs-process", "multimodal", since="0.5.6"),
    pair("mm-enable-dp-encoder", "multimodal", since="0.5.6"),
    text("limit-mm-data-per-request", "multimodal", since="0.5.7"),
    switch("enable-prefix-mm-cache", "multimodal", since="0.5.7"),
    switch("enable-mm-global-cache", "multimodal", since="0.5.10"),
    choice(
        "mm-feature-transport", "multimodal", None, "cpu cuda_ipc cuda_vmm", came={"cuda_vmm": "0.5.18"}, since="0.5.16"
    ),
    whole("mm-processor-worker-num", "multimodal", 0, since="0.5.17"),
    whole("mm-io-worker-num", "multimodal", 0, since="0.5.17"),
    texts("allowed-media-domains", "multimodal", since="0.5.18"),
    whole("media-url-max-file-size-mb", "multimodal", 64, since="0.5.18"),
    whole("mm-preprocess-cache-size-mb", "multimodal", since="0.5.18"),
    switch("trust-mm-content-hashes", "multimodal", since="0.5.18"),
    choice("image-processor-backend", "multimodal", "auto", "auto torchvision pil", since="0.5.18"),
    choice("mm-global-cache-backend", "multimodal", "mooncake", "mooncake", since="0.5.18"),
)
