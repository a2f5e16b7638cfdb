"""The options of `tare check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What `tare check` is asked for: `command` is a whole launch line; `show` prints the line with the probe."""

    command: Annotated[
        list[str], typer.Argument(help="The line that starts the job, after --.", show_default=False, metavar="LINE...")
    ]
    time_limit: Annotated[float, typer.Option(min=3, help="Seconds after which the check is ended.")] = 60.0
    folder: Annotated[
        str, typer.Option(help="A folder that every node sees, for the probe.", show_default="in your cache")
    ] = ""
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
    show: Annotated[bool, typer.Option("--print", help="Print the line with the probe in it, and end.")] = False
