"""What the API reference says of agents and their settings, besides what their code says."""

import dataclasses
import importlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import griffe

from jaxagents.agents.agent import Agent
from jaxagents.core.config import StaticConfig
from jaxagents.core.hyperparameters import Hyperparameters

AGENT = f"{Agent.__module__}.{Agent.__name__}"
LIFECYCLE = (
    "train",
    "eval",
    "restore",
    "resume",
    "sweep",
    "select",
    "summarize",
    "render_episode",
    "export_policy",
    "replay",
)
"""Methods of every agent that its users call."""
SHARED = "jaxagents.agents.config"
"""The module of the configurations that agents share, which show the fields of their own alone."""
FAIL = ("depreceated", "utils")
"""Modules that fail when they are imported."""

Meanings = dict[str, dict[str, str]]
"""The meanings of fields by their names, for the paths of classes."""


class Reference(griffe.Extension):
    """Gives settings as tables, and agents the types and methods that they inherit."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Changes a package once all of it is read."""
        quote_shapes(pkg)
        classes = [(read, kind_of(read)) for read in classes_in(pkg)]
        meanings = {read.path: meanings_in(read) for read, _ in classes}
        for read, kind in classes:
            if issubclass(kind, StaticConfig | Hyperparameters):
                show_fields(read, kind, meanings)
            elif issubclass(kind, Agent) and kind is not Agent:
                show_constructor(read)
                if read.name.endswith("Base"):
                    show_hooks(read, kind)
                else:
                    show_lifecycle(read)


def quote_shapes(read: griffe.Module | griffe.Class) -> None:
    """Restores the quotes of shapes such as `"time *batch"`, which griffe reads as code."""
    for member in read.members.values():
        if member.is_alias:
            continue
        if member.is_module or member.is_class:
            quote_shapes(member)
        elif member.is_function:
            quote_shape(member.returns)
            for parameter in member.parameters:
                quote_shape(parameter.annotation)
        elif member.is_attribute:
            quote_shape(member.annotation)


def quote_shape(annotation: griffe.Expr | str | None) -> None:
    """Restores the quotes of the shapes in one annotation."""
    if not isinstance(annotation, griffe.Expr):
        return
    if (
        isinstance(annotation, griffe.ExprSubscript)
        and isinstance(annotation.slice, griffe.ExprTuple)
        and annotation.canonical_path.startswith("jaxtyping.")
    ):
        parts = annotation.slice.elements
        shape = str(parts[-1]).strip("'\"").replace(" * ", " *")
        parts[-1] = repr(shape)
    for part in annotation.iterate(flat=False):
        if part is not annotation:  # a name's only part is itself
            quote_shape(part)


def classes_in(module: griffe.Module) -> Iterator[griffe.Class]:
    """The public classes of a package with docstrings."""
    for member in list(module.members.values()):
        if member.is_alias or member.name in FAIL:
            continue
        if member.is_module:
            yield from classes_in(member)
        elif (
            member.is_class
            and member.docstring
            and not member.name.startswith("_")
        ):
            yield member


def kind_of(read: griffe.Class) -> type:
    """The class itself."""
    return getattr(importlib.import_module(read.module.path), read.name)


def meanings_in(read: griffe.Class) -> dict[str, str]:
    """The meanings of the fields that a docstring lists."""
    sections = [
        part
        for part in read.docstring.parsed
        if part.kind.value == "attributes"
    ]
    return {
        item.name: " ".join(item.description.split())
        for part in sections
        for item in part.value
    }


def show_fields(read: griffe.Class, kind: type, meanings: Meanings) -> None:
    """Puts a table of all fields, those of bases too, in the place of a class's own."""
    texts = [
        part
        for part in read.docstring.parsed
        if part.kind.value != "attributes"
    ]
    fields = [field for field in dataclasses.fields(kind) if field.init]
    if kind.__module__ == SHARED:
        own = vars(kind)["__annotations__"]
        fields = [field for field in fields if field.name in own]
    known = {}
    for base in reversed([read, *read.mro()]):
        known.update(meanings.get(base.path, {}))
    rows = [
        {
            "Name": f"`{field.name}`",
            "Default": default_of(field),
            "In": interval_of(field),
            "Meaning": known.get(field.name, ""),
        }
        for field in fields
    ]
    if rows:
        texts.append(griffe.DocstringSectionText(table(rows)))
    read.docstring.parsed[:] = texts
    set_constructor(read, [parameter_of(field, read) for field in fields])


def parameter_of(
    field: dataclasses.Field, read: griffe.Class
) -> griffe.Parameter:
    """The parameter of a constructor that sets a field, with its plain default."""
    default = default_of(field).strip("`").replace("∞", "inf")
    declared = next(
        base.members[field.name]
        for base in [read, *read.mro()]
        if field.name in base.members
        and "instance-attribute" in base.members[field.name].labels
    )  # and not as a ClassVar
    return griffe.Parameter(
        field.name,
        annotation=declared.annotation,
        kind=griffe.ParameterKind.keyword_only,
        default=None if default == "required" else default,
    )


def interval_of(field: dataclasses.Field) -> str:
    """The interval that a field must lie in, on one line."""
    text = str(field.metadata.get("interval", ""))
    return text.replace("inf", "∞").replace(" ", "\N{NO-BREAK SPACE}")


def default_of(field: dataclasses.Field) -> str:
    """The default of a field, as one would write it."""
    value = field.default
    if value is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return "required"
        return f"`{field.default_factory.__name__}()`"
    if isinstance(value, float) and math.isinf(value):
        return "∞"
    if isinstance(value, Hyperparameters):
        return f"`{type(value).__name__}()`"
    if callable(value):
        return f"`{value.__module__.partition('.')[0]}.{value.__name__}`"
    return f"`{value!r}`"


def table(rows: list[dict[str, str]]) -> str:
    """A table in Markdown, of the columns in which there is anything."""
    titles = [title for title in rows[0] if any(row[title] for row in rows)]
    lines = [
        titles,
        ["---"] * len(titles),
        *([row[title] for title in titles] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show_constructor(read: griffe.Class) -> None:
    """Gives a class the constructor that it inherits, with its own type of configuration."""
    inherited = read.all_members.get("__init__")
    if "__init__" in read.members or inherited is None:
        return
    config = read.all_members["_config_type"].value
    parameters = [
        griffe.Parameter(
            given.name,
            annotation=config if given.name == "config" else given.annotation,
            kind=given.kind,
            default=given.default,
        )
        for given in inherited.parameters
    ]
    set_constructor(read, parameters)


def set_constructor(
    read: griffe.Class, parameters: Sequence[griffe.Parameter]
) -> None:
    """Gives a class a constructor, whose source is that of the class."""
    own = griffe.Function(
        "__init__",
        parameters=griffe.Parameters(*parameters),
        parent=read,
        lineno=read.lineno,
        endlineno=read.endlineno,
    )
    read.set_member("__init__", own)


def show_lifecycle(read: griffe.Class) -> None:
    """Lists what users call, where it is described."""
    agent = read.modules_collection[AGENT]
    rows = []
    for name in LIFECYCLE:
        summary = agent.all_members[name].docstring.value.partition("\n")[0]
        rows.append(
            {"Method": f"[`{name}`][{AGENT}.{name}]", "Description": summary}
        )
    text = (
        f"Inherits its arguments and these methods from [`Agent`][{AGENT}]:\n\n"
    )
    text += table(rows)
    read.docstring.parsed.append(griffe.DocstringSectionText(text))


def show_hooks(read: griffe.Class, kind: type[Agent]) -> None:
    """Lists the hooks that subclasses override, where they are described."""
    rows = []
    for name in dict.fromkeys((*kind._hooks, "policy")):
        hook = read.all_members[name]
        if hook.docstring:
            summary = hook.docstring.value.partition("\n")[0]
            rows.append(
                {
                    "Hook": f"[`{name}`][{hook.canonical_path}]",
                    "Description": summary,
                }
            )
    read.docstring.parsed.append(
        griffe.DocstringSectionText(f"Hooks:\n\n{table(rows)}")
    )
