"""Define the types of values in a study: names of plug-ins, fixed choices, and quantities with units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)

from tare.model import quantities
from tare.study.messages import unknown
from tare.study.names import KNOWN, Known


def one_of(family: str, what: str) -> BeforeValidator:
    """Return a validator for the names that `Known` lists for a family of plug-ins."""

    def check(value: object, info: ValidationInfo) -> object:
        known: Known = info.context or KNOWN
        names: tuple[str, ...] = getattr(known, family)
        if value is not None and value not in names:
            raise ValueError(known.unknown(what, value, names))
        return value

    return BeforeValidator(check)


def choice(*names: str) -> Any:
    """Return a validator and a schema for a fixed choice; of an enumeration, the value is its member."""
    members = {str(name): name for name in names}

    def check(value: object) -> object:
        if value is not None and value not in names:
            raise ValueError(unknown("value", value, names))
        return value

    schema = WithJsonSchema({"enum": list(names), "type": "string"})
    return Annotated[str, BeforeValidator(check), AfterValidator(members.__getitem__), schema]


def quantity(parse: Callable[[object], float], *examples: str) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return a validator and a schema for numbers with a unit."""

    def read(value: object) -> object:
        return None if value is None else parse(value)

    return BeforeValidator(read), WithJsonSchema({"type": ["number", "string"], "examples": list(examples)})


BYTES = quantity(quantities.parse_bytes, "8", "64KiB", "1MiB")
SECONDS = quantity(quantities.parse_duration, "90s", "5min")
PERCENT = quantity(quantities.parse_fraction, "2%", "0.02")
BITS = quantity(quantities.parse_bit_rate, "10Gbit", "100Mbit")
HERTZ = quantity(quantities.parse_frequency, "10000", "10kHz")

Size = Annotated[int, *BYTES, Field(le=2**31 - 1)]
Memory = Annotated[int, *BYTES, Field(le=2**50)]
Duration = Annotated[float, *SECONDS, Field(gt=0)]
Percentage = Annotated[float, *PERCENT, Field(gt=0)]
BitRate = Annotated[int, *BITS]
Frequency = Annotated[float, *HERTZ]
Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@-]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Word = Annotated[str, StringConstraints(min_length=1)]
KubernetesName = Annotated[str, StringConstraints(pattern=r"^(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)?$")]
SbatchValue = Annotated[str, StringConstraints(pattern=r"^[^\s]*$")]

BUDGET: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": ["number", "string"], "examples": ["30min"]},
        {"type": "object", "properties": {"time": {"type": ["number", "string"]}, "node_hours": {"type": "number"}},
         "additionalProperties": False},
    ]
}  # fmt: skip
"""The schema of a budget: a duration, or a mapping."""


class Checked(BaseModel):
    """A part of a study: it has these keys and no other, and no value is converted to another type.

    A field has the name that it has in `tare.model`; where that has a unit and the key has none, the key is its alias.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def given(self) -> dict[str, Any]:
        """Return the values for a class of `tare.model`, lists as tuples; those without a value are left to it."""
        found = {name: value for name, value in self if value is not None}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
