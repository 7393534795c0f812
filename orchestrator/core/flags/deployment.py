"""Settings that say where an engine runs and what it writes, and not how fast it is: never part of a config."""

from __future__ import annotations

DEPLOYMENT = frozenset(
    {
        # where it listens
        "host",
        "port",
        "fastapi-root-path",
        "grpc-port",
        "smg-http-sidecar-port",
        "gated-launch-port",
        "engine-info-bootstrap-port",
        "ssl-keyfile",
        "ssl-certfile",
        "ssl-ca-certs",
        "ssl-keyfile-password",
        "enable-ssl-refresh",
        # who may talk to it
        "api-key",
        "admin-api-key",
        # which node it is
        "node-rank",
        "dist-init-addr",
        "nccl-port",
        # where it reads, writes and reports
        "config",
        "download-dir",
        "file-storage-path",
        "crash-dump-folder",
        "debug-tensor-dump-output-folder",
        "export-metrics-to-file-dir",
        "log-requests-target",
        "weight-cache-socket",
        "otlp-traces-endpoint",
        "oltp-traces-endpoint",
        "otlp-service-name",
        "load-publish-endpoint",
    }
)

# Values that are never printed, logged or stored.
SECRET = frozenset({"api-key", "admin-api-key", "ssl-keyfile-password"})
