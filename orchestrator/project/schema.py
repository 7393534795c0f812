"""JSON Schemas (2020-12) of the two files, for editors: from the shapes that read them and the catalogue of flags.

They accept what the readers accept in its usual spelling, and find what an editor can find while one types:
unknown keys and flags, wrong kinds of values, what is missing. What needs two files, or arithmetic, `tune plan` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from orchestrator.core.load.prompts import PROMPTS
from orchestrator.project import flag_forms, prompts, shapes, words
from orchestrator.project.meanings import MEANINGS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILES: Mapping[str, type[shapes.Shape]] = {"inventory": shapes.InventoryFile, "sweep": shapes.SweepFile}

_PLAIN: Mapping[Callable[[Any], Any], Mapping[str, Any]] = {
    words.text: words.TEXT,
    words.environment_text: words.TEXT,
    words.one_host: words.TEXT,
    words.switch: words.SWITCH,
}


def schema(file: str) -> dict[str, Any]:
    """The schema of ``inventory`` or ``sweep``, as plain JSON values."""
    shape = FILES[file]
    made = shape.model_json_schema(by_alias=True, schema_generator=_FromReaders)
    definitions = made.setdefault("$defs", {})
    found = {each.__name__: each for each in MEANINGS}
    for name, node in [(shape.__name__, made), *definitions.items()]:
        if name in found:
            _complete(node, found[name])
    if file == "inventory":
        _inventory(definitions)
    else:
        _sweep(made, definitions)
    title = {"inventory": "inventory.yaml of tune", "sweep": "a sweep file of tune"}[file]
    return {"$schema": DIALECT, **made, "title": title}


class _FromReaders(GenerateJsonSchema):
    """pydantic sees only what a reader returns; what it takes is said by the reader itself."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        read: Any = schema["function"]["function"]
        if isinstance(read, words.Reader):
            return dict(read.form)
        if read in _PLAIN:
            return dict(_PLAIN[read])
        inner = super().function_before_schema(schema)
        return {"anyOf": [inner["items"], inner]} if read is words.one_or_many else inner

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])  # None stands for a key that is not there

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        if not isinstance(default, str | int | float):
            return inner
        is_duration = inner.get("pattern") == words.DURATION["pattern"]
        return {**inner, "default": _duration(float(default)) if is_duration else default}


def _duration(seconds: float) -> str:
    """As one would write it: 60m, 90s, 100ms."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds / 60:g}m" if seconds % 60 == 0 else f"{seconds:g}s"


def _complete(node: dict[str, Any], shape: type[shapes.Shape]) -> None:
    """What must be there, and what each key means."""
    if shape.needed:
        node["required"] = list(shape.needed)
    for key, form in node["properties"].items():
        form.pop("title", None)
        if key in MEANINGS[shape]:
            form["description"] = MEANINGS[shape][key]
    node.pop("description", None)  # the class's own words are about the class


def _inventory(definitions: dict[str, Any]) -> None:
    host, service, secret = definitions["Host"], definitions["Service"], definitions["Secret"]
    host["type"] = ["object", "null"]  # `name:` alone is a host with all defaults
    definitions["Flags"] = flag_forms.flags(of_service=True)
    about = service["properties"]["flags"]["description"]
    service["properties"]["flags"] = {"type": "object", "description": about}
    service["if"] = {"properties": {"kind": {"const": "vllm"}}, "required": ["kind"]}
    service["else"] = {"properties": {"flags": {"$ref": "#/$defs/Flags"}}}
    _environment(service)
    service["properties"]["engines"]["minProperties"] = 1
    secret["oneOf"] = [{"required": [place]} for place in ("file", "env", "host-file")]
    secret["dependentRequired"] = {"host-file": ["variable"], "variable": ["host-file"]}


def _sweep(made: dict[str, Any], definitions: dict[str, Any]) -> None:
    keys = made["properties"]
    definitions["Flags"] = flag_forms.flags(of_service=False)
    definitions["Point"] = flag_forms.point()
    keys["flags"] = {"$ref": "#/$defs/Flags", "description": keys["flags"]["description"]}
    keys["grid"] = {**flag_forms.grid(), "description": keys["grid"]["description"]}
    _environment(made)
    lengths = definitions["Lengths"]
    lengths["oneOf"] = [{"required": [kind]} for kind in ("around", "fixed", "explicit", "listed", "natural")]
    load = definitions["Load"]["properties"]
    number = {**lengths["properties"]["around"], "description": load["output-tokens"]["description"]}
    load["output-tokens"] = {"anyOf": [number, {"$ref": "#/$defs/Lengths"}]}
    prompt = {"anyOf": [{"enum": list(PROMPTS)}, {"type": "string", "pattern": r"\.jsonl$"}, *_sources()]}
    load["prompts"] |= {"anyOf": [prompt, {"type": "array", "items": prompt, "minItems": 1}]}
    definitions["Budget"]["maxProperties"] = 1


def _sources() -> list[dict[str, Any]]:
    """Prompts that are written as a mapping."""
    first = {**prompts.FIRST.form, "description": "How many of the file are taken, from its beginning."}
    path = {"type": "string", "minLength": 1}
    forms = [
        {"file": {**path, "description": 'One {"prompt": "…"} or {"messages": […]} a line.'}, "first": first},
        {"sharegpt": {**path, "description": "Conversations, as ShareGPT has them."}, "first": first},
        {"random-tokens": {**prompts.RANDOM_TOKENS.form, "description": "Prompts of exactly so many token ids."}},
    ]
    return [
        {"type": "object", "properties": form, "required": [next(iter(form))], "additionalProperties": False}
        for form in forms
    ]


def _environment(holder: dict[str, Any]) -> None:
    form = holder["properties"]["environment"]
    form["properties"] = dict(flag_forms.tunables())
    form["propertyNames"] = {"pattern": f"^{words.ENVIRONMENT_NAME.pattern}$"}
