"""One pass of pydantic over a document that tells every fault and gives back whatever is sound.

A value with a fault is taken out and the rest validated again, so that a misspelt key in one place does not hide
a wrong number in another, and the later checks still see everything that could be read.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.core.nearest import nearest
from orchestrator.project.document import Document, Node, Place, Scalar, dotted
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.shapes import Shape
from orchestrator.project.words import NOT_YET, Misread, shown

Model = TypeVar("Model", bound=Shape)


def validate(shape: type[Model], document: Document, faults: Faults) -> Model:
    """The document as ``shape``, without the parts that have faults; every fault is added."""
    data = _copy(document.root)
    told: list[Place] = []
    while True:
        try:
            return shape.model_validate(data)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                loc = tuple(detail["loc"])
                if any(loc[: len(place)] == place for place in told):
                    continue
                if detail["type"] == "extra_forbidden":
                    _add_unknown_key(shape, document, loc, faults)
                else:
                    faults.add(_fault(shape, document, loc, detail))
            told.extend(_take_out(data, tuple(detail["loc"])) for detail in error.errors(include_url=False))


def _copy(node: Any) -> Any:
    """Containers copied, scalars shared."""
    if isinstance(node, dict):
        return {key: _copy(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_copy(item) for item in node]
    return node


def _take_out(data: dict[str, Any], loc: Place) -> Place:
    """Remove the innermost key on the way to a fault; returns the place that is gone."""
    holder, place = data, loc[:1]
    node: Any = data
    for depth, step in enumerate(loc):
        if isinstance(node, dict) and step in node:
            holder, place = node, loc[: depth + 1]
            node = node[step]
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            node = node[step]
        else:
            break
    if place[-1] in holder:
        del holder[place[-1]]
    return place


def _fault(shape: type[Shape], document: Document, loc: Place, detail: Any) -> Fault:
    line = document.line(loc)
    node = document.node(loc)
    place = loc
    while node is None and place:  # a validator's own steps are not in the file
        place = place[:-1]
        node = document.node(place)
    error = detail.get("ctx", {}).get("error")
    if isinstance(error, Misread):
        text = error.problem or f"read {shown(node)}; accepted: {error.accepted}"
        return Fault(document.name, line, dotted(place), text, hint=error.hint)
    accepted = {"list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping"}.get(detail["type"])
    read, hint = shown(node), _instead(str(loc[-1]), node)
    if detail["type"] == "model_type":
        holder = _shape_at(shape, loc)
        meant = holder.meant(str(node)) if isinstance(node, Scalar) and node.value is not None else None
        hint = f"did you mean {loc[-1]}: {meant}?" if meant else hint
        read = "a value, which is not shown here" if holder.is_secret else read
    return Fault(document.name, line, dotted(place), f"read {read}; accepted: {accepted or detail['msg']}", hint=hint)


# What mappings of names to values, and the one list, look like: they are no shapes that could say it themselves.
_LOOKS = {
    "engines": 'write a version and its folder: engines: {"0.5.23": /opt/sglang-0.5.23}',
    "environment": "write NAME: value, each on a line of its own",
    "flags": "write NAME: value, each on a line of its own",
    "grid": "write NAME: [value, value], each on a line of its own",
    "slo": "write a figure and its limit: slo: {ttft_p95: 5s}",
    "output-tokens": "a number, or one of {around: N}, {fixed: N}, {explicit: [N, …]}, {natural: N}, "
    "{listed: {C: [N, …]}}",
    "where": 'write expressions: where: ["pp_size * tp_size == gpus"]',
}


def _instead(key: str, node: Node | None) -> str | None:
    return None if isinstance(node, Scalar) and node.value is None else _LOOKS.get(key)


def _add_unknown_key(shape: type[Shape], document: Document, loc: Place, faults: Faults) -> None:
    key, line, path = str(loc[-1]), document.line(loc), dotted(loc[:-1])
    holder = _shape_at(shape, loc[:-1])
    if key in holder.not_yet:
        faults.add(Fault(document.name, line, path, f'"{key}" is {NOT_YET}'))
        return
    keys = [field.alias or name for name, field in holder.model_fields.items()]
    meant = nearest(key, keys)
    hint = holder.hints.get(key) or did_you_mean(meant) or f"accepted: {', '.join(keys)}"
    faults.add_unknown_key(Fault(document.name, line, path, f'unknown key "{key}"', hint=hint), meant)


def _shape_at(shape: type[Shape], loc: Place) -> type[Shape]:
    """The model that a mapping at ``loc`` is read as: follows fields, dict values and list items."""
    annotation: Any = shape
    for step in loc:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
            annotation = _without_none(fields[str(step)].annotation)
        else:
            annotation = annotation.__args__[-1]
    assert isinstance(annotation, type)
    assert issubclass(annotation, Shape)
    return annotation


def _without_none(annotation: Any) -> Any:
    options = [option for option in getattr(annotation, "__args__", ()) if option is not type(None)]
    is_union = type(None) in getattr(annotation, "__args__", ())
    return options[0] if is_union else annotation


def missing(document: Document, place: Place, key: str, faults: Faults, *, hint: str | None = None) -> None:
    """Add the fault that a key which must be there is not."""
    if document.node((*place, key)) is not None or faults.is_misspelt(document.name, dotted(place), key):
        return  # it was written, and is told as misread or misspelt
    faults.add(Fault(document.name, document.line(place), dotted(place), f'key "{key}" is missing', hint=hint))
