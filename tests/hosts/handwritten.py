"""Units as people write them, and stand-ins for what they start: real processes that listen where they are told."""

from __future__ import annotations

from tests.bed import BedHost

CHAT = """\
[Unit]
Description=Chat model
After=network.target
[Service]
Type=simple
User=llm
WorkingDirectory=/srv/chat
Environment="PATH=/srv/chat/.venv/bin:/usr/local/bin:/usr/bin:/bin"
Environment="PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.7,max_split_size_mb:128"
ExecStart=/srv/chat/.venv/bin/python -m sglang.launch_server \\
    --model-path example-org/chat-14b \\
    --tensor-parallel-size 2 \\
    --host 0.0.0.0 --port 8100 \\
    --cpu-offload-gb 32 \\
    --checkpoint-engine-wait-weights-before-ready
# come back on its own
Restart=always
RestartSec=8
StartLimitInterval=90s
StartLimitBurst=4
LimitNOFILE=131072
OOMScoreAdjust=-900
SyslogIdentifier=chat
[Install]
WantedBy=multi-user.target
"""

ENGINE = """\
[Service]
Type=simple
DynamicUser=yes
StateDirectory=engine
CacheDirectory=engine
Environment=HF_HOME=/var/lib/engine
Environment=HOME=/var/lib/engine
EnvironmentFile=-/etc/engine.conf
ExecStart=/usr/bin/python -m sglang.launch_server --host 0.0.0.0 --port 8000 $ENGINE_ARGS
Restart=on-failure
"""

LENS = """\
[Unit]
After=network.target nvidia-persistenced.service
Requires=nvidia-persistenced.service
[Service]
Type=exec
User=lens
Group=lens
WorkingDirectory=/opt/lens
ExecStart=/usr/local/bin/uv run vllm serve ./models/big-fp8 \\
  --tensor-parallel-size 8 \\
  --speculative-config.method mtp \\
  --speculative-config.num_speculative-tokens 1 \\
  --served-model-name big --host 0.0.0.0 --port 8000
Restart=on-failure
Environment=HOME=/opt/lens
"""

BOXED = """\
[Unit]
After=network.target docker.service
Requires=docker.service
[Service]
Restart=always
ExecStartPre=/usr/bin/docker pull example/sglang:stable
ExecStart=/usr/bin/docker run --rm --name engine --gpus all -p 31000:30000 -v /srv/models/m:/model \
example/sglang:stable python3 -m sglang.launch_server --model-path /model --host 0.0.0.0 --port 30000 --tp 1
ExecStop=/usr/bin/docker stop -t 10 engine
"""

COMPOSED = """\
[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory=/srv/boxed
ExecStart=/usr/bin/docker compose up -d
ExecStop=/usr/bin/docker compose down
"""

ANNS = """\
[Unit]
After=docker.service
Requires=docker.service
[Service]
Type=simple
WorkingDirectory=/home/ann/engine
ExecStart=/usr/bin/bash -lc 'source /home/ann/engine/run.sh 0.0.0.0 8080'
Restart=always
[Install]
WantedBy=default.target
"""

CONDA = """\
[Service]
User=ann
ExecStart=/usr/bin/bash -lc 'source /opt/conda/etc/profile.d/conda.sh && \\
  conda activate e && exec vllm serve M --port 8000'
"""

ADAPTERS = """\
[Service]
Type=simple
User=root
WorkingDirectory=/srv/adapters
EnvironmentFile=/srv/adapters/engine.env
Environment="PATH=/srv/adapters/venv/bin:/usr/bin:/bin"
ExecStart=/srv/adapters/venv/bin/vllm serve ${ENGINE_MODEL} \\
    --host ${ENGINE_HOST} --port ${ENGINE_PORT} \\
    --api-key ${ENGINE_KEY} \\
    --enable-lora --lora-modules \\
      '{"name":"law","path":"example-org/law-lora"}' \\
      '{"name":"med","path":"example-org/med-lora"}' \\
    --max-lora-rank 16
Restart=always
TimeoutStartSec=600
"""

KEY = "sk-Zq81-never-to-be-seen-77"

ADAPTERS_ENV = f"""\
# what serves
ENGINE_MODEL="example-org/base-8b"
ENGINE_HOST=0.0.0.0
ENGINE_PORT=8200
ENGINE_KEY='{KEY}'
"""

_SERVE = '''\
"""Listens where --port says, like an engine that has come up."""
import socket, sys, time

words = sys.argv[1:]
if "--help" in words:
    print("usage: launch_server.py [--model-path MODEL] [--port PORT] [--checkpoint-engine-wait-weights-before-ready]")
    sys.exit(0)
port = int([after for word, after in zip(words, words[1:]) if word == "--port"][-1])
listener = socket.create_server(("0.0.0.0", port))
while True:
    time.sleep(60)
'''


def install_engine(host: BedHost, folder: str, *, package: str = "sglang", version: str = "0.5.20") -> None:
    """A virtual environment of the system's python with a package that listens where it is told."""
    site = f"{folder}/lib/python3.11/site-packages"
    host.write(f"{folder}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    host.sh(f"mkdir -p {folder}/bin && ln -sf /usr/bin/python3 {folder}/bin/python")
    install_package(host, site, package=package, version=version)
    if package == "vllm":
        script = f"#!{folder}/bin/python\nimport runpy\nrunpy.run_module('vllm.serve', run_name='__main__')\n"
        host.write(f"{folder}/bin/vllm", script, 0o755)


def install_package(host: BedHost, site: str, *, package: str, version: str) -> None:
    """The stand-in package with version metadata in a site-packages folder."""
    module = "launch_server" if package == "sglang" else "serve"
    host.write(f"{site}/{package}/__init__.py", "")
    host.write(f"{site}/{package}/{module}.py", _SERVE)
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    host.write(f"{site}/{package}-{version}.dist-info/METADATA", metadata)


def install_uv(host: BedHost) -> None:
    """``uv run`` as far as a unit sees it: stays in front and starts what it is told from the folder's .venv."""
    host.write("/usr/local/bin/uv", '#!/bin/sh\nshift\nprogram=$1\nshift\n.venv/bin/"$program" "$@"\n', 0o755)


def install_unit(host: BedHost, name: str, text: str, *, start: bool = False) -> None:
    """Into /etc, known to the manager; with ``start`` it serves when this returns."""
    host.write(f"/etc/systemd/system/{name}", text)
    host.sh("systemctl daemon-reload")
    if start:
        host.sh(f"systemctl start {name}")


def wait_for_port(host: BedHost, port: int) -> None:
    """Until somebody listens."""
    host.wait_until(f"ss -Hltn 'sport = :{port}' | grep -q .")
