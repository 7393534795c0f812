"""Settings to the words of one engine version.

Full option names only: argparse takes any unique prefix, so a short one may mean something else in the next version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.flag import Flag, FlagRefused, Form, shown
from orchestrator.core.flags.names import find, meant_by
from orchestrator.core.flags.versions import within

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")  # the ones argparse knows; -1e5 is none


def argv(flags: Mapping[str, FlagValue], version: str) -> tuple[str, ...]:
    """The words that give ``flags`` (canonical names) to SGLang ``version``, in the order of the mapping.

    A setting at which the version needs no word (``cuda-graph: on``) gives none. Raises ``FlagRefused`` with one
    sentence for each setting that this version cannot be told.
    """
    words: list[tuple[str, ...]] = []
    flags, faults = _one_dp_size(flags, version)
    for name, value in flags.items():
        flag = find(name)
        if not isinstance(flag, Flag) or flag.name != name:
            faults.append(_unknown(name))
            continue
        form = form_for(flag, version)
        if form is None:
            if value != flag.default:  # a version without the flag behaves like its default
                faults.append(missing(flag, version))
            continue
        if form.words is not None and value not in form.words:
            faults.append(f"{name} {value}: SGLang {version} cannot be told so, accepted: {_said_by(form)}")
            continue
        written = _write(flag, form, value)
        if written and written not in words:
            words.append(written)
    if faults:
        raise FlagRefused(faults, remedy="leave the flag out, or choose another engine version")
    return tuple(word for written in words for word in written)


def form_for(flag: Flag, version: str) -> Form | None:
    """How ``version`` spells ``flag``; None when it has no such setting."""
    forms = flag.forms or (Form(since=flag.since, until=flag.removed, option=flag.name),)
    for form in forms:
        if within(version, flag.since, flag.removed) and within(version, form.since, form.until):
            return form
    return None


def choices_in(flag: Flag, version: str) -> tuple[str, ...]:
    """What ``flag`` may be in ``version``; empty when anything goes."""
    since, gone = flag.choices_since, flag.choices_gone
    return tuple(
        choice for choice in (*flag.choices, *gone) if within(version, since.get(choice, flag.since), gone.get(choice))
    )


def missing(flag: Flag, version: str) -> str:
    """Why ``version`` cannot be told ``flag``, with the versions that can and what to say instead."""
    text = f"{flag.name}: SGLang {version} has no such flag"
    if not within(version, flag.since, None):
        return f"{text}, it is there from {flag.since}"
    text += f", it was removed in {flag.removed}"
    return f"{text}; use {flag.replacement}" if flag.replacement else text


def _said_by(form: Form) -> str:
    return ", ".join(str(value) for value in form.words or ())


def _unknown(name: str) -> str:
    meant = meant_by(name)
    return f'unknown flag "{name}"' + (f", {meant}" if meant else "")


def _one_dp_size(flags: Mapping[str, FlagValue], version: str) -> tuple[Mapping[str, FlagValue], list[str]]:
    """Before 0.5.22 one option counted either replicas or attention groups: the one that is 1 stays unsaid."""
    replicas, groups = flags.get("dp-size"), flags.get("attn-dp-size")
    if within(version, "0.5.22", None) or replicas is None or groups is None:
        return flags, []
    unsaid = "dp-size" if replicas == 1 else "attn-dp-size"
    fault = (
        f"dp-size {shown(replicas)} with attn-dp-size {shown(groups)}: "
        f"SGLang {version} has one flag for both, use one of them"
    )
    return {name: value for name, value in flags.items() if name != unsaid}, [] if 1 in (replicas, groups) else [fault]


def _write(flag: Flag, form: Form, value: FlagValue) -> tuple[str, ...]:
    if form.words is not None:
        return form.words[value]
    option = f"--{form.option}"
    match value:
        case False if flag.paired:
            return (f"--no-{form.option}",)
        case bool():
            return (option,) if value == form.when else ()
        case tuple():
            return (option, *(str(item) for item in value), *form.also)
        case _:
            text = repr(value) if isinstance(value, float) else str(value)
            value_words = (f"{option}={text}",) if is_dashed(text) else (option, text)
            return (*value_words, *form.also)


def is_dashed(word: str) -> bool:
    """Whether argparse takes ``word`` for an option where a value could stand: a dash, and not a plain number."""
    return word.startswith("-") and word != "-" and not _NEGATIVE_NUMBER.fullmatch(word)
