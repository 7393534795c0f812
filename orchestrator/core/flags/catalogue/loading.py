"""The rest of what is loaded: weights from elsewhere, quantised on the way, shared between engines.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.catalogue.rows import choice, switch, text, texts, whole
from orchestrator.core.flags.flag import Flag

FLAGS: tuple[Flag, ...] = (
    switch("is-embedding", "model"),
    text("model-impl", "model", "auto"),
    text("quantization-param-path", "model"),
    text("download-dir", "model"),
    texts("custom-weight-loader", "model"),
    text("remote-instance-weight-loader-seed-instance-ip", "model"),
    whole("remote-instance-weight-loader-seed-instance-service-port", "model"),
    text("remote-instance-weight-loader-send-weights-group-ports", "model"),
    switch("checkpoint-engine-wait-weights-before-ready", "model", since="0.5.4"),
    text("modelopt-quant", "model", since="0.5.4"),
    text("modelopt-checkpoint-restore-path", "model", since="0.5.4"),
    text("modelopt-checkpoint-save-path", "model", since="0.5.4"),
    text("modelopt-export-path", "model", since="0.5.4"),
    switch("quantize-and-serve", "model", since="0.5.4"),
    text("decrypted-config-file", "model", since="0.5.5"),
    text("decrypted-draft-config-file", "model", since="0.5.5"),
    text("rl-quant-profile", "model", since="0.5.7"),
    choice(
        "remote-instance-weight-loader-backend",
        "model",
        "nccl",
        "transfer_engine nccl modelexpress",
        came={"modelexpress": "0.5.10"},
        since="0.5.7",
    ),
    switch("remote-instance-weight-loader-start-seed-via-transfer-engine", "model", since="0.5.7"),
    text("model-checksum", "model", since="0.5.8"),
    whole("engine-info-bootstrap-port", "model", 6789, since="0.5.10"),
    text("modelexpress-config", "model", since="0.5.10"),
    text("model-config-parser", "model", "auto", since="0.5.12"),
    switch("weight-loader-drop-cache-after-load", "model", since="0.5.12"),
    choice("weight-cache-mode", "model", "off", "off daemon client", since="0.5.17"),
    text("weight-cache-socket", "model", since="0.5.17"),
    whole("weight-cache-timeout", "model", 1800, since="0.5.17"),
    choice("qsa-indexer-dtype", "model", "auto", "auto bfloat16 fp8_e4m3", since="0.5.22"),
)
