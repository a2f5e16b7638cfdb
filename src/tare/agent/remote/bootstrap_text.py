"""Give the text of `tare.agent.remote.bootstrap`, a program that is not imported, and the command that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

TEXT: Final = Path(__file__).with_name("bootstrap.py").read_text()
START: Final = "exec python3 -ISc \"import os;exec(eval(os.fdopen(os.dup(0),'rb',0).readline()))\""
"""The command for a node's shell, of whatever kind: it reads the program from its input."""
MARK: Final = b"tare-node "
