"""``tune bench``: measure any OpenAI-compatible endpoint, deploying nothing."""

from __future__ import annotations

import click
from click.core import ParameterSource

_LOAD = {  # in place of which there is --workload
    "concurrency": "--concurrency",
    "output_tokens": "--output-tokens",
    "natural": "--natural",
    "requests_per_stream": "--requests-per-stream",
    "prompts": "--prompt",
    "burst": "--burst",
    "seed": "--seed",
}


@click.command()
@click.argument("url", metavar="URL")
@click.option("--model", metavar="NAME", help="The model to ask for; the first one the endpoint lists by default.")
@click.option("--concurrency", metavar="N,N,…", default="1,4,8,16", show_default=True, help="Load points.")
@click.option(
    "--output-tokens",
    type=click.IntRange(2, 1_000_000),
    default=256,
    show_default=True,
    help="Mean length of an answer: lengths are spread evenly from half to one and a half of it.",
)
@click.option("--natural", is_flag=True, help="Let the model end its answers; --output-tokens is then the limit.")
@click.option(
    "--requests-per-stream", type=click.IntRange(1, 10_000), default=4, show_default=True, help="Requests = this x C."
)
@click.option(
    "--prompt", "prompts", metavar="NAME", multiple=True, help="A named prompt; repeatable. Three by default."
)
@click.option("--burst", is_flag=True, help="Send the first C requests at once, not a tenth of a second apart.")
@click.option("--workload", metavar="FILE", help="What to send, as a sweep file has it; in place of these options.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the order of lengths.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the API key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON when all is measured.")
@click.pass_context
def bench(
    ctx: click.Context,
    url: str,
    model: str | None,
    concurrency: str,
    output_tokens: int,
    natural: bool,
    requests_per_stream: int,
    prompts: tuple[str, ...],
    burst: bool,
    workload: str | None,
    seed: int,
    api_key_env: str | None,
    as_json: bool,
) -> None:
    """Measure any OpenAI-compatible endpoint, deploying nothing.

    Each load point is warmed up, then measured, with prompts that no cache has seen; the endpoint's own cache is left
    alone. Tokens are those the endpoint counts.

    \b
    tune bench http://10.0.0.5:30000 --concurrency 1,8,32 --output-tokens 1024
    tune bench https://llm.example/v1 --api-key-env LLM_KEY --natural
    tune bench http://10.0.0.5:30000 --workload sweeps/open.yaml
    """
    from orchestrator.cli.benching import Request, run  # noqa: PLC0415 - start-up time of `tune --help`

    run(
        Request(
            url=url,
            model=model,
            concurrency=concurrency,
            output_tokens=output_tokens,
            natural=natural,
            requests_per_stream=requests_per_stream,
            prompts=prompts,
            burst=burst,
            workload=workload,
            given=tuple(
                said for name, said in _LOAD.items() if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
            ),
            seed=seed,
            api_key_env=api_key_env,
            as_json=as_json,
            plain=bool((ctx.obj or {}).get("plain", True)),
        )
    )
