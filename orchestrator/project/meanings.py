"""What each key of the two files means, in a sentence or two: shown by editors beside the key."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.project import shapes

MEANINGS: Mapping[type[shapes.Shape], Mapping[str, str]] = {
    shapes.InventoryFile: {
        "hosts": "Machines, by the name that `ssh NAME` understands.",
        "services": "Engines that serve on them. `tune adopt HOST UNIT` writes an entry from a running unit.",
    },
    shapes.Host: {
        "connection": "ssh, or local for this machine.",
        "manager": "systemd, or process: engines are child processes of tune, on this machine only.",
        "ssh-config": "A file for `ssh -F`; your own by default.",
        "gpus": "What plans made offline need to know; everything else is asked and recorded.",
    },
    shapes.Gpus: {
        "count": "How many GPUs engines on this host can use.",
        "memory": "Of one card, such as 95.6GiB: for estimates of what fits.",
    },
    shapes.Service: {
        "host": "A name under hosts.",
        "kind": "sglang; vllm is recorded, not swept so far.",
        "unit": "The production unit. Trials run as NAME-trial.service, in /run only.",
        "template": "In the project's templates/, else the one that comes with tune.",
        "user": "The account that production runs as; trials run as it too.",
        "working-directory": "Where the engine is started.",
        "engines": "Installed SGLang environments: version, in quotes, to folder on the host.",
        "engine": "The version that plans assume; checked on the host before anything stops.",
        "model": "What plans made offline need to know of the model.",
        "port": "Where the engine listens.",
        "address": "Where clients reach the engine; the host's own address by default.",
        "reach": "direct, or ssh-forward for an engine that listens on loopback.",
        "flags": "What production runs now, in SGLang's own names. cuda-graph: on/off is tune's name for that switch.",
        "extra-args": "Words of the command line that the catalogue does not know; trials get them too.",
        "environment": "Environment variables of the engine.",
        "secrets": "Where secret values are found, by variable name; never the values.",
        "startup": "How long a start may take.",
        "lease": "Without a sign of life for this long, the host puts production back by itself.",
        "kept": "Other directives of an adopted unit; those that say what an engine may use count for trials.",
    },
    shapes.ModelFile: {"config": "The model's config.json, relative to the project folder."},
    shapes.Secret: {
        "file": "A file on this machine that holds the value alone.",
        "env": "A variable of tune's own environment that holds the value.",
        "host-file": "An environment file on the host; `variable` names the line.",
        "variable": "The variable in host-file.",
        "flag": "api-key, admin-api-key or ssl-keyfile-password: the engine is told it through its --config file.",
    },
    shapes.Startup: {
        "timeout": "In all.",
        "no-progress": "Without any sign of progress: journal, CPU, IO, GPU memory.",
        "healthy-for": "How long a deployed version has to stay up, once ready, before it counts as good.",
    },
    shapes.SweepFile: {
        "service": "An entry of inventory.yaml.",
        "grid": "Axes: a flag or environment tunable with a list of values, or a group of them that vary together.",
        "where": "Which combinations are meant. Hyphens become underscores; gpus is the host's count.",
        "flags": "Fixed in every config, over the service's own flags.",
        "environment": "The same for environment variables.",
        "workload": "What is sent to the engine.",
        "repeats": "How often is measured.",
        "objective": "Which config is best.",
        "budget": "Production serves again within it: until a time of day, or hours.",
        "reference": "production: measured as it runs now, and again when it is back; or none.",
        "sanity": "Whole answers at C=16 (or so many), once per launch: broken ones bar a config from winning; or off.",
        "order": "Of the configs: shuffled by seed, or as-listed.",
        "seed": "Of the order.",
    },
    shapes.Load: {
        "name": "Part of the levels' names when it is not default.",
        "prompts": "Names of prompts that come with tune, files of prompts, or so many random token ids.",
        "output-tokens": "A number (around it, the same for every config), or fixed, explicit, listed, natural.",
        "concurrency": "The levels: this many requests at once, measured in ascending order.",
        "requests-per-stream": "A level at C sends this x C requests.",
        "rate": "An open loop instead: the levels, in requests a second, sent when due whatever the engine does.",
        "requests": "With rate: how many a level sends.",
        "duration": "With rate: for how long a level sends. With concurrency: no new request after it.",
        "arrival": "staggered, burst: the first C all at once; with rate: constant, poisson. A list measures each.",
        "stagger": "Between the first C sends.",
        "say-ok": '"Say OK" calls before the first level of a launch.',
        "temperature": "Of sampling.",
        "request-timeout": "An answer that takes longer has failed.",
        "gap-timeout": "An answer that stands still for as long has failed.",
        "max-failed": "How many requests of a level may fail before it has no figures.",
        "seed": "Of lengths and their order.",
    },
    shapes.Lengths: {
        "around": "Unequal lengths, half to one and a half times this.",
        "fixed": "Every answer as long.",
        "explicit": "These lengths in turn, from the first again at the end.",
        "listed": "One length a request, for each level.",
        "natural": "The model stops by itself, at most here.",
        "assumed": "The lists are not a measurement.",
    },
    shapes.Repeats: {
        "per-level": "Measurements of a level inside a launch.",
        "launches": "Fresh starts of each config.",
        "confirm": "Fresh launches of those that may be best, until it is decided (auto), so many of each, or none.",
    },
    shapes.Objective: {
        "maximize": "steady_tok_s, or whole_tok_s: all output tokens / first send to last finish.",
        "at": "The load point that configs are compared at; the highest level by default.",
        "slo": "Limits such as ttft_p95: 5s, judged on what was measured.",
    },
    shapes.At: {
        "concurrency": "One of the workload's levels.",
        "rate": "One of the workload's rates.",
        "arrival": "One of the workload's arrivals, where it has several.",
    },
    shapes.Budget: {
        "until": 'A time of day such as "07:00".',
        "hours": "Hours in all.",
    },
}
