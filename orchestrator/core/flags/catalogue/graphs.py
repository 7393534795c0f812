"""CUDA graphs and compilation. Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.

Two generations of spellings: one for all phases until 0.5.13, one for each phase from 0.5.14. The settings here are
called by what they do, and each knows both.
"""

from __future__ import annotations

from orchestrator.core.flags.flag import INVERTED, Flag, Form, Later, Option

FLAGS: tuple[Flag, ...] = (
    Flag(
        name="cuda-graph",
        kind="switch",
        group="cuda-graph",
        short="eager",
        default=True,
        forms=(Form(option="disable-cuda-graph", when=False),),
        note="every graph, decode and prefill",
    ),
    Flag(
        name="decode-cuda-graph",
        kind="switch",
        group="cuda-graph",
        short="decode-eager",
        default=True,
        forms=(
            Form(until="0.5.14", option="disable-cuda-graph", when=False),
            Form(since="0.5.14", option="disable-decode-cuda-graph", when=False),
        ),
        note="before 0.5.14 only all graphs could be switched off: there it is the same as cuda-graph",
    ),
    Flag(
        name="prefill-graph",
        kind="enum",
        group="cuda-graph",
        short="pgraph",
        default="auto",
        choices=("auto", "on", "off"),
        since="0.5.4",
        forms=(
            Form(
                since="0.5.4",
                until="0.5.10",
                words={"auto": (), "on": ("--enable-piecewise-cuda-graph",), "off": ()},
            ),
            Form(
                since="0.5.10",
                until="0.5.14",
                words={
                    "auto": (),
                    "on": ("--enforce-piecewise-cuda-graph",),
                    "off": ("--disable-piecewise-cuda-graph",),
                },
            ),
            Form(
                since="0.5.14",
                words={
                    "auto": (),
                    "on": ("--cuda-graph-backend-prefill", "breakable"),
                    "off": ("--cuda-graph-backend-prefill", "disabled"),
                },
            ),
        ),
        note="auto: off before 0.5.10, then on unless pp-size > 1 or the model is multimodal",
    ),
    Flag(
        name="cuda-graph-max-bs",
        kind="int",
        group="cuda-graph",
        short="gmax",
        least=1,
        forms=(
            Form(until="0.5.14", option="cuda-graph-max-bs"),
            Form(since="0.5.14", option="cuda-graph-max-bs-decode"),
        ),
        note="largest decode batch captured",
    ),
    Flag(
        name="cuda-graph-bs",
        kind="int-list",
        group="cuda-graph",
        short="gsizes",
        least=1,
        forms=(Form(until="0.5.14", option="cuda-graph-bs"), Form(since="0.5.14", option="cuda-graph-bs-decode")),
        note="the decode batch sizes captured, instead of the usual ladder",
    ),
    Flag(
        name="cuda-graph-padding",
        kind="switch",
        group="cuda-graph",
        short="nopad",
        default=True,
        forms=(Form(option="disable-cuda-graph-padding", when=False),),
    ),
    Flag(name="cuda-graph-config", kind="str", group="cuda-graph", short="gconf", since="0.5.14"),
    Flag(
        name="cuda-graph-backend-decode",
        kind="enum",
        group="cuda-graph",
        short="dbackend",
        choices=("full", "breakable", "disabled"),
        choices_gone={"tc_piecewise": "0.5.22"},
        since="0.5.14",
    ),
    Flag(
        name="cuda-graph-backend-prefill",
        kind="enum",
        group="cuda-graph",
        short="pbackend",
        choices=("full", "breakable", "disabled"),
        choices_since={"full": "0.5.15"},
        choices_gone={"tc_piecewise": "0.5.22"},
        since="0.5.14",
    ),
    Flag(
        name="cuda-graph-max-bs-prefill",
        kind="int",
        group="cuda-graph",
        short="pgmax",
        since="0.5.4",
        least=1,
        forms=(
            Form(since="0.5.4", until="0.5.14", option="piecewise-cuda-graph-max-tokens"),
            Form(since="0.5.14", option="cuda-graph-max-bs-prefill"),
        ),
        note="largest prefill captured, tokens",
    ),
    Flag(
        name="cuda-graph-bs-prefill",
        kind="int-list",
        group="cuda-graph",
        short="pgsizes",
        since="0.5.4",
        least=1,
        forms=(
            Form(since="0.5.4", until="0.5.14", option="piecewise-cuda-graph-tokens"),
            Form(since="0.5.14", option="cuda-graph-bs-prefill"),
        ),
    ),
    Flag(
        name="cuda-graph-tc-compiler",
        kind="enum",
        group="cuda-graph",
        short="tc",
        choices=("eager", "inductor"),
        since="0.5.4",
        removed="0.5.22",
        forms=(
            Form(since="0.5.4", until="0.5.14", option="piecewise-cuda-graph-compiler"),
            Form(since="0.5.14", until="0.5.22", option="cuda-graph-tc-compiler"),
        ),
    ),
    Flag(
        name="enable-breakable-cuda-graph",
        kind="switch",
        group="cuda-graph",
        short="breakable",
        default=False,
        since="0.5.11",
        removed="0.5.20",
        deprecated="0.5.14",
        replacement="--cuda-graph-backend-prefill breakable",
    ),
    Flag(name="enable-profile-cuda-graph", kind="switch", group="cuda-graph", short="gprofile", default=False),
    Flag(name="enable-cudagraph-gc", kind="switch", group="cuda-graph", short="ggc", default=False),
    Flag(name="debug-cuda-graph", kind="switch", group="cuda-graph", short="gdebug", default=False, since="0.5.11"),
    Flag(name="enable-torch-compile", kind="switch", group="compile", short="compile", default=False),
    Flag(name="torch-compile-max-bs", kind="int", group="compile", short="cbs", default=32),
)

OPTIONS: tuple[Option, ...] = (
    Option(
        name="cuda-graph-tc-compiler", kind="enum", means="cuda-graph-tc-compiler", since="0.5.14", removed="0.5.22"
    ),
    Option(name="cuda-graph-max-bs-prefill", kind="int", means="cuda-graph-max-bs-prefill", since="0.5.14"),
    Option(name="cuda-graph-bs-prefill", kind="int-list", means="cuda-graph-bs-prefill", since="0.5.14"),
    Option(name="disable-cuda-graph", kind="switch", means="cuda-graph", becomes=INVERTED, deprecated="0.5.14"),
    Option(name="cuda-graph-max-bs", kind="int", means="cuda-graph-max-bs", removed="0.5.20", deprecated="0.5.14"),
    Option(name="cuda-graph-bs", kind="int-list", means="cuda-graph-bs", removed="0.5.20", deprecated="0.5.14"),
    Option(name="disable-cuda-graph-padding", kind="switch", means="cuda-graph-padding", becomes=INVERTED),
    Option(name="cuda-graph-max-bs-decode", kind="int", means="cuda-graph-max-bs", since="0.5.14"),
    Option(name="cuda-graph-bs-decode", kind="int-list", means="cuda-graph-bs", since="0.5.14"),
    Option(
        name="disable-decode-cuda-graph", kind="switch", means="decode-cuda-graph", becomes=INVERTED, since="0.5.14"
    ),
    Option(
        name="disable-prefill-cuda-graph",
        kind="switch",
        means="prefill-graph",
        becomes={True: "off", False: "auto"},
        since="0.5.14",
    ),
    Option(
        name="enable-piecewise-cuda-graph",
        kind="switch",
        means="prefill-graph",
        becomes={True: "on", False: "auto"},
        since="0.5.4",
        removed="0.5.14",
        deprecated="0.5.10",
        later=Later(since="0.5.10", means=None),
    ),
    Option(
        name="disable-piecewise-cuda-graph",
        kind="switch",
        means="prefill-graph",
        becomes={True: "off", False: "auto"},
        since="0.5.10",
        removed="0.5.20",
        deprecated="0.5.14",
    ),
    Option(
        name="enforce-piecewise-cuda-graph",
        kind="switch",
        means="prefill-graph",
        becomes={True: "on", False: "auto"},
        since="0.5.10",
        removed="0.5.20",
        deprecated="0.5.14",
        later=Later(since="0.5.14", means="cuda-graph-backend-prefill", value="tc_piecewise"),
    ),
    Option(
        name="piecewise-cuda-graph-max-tokens",
        kind="int",
        means="cuda-graph-max-bs-prefill",
        since="0.5.4",
        removed="0.5.20",
        deprecated="0.5.14",
    ),
    Option(
        name="piecewise-cuda-graph-tokens",
        kind="int-list",
        means="cuda-graph-bs-prefill",
        since="0.5.4",
        removed="0.5.20",
        deprecated="0.5.14",
    ),
    Option(
        name="piecewise-cuda-graph-compiler",
        kind="enum",
        means="cuda-graph-tc-compiler",
        since="0.5.4",
        removed="0.5.20",
        deprecated="0.5.14",
    ),
)
