"""What sound files mean: every key of both files, and the files that come with tune."""

from pathlib import Path
from textwrap import dedent

import pytest

import orchestrator
from orchestrator.core.inventory import HostEntry, Model, SecretRef, ServiceEntry, Startup
from orchestrator.core.load.prompts import PROMPTS
from orchestrator.core.sweep import Axis, Budget, Objective, Point, Repeats, Sweep
from orchestrator.core.workload import Lengths, Workload
from orchestrator.errors import InputRefused
from orchestrator.project import Project, shipped
from tests.project.projects import INVENTORY, SWEEP, changed, read, write_project

HOME = Path(orchestrator.__file__).parent.parent
BOX = HostEntry(name="box", gpus=8)


def test_a_service_with_few_keys(tmp_path: Path) -> None:
    assert write_project(tmp_path).inventory.services["k26"] == ServiceEntry(
        name="k26",
        host=BOX,
        unit="sglang-k26.service",
        template="sglang.service.j2",
        template_text="[Service]\n",
        engines={"0.5.20": "/opt/sglang-0.5.20", "0.5.23": "/opt/sglang-0.5.23"},
        engine="0.5.23",
        port=30000,
        user="sglang",
        flags={"model-path": "moonshotai/Kimi-K2.6", "pp-size": 8, "mem-fraction-static": 0.92},
        environment={"HF_HOME": "/data/hf"},
        startup=Startup(timeout_s=3600, no_progress_s=900),
    )


def test_a_service_with_every_key(tmp_path: Path) -> None:
    inventory = dedent("""\
        hosts:
          box: {connection: ssh, manager: systemd, ssh-config: conf/ssh, gpus: {count: 4, memory: 97894.4MiB}}
          here: {connection: local, manager: process}
        services:
          all:
            host: here
            kind: sglang
            unit: all@1.service
            user: www-data
            working-directory: /srv/all
            engines: {"0.5.23+cu130": engines/new}
            model: {config: model.json}
            port: 1
            address: 10.0.0.5
            reach: ssh-forward
            flags: {tensor-parallel-size: "8", disable-cuda-graph: true, cuda-graph-bs: [1, 2], revision: 1e10}
            extra-args: [--odd, "1"]
            environment: {A: 1, B: on, C: "", SGLANG_PP_COMM_OVERLAP: on}
            secrets:
              K: {file: ~/k}
              E: {env: E}
              H: {host-file: /etc/keys, variable: KEY, flag: api-key}
            startup: {timeout: 1h30m, no-progress: 90s}
            lease: 2m
            kept: [Nice=5]
        """)
    project = write_project(tmp_path, inventory=inventory)
    (tmp_path / "model.json").write_text(
        '{"text_config": {"num_hidden_layers": 61, "num_attention_heads": 64, "hidden_size": 7168, '
        '"n_routed_experts": 384, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}, "vision_config": {}}'
    )
    hosts = project.inventory.hosts
    assert hosts["box"] == HostEntry(name="box", ssh_config="conf/ssh", gpus=4, gpu_memory_gib=95.6)
    assert project.inventory.services["all"] == ServiceEntry(
        name="all",
        host=HostEntry(name="here", connection="local", manager="process"),
        unit="all@1.service",
        template="sglang.service.j2",
        template_text="[Service]\n",
        engines={"0.5.23+cu130": str(tmp_path / "engines/new")},
        engine="0.5.23+cu130",
        port=1,
        address="10.0.0.5",
        user="www-data",
        working_directory="/srv/all",
        model=Model(
            name="all",
            layers=61,
            attention_heads=64,
            hidden_size=7168,
            experts=384,
            experts_per_token=8,
            moe_intermediate_size=2048,
            multimodal=True,
        ),
        reach="ssh-forward",
        flags={"tp-size": 8, "cuda-graph": False, "cuda-graph-bs": (1, 2), "revision": "1e10"},
        environment={"A": "1", "B": "on", "C": "", "SGLANG_PP_COMM_OVERLAP": "1"},
        secrets=(
            SecretRef(name="K", file="~/k"),
            SecretRef(name="E", env="E"),
            SecretRef(name="H", host_file="/etc/keys", variable="KEY", flag="api-key"),
        ),
        startup=Startup(timeout_s=5400, no_progress_s=90),
        lease_s=120,
        kept=("Nice=5",),
        extra_args=("--odd", "1"),
    )


def test_a_service_of_another_engine_keeps_its_flags_as_written(tmp_path: Path) -> None:
    inventory = changed(INVENTORY, "    host: box\n", "    host: box\n    kind: vllm\n")
    inventory = changed(inventory, "pp-size: 8", "pipeline_parallel: 8\n      swap: [a, 1]")
    entry = write_project(tmp_path, inventory=inventory).inventory.services["k26"]
    assert entry.kind == "vllm"
    assert entry.flags == {
        "model-path": "moonshotai/Kimi-K2.6",
        "pipeline_parallel": 8,
        "swap": ("a", "1"),
        "mem-fraction-static": 0.92,
    }


def test_a_sweep_with_few_keys(tmp_path: Path) -> None:
    text = "service: k26\nworkload: {prompts: quicksort, output-tokens: 8, concurrency: 2}\n"
    project = write_project(tmp_path, sweep=text)
    assert project.sweep(Path("sweeps/night.yaml")) == Sweep(
        name="night",
        path="sweeps/night.yaml",
        text=text,
        service=project.inventory.services["k26"],
        axes=(),
        where=(),
        flags={},
        environment={},
        workload=Workload(
            name="default",
            prompts=(PROMPTS["quicksort"],),
            lengths=Lengths(kind="around", tokens=8),
            concurrency=(2,),
        ),
    )


def test_a_sweep_with_every_key(tmp_path: Path) -> None:
    text = dedent("""\
        service: k26
        grid:
          layout: [{pp_size: 8, --tp-size: 1}, {pp_size: 4, --tp-size: 2}]
          disable-cuda-graph: [on, off]
          SGLANG_PP_LAYER_PARTITION: ["8,8,8,8,8,7,7,7"]
        where: "pp_size > 1"
        flags: {chunked-prefill-size: 4096, trust-remote-code: yes}
        environment: {NCCL_P2P_DISABLE: 1}
        workload:
          name: long
          prompts: [redis-guide, quicksort]
          output-tokens: {listed: {2: [5, 6], 1: 7}, assumed: on}
          concurrency: [2, 1]
          requests-per-stream: 3
          arrival: burst
          stagger: 1.5s
          say-ok: 3
          temperature: 0.5
          request-timeout: 2h
          gap-timeout: 1m30s
          seed: 7
        repeats: {per-level: 2, launches: 3}
        objective: {maximize: whole_tok_s, at: {concurrency: 2}, slo: {tpot_p99: 50ms}}
        budget: {until: 17:00}
        reference: none
        order: as-listed
        seed: 9
        """)
    project = write_project(tmp_path, sweep=text)
    assert project.sweep(Path("sweeps/night.yaml")) == Sweep(
        name="night",
        path="sweeps/night.yaml",
        text=text,
        service=project.inventory.services["k26"],
        axes=(
            Axis(
                name="layout",
                points=(Point(flags={"pp-size": 8, "tp-size": 1}), Point(flags={"pp-size": 4, "tp-size": 2})),
            ),
            Axis(
                name="disable-cuda-graph",
                points=(Point(flags={"cuda-graph": False}), Point(flags={"cuda-graph": True})),
            ),
            Axis(
                name="SGLANG_PP_LAYER_PARTITION",
                points=(Point(environment={"SGLANG_PP_LAYER_PARTITION": "8,8,8,8,8,7,7,7"}),),
            ),
        ),
        where=("pp_size > 1",),
        flags={"chunked-prefill-size": 4096, "trust-remote-code": True},
        environment={"NCCL_P2P_DISABLE": "1"},
        workload=Workload(
            name="long",
            prompts=(PROMPTS["redis-guide"], PROMPTS["quicksort"]),
            lengths=Lengths(kind="listed", listed={2: (5, 6), 1: (7,)}, assumed=True),
            concurrency=(2, 1),
            requests_per_stream=3,
            arrival="burst",
            stagger_s=1.5,
            say_ok=3,
            temperature=0.5,
            request_timeout_s=7200,
            gap_timeout_s=90,
            seed=7,
        ),
        repeats=Repeats(per_level=2, launches=3),
        objective=Objective(maximize="whole_tok_s", concurrency=2, slo={"tpot_p99": 0.05}),
        budget=Budget(until="17:00"),
        reference="none",
        order="as-listed",
        seed=9,
    )


@pytest.mark.parametrize(
    ("written", "lengths"),
    [
        ("1024", Lengths(kind="around", tokens=1024)),
        ("{around: 1024}", Lengths(kind="around", tokens=1024)),
        ("{fixed: 64}", Lengths(kind="fixed", tokens=64)),
        ("{natural: 4096}", Lengths(kind="natural", tokens=4096)),
    ],
)
def test_output_tokens(tmp_path: Path, written: str, lengths: Lengths) -> None:
    sweep = changed(SWEEP, "output-tokens: 1024", f"output-tokens: {written}")
    assert read(tmp_path, sweep=sweep).workload.lengths == lengths


@pytest.mark.parametrize("word", ["on", "On", "ON", "yes", "true", '"on"', "'on'"])
def test_on_in_every_way_people_write_it(tmp_path: Path, word: str) -> None:
    sweep = changed(SWEEP, "cuda-graph: [on, off]", f"cuda-graph: [{word}]")
    assert read(tmp_path, sweep=sweep).axes[2].points == (Point(flags={"cuda-graph": True}),)


def test_the_project_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    write_project(tmp_path)
    project = Project.open(tmp_path / "sweeps")
    assert project.folder == tmp_path
    assert project.state == tmp_path / ".tune"
    assert project.sweep(Path("night.yaml")).path == "sweeps/night.yaml"
    assert project.sweep(Path("sweeps/night.yaml")).path == "sweeps/night.yaml"
    assert project.sweep(tmp_path / "sweeps" / "night.yaml").path == "sweeps/night.yaml"


def test_a_folder_without_a_project(tmp_path: Path) -> None:
    with pytest.raises(InputRefused) as refused:
        Project.open(tmp_path)
    assert refused.value.fact == f"no inventory.yaml in {tmp_path} or above it"
    assert refused.value.remedy is not None


def test_a_sweep_file_outside_the_project(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project")
    other = tmp_path / "elsewhere.yaml"
    other.write_text(SWEEP)
    assert project.sweep(other).path == str(other)


@pytest.mark.parametrize("path", sorted((HOME / "sweeps").glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_sweeps_are_read(path: Path) -> None:
    assert Project.open(HOME).sweep(path).axes


def test_the_original_run_is_as_it_was_told() -> None:
    sweep = Project.open(HOME).sweep(Path("sweeps/k26_original.yaml"))
    assert sweep.axes[0].points == (
        Point(flags={"cuda-graph": False, "pp-async-batch-depth": 0}),
        Point(flags={"cuda-graph": True, "pp-async-batch-depth": 8}),
    )
    listed = sweep.workload.lengths.listed
    assert listed is not None
    assert sweep.workload.lengths.assumed
    assert {level: len(tokens) for level, tokens in listed.items()} == {1: 3, 4: 4, 8: 8, 16: 16, 32: 32}
    # The means that were published with the run: tokens per request at C = 4, 8, 16, 32.
    assert [round(sum(listed[level]) / level) for level in (4, 8, 16, 32)] == [2945, 2538, 2989, 2935]


def test_the_annotated_sweep_names_every_key() -> None:
    text = (HOME / "sweeps" / "k26_pp.yaml").read_text()
    from orchestrator.project import shapes

    for shape in (shapes.SweepFile, shapes.Load, shapes.Repeats, shapes.Objective, shapes.Budget):
        for name, field in shape.model_fields.items():
            assert f"{field.alias or name}:" in text, (shape.__name__, name)


def test_the_annotated_inventory_names_every_key() -> None:
    text = (HOME / "inventory.yaml").read_text()
    from orchestrator.project import shapes

    for shape in (shapes.InventoryFile, shapes.Host, shapes.Service, shapes.Startup):
        for name, field in shape.model_fields.items():
            assert f"{field.alias or name}:" in text, (shape.__name__, name)


def test_shipped_files_are_found_in_a_checkout() -> None:
    assert shipped("inventory.yaml") == HOME / "inventory.yaml"
    assert shipped("templates") == HOME / "templates"
