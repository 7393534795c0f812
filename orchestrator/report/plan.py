"""The plan as text: the grid, what is refused and why, what collapses, and how long it takes against the budget."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from orchestrator.core.clean import clean_lines
from orchestrator.core.flags import Flag, about, find
from orchestrator.core.judge.confirm import Rules
from orchestrator.core.plan.plan import Group, Plan, PlannedTrial
from orchestrator.report.text import count, folded, pad, value_text

ROWS = 60  # configs shown; --json has all
LINES = 8  # aliases shown
SCARCE = 0.75  # of the roomiest config's KV cache
_NOISE = {"size", "static", "enable", "disable", "max", "sglang"}
_WIDE = 9  # columns; of a longer heading the last word is kept
_HANG = 16


def plan_text(plan: Plan, width: int = 80, *, following: str | None = None) -> str:
    """What ``tune plan`` prints: ``width`` columns (80 or more), no colour.

    The last line says that nothing has been touched, and ``following``: what comes next (``tune sweep …`` by default,
    nothing when empty).
    """
    if following is None:
        following = f"Next: tune sweep {plan.path}"
    gpus = f" · {count(plan.gpus, 'GPU')}" if plan.gpus is not None else ""
    parts = [
        [f"{plan.sweep} on {plan.host} · {_engines(plan)} (assumed){gpus}"],
        _table(plan, width),
        _said_of_configs(plan, width),
        [*_sums(plan, width), *_closing(plan, width, following)],
    ]
    return "\n".join(clean_lines("\n\n".join("\n".join(part) for part in parts if part)))


def _engines(plan: Plan) -> str:
    """``engine 0.5.23``; ``engines 0.5.20, 0.5.23``; production's beside it where the configs have others."""
    named = f"engine{'s' if len(plan.engines) > 1 else ''} {', '.join(plan.engines)}"
    return named if plan.engine in plan.engines else f"{named}, production {plan.engine}"


def _table(plan: Plan, width: int) -> list[str]:
    """One row a config, in the order of the run. Columns that do not fit are left out: the slug says them too."""
    trials = [trial for trial in plan.trials if trial.alias_of is None]
    if not trials:
        return []
    shown = trials[:ROWS]
    head = ["#", "config", *_headings(plan.columns)]
    rows = [
        [str(trial.order), trial.slug, *(value_text(trial.settings[name]) for name in plan.columns)] for trial in shown
    ]
    most = max((trial.kv_tokens or 0 for trial in trials), default=0)
    notes = [_note(trial, most) for trial in shown]
    sizes = [max(cell_len(row[i]) for row in [head, *rows]) + 2 for i in range(len(head))]
    fitting = len(head)
    while fitting > 2 and 2 + sum(sizes[:fitting]) + max(map(cell_len, notes)) > width:
        fitting -= 1
    title = "note" if any(notes) else ""
    lines = [
        "  " + "".join(pad(text, size) for text, size in zip(row[:fitting], sizes, strict=False)) + note
        for row, note in zip([head, *rows], [title, *notes], strict=True)
    ]
    if len(trials) > ROWS:
        lines.append(f"  … and {len(trials) - ROWS:,} more: tune plan {plan.path} --json has all")
    return [line.rstrip() for line in lines]


def _headings(columns: Sequence[str]) -> list[str]:
    """Short headings: pp-size as pp, pp-async-batch-depth as depth; longer ones where two would be the same."""
    plain = ["-".join(word for word in _words(name) if word not in _NOISE) or name for name in columns]
    short = [text if len(text) <= _WIDE else text.rsplit("-", 1)[-1] for text in plain]
    return [one if short.count(one) == 1 else longer for one, longer in zip(short, plain, strict=True)]


def _words(name: str) -> list[str]:
    return name.lower().replace("_", "-").split("-")


def _note(trial: PlannedTrial, most_kv: int) -> str:
    """What a person should see of one row; KV only where it is much scarcer than in the best of the plan."""
    notes = ["= what production runs now"] if trial.is_production else []
    if trial.kv_tokens and trial.kv_tokens < SCARCE * most_kv:
        notes.append(f"KV for about {about(trial.kv_tokens)} tokens")
    return ", ".join([*notes, "no time for it"] if trial.left_out else notes)


def _said_of_configs(plan: Plan, width: int) -> list[str]:
    """What was refused, what collapses and what a person should know: a label, a number of configs, a sentence."""
    refused = [(removed.count, removed.where, "" if removed.count else "rules nothing out") for removed in plan.removed]
    refused += [_refusal(group) for group in plan.refused]
    same = [(1, f"{trial.slug} resolves to {trial.alias_of}", "") for trial in plan.aliases]
    same += [(1, f"{slug} is {original}", "") for slug, original in plan.merged.items()]
    lines = [*_block("refused", refused, width), *_block("aliases", same[:LINES], width)]
    if len(same) > LINES:
        lines.append(" " * _HANG + f"… and {len(same) - LINES:,} more: tune plan {plan.path} --json has all")
    notes = [(len(group.slugs), group.text, "") for group in plan.notes]
    return [*lines, *_block("notes", notes, width)]


def _refusal(group: Group) -> tuple[int, str, str]:
    example = "" if group.example == group.text else f"; {group.slugs[0]}: {group.example}"
    return len(group.slugs), group.text + example, f"rule {group.rule}"


def _block(label: str, rows: Sequence[tuple[int, str, str]], width: int) -> list[str]:
    lines: list[str] = []
    for number, text, mark in rows:
        start = f"{label if not lines else '':<8}{number:>4}"
        lines += folded(start, f"{text} ({mark})" if mark else text, width, hang=_HANG)
    return lines


def _sums(plan: Plan, width: int) -> list[str]:
    configs = sum(trial.alias_of is None for trial in plan.trials)
    if not configs:
        return []
    levels = count(plan.levels, "level")
    if plan.reference_levels:
        levels += f" ({plan.reference_levels} of production)"
    launches = "1 launch" if plan.launches == 1 else f"{plan.launches:,} launches"
    sums = f"{count(configs, 'config')} · {launches} (1 of production) · {levels}"
    order = f"order: shuffled, seed {plan.seed}" if plan.shuffled else "order: as listed"
    estimate = plan.estimate
    starts = f"{plan.launches:,} x {_span(estimate.usual_start_s)} to start"
    if estimate.is_recorded:
        starts = f"{_span(estimate.start_s)} for {launches}"
    live = [name for name in plan.columns if isinstance(flag := find(name), Flag) and flag.live]
    set_live = [f"{', '.join(live)}: set in the running engine, no start of its own"] if live else []
    about_it = f"about {_span(estimate.total_s)}: {starts}, {_span(estimate.measure_s)} measuring"
    if estimate.sanity_s:
        about_it += f", {_span(estimate.sanity_s)} of it for whole answers"
    assumed = f"assumed: {estimate.stream_tok_s:g} tok/s a stream"
    assumed += ", starts as recorded" if estimate.is_recorded else ", a start takes a quarter of startup.timeout"
    if plan.lengths_assumed:
        assumed += ", and the lengths of answers"
    said = [sums, *set_live, order, *_memory(plan), about_it, *_confirming(plan), assumed]
    return [line for sentence in said for line in _paragraph(sentence, width)]


def _confirming(plan: Plan) -> list[str]:
    """What comes after the grid; how many launches that takes depends on what is measured."""
    asked = plan.repeats.confirm
    if asked is None:
        return []
    beside = " and of production" if plan.reference == "production" else ""
    often = f"at most {Rules().looks[-1]} of each, while the budget lasts" if asked == "auto" else f"{asked} of each"
    each = _span(plan.estimate.fresh_s)
    return [f"then fresh launches of those that may be best{beside}, about {each} each: {often}"]


def _memory(plan: Plan) -> list[str]:
    """How much KV there is and what the largest level may need; nothing where nothing is known."""
    known = [trial.kv_tokens for trial in plan.trials if trial.kv_tokens]
    if not known or not plan.kv_needed:
        return []
    least, most = about(min(known)), about(max(known))
    room = f"about {least}" if least == most else f"about {least} to {most}"
    level = max(plan.kv_needed)
    return [f"KV for {room} tokens; C={level} needs up to {about(plan.kv_needed[level])}"]


def _closing(plan: Plan, width: int, following: str) -> list[str]:
    lines: list[str] = []
    budget = plan.budget
    if budget is not None and budget.fits:
        lines += _paragraph(f"budget {budget.text}: fits", width)
    elif budget is not None:
        text = f"budget {budget.text}: too short by {_span(budget.over_s)}; left out would be {_left_out(plan)}"
        lines += _paragraph(text, width)
    lines += [line for sentence in plan.blocked for line in _paragraph(f"cannot run: {sentence}", width)]
    if plan.blocked or not plan.launchable:
        return [*lines, "  nothing has been touched" if plan.blocked else "  nothing to run; nothing has been touched"]
    return [*lines, f"  nothing has been touched{following and '. '}{following}"]


def _left_out(plan: Plan) -> str:
    """``rounds 2 to 3 of launches, pp8.d8 and 3 more``."""
    parts = []
    if plan.rounds < len(plan.blocks):
        first, last = plan.rounds + 1, len(plan.blocks)
        parts.append(f"round {last} of launches" if first == last else f"rounds {first} to {last} of launches")
    parts += [trial.slug for trial in plan.left_out[:LINES]]
    more = len(plan.left_out) - LINES
    return ", ".join(parts) + (f" and {more:,} more" if more > 0 else "")


def _paragraph(text: str, width: int) -> list[str]:
    first, *rest = text.split(" ", 1)
    return folded(first, " ".join(rest), width, hang=3 + cell_len(first))


def _span(seconds: float) -> str:
    """A length of time as a plan needs it: ``45 s``, ``15 min``, ``6 h 10 min``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
