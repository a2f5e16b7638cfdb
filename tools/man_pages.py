"""Write man pages and completion for bash, zsh and fish below a folder: what a package installs in share/.

    tools/man_pages.py share

They are made of typer's commands, which click-man and shtab cannot read. Completion is a table: no Python is started.
SOURCE_DATE_EPOCH is the date of the pages.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer.main
from errors_page import CODES

from tare import __version__
from tare.cli.app import app

COMPLETIONS: Final = {
    "bash-completion/completions/tare": "bash",
    "zsh/site-functions/_tare": "zsh",
    "fish/vendor_completions.d/tare.fish": "fish",
}
BASH: Final = """\
# Completion of tare {version} for bash, written by tools/man_pages.py.
_tare() {{
	local word words='' at=tare now=${{COMP_WORDS[COMP_CWORD]}}
	for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
		case "$at $word" in
		*" --") at= ;;
		{paths}) at="$at $word" ;;
		esac
	done
	case $at in
{table}
	esac
	[[ $now ]] || words=${{words%% -*}} # options only where one is begun
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$now")
}}
complete -o bashdefault -o default -F _tare tare
"""
ZSH: Final = """\
#compdef tare
# Completion of tare {version} for zsh, written by tools/man_pages.py.
local word at=tare
local -a commands options
for word in "${{(@)words[2,CURRENT-1]}}"; do
	case "$at $word" in
	*" --") at= ;;
	{paths}) at="$at $word" ;;
	esac
done
case $at in
{table}
esac
if [[ $PREFIX == -* ]]; then
	_describe -o option options
elif (( $#commands )); then
	_describe command commands
else
	_files
fi
"""
FISH: Final = """\
# Completion of tare {version} for fish, written by tools/man_pages.py.
function __tare_at
    set -l at tare
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case '* --'
                set at ''
            case {paths}
                set at "$at $word"
        end
    end
    test "$at" = "$argv"
end
{table}
"""


class Command:
    """A command of the tree: its words, such as ("tare", "lab", "up"), and what typer says about it."""

    def __init__(self, command: Any, words: tuple[str, ...] = ("tare",), parent: Any = None) -> None:
        self.words = words
        self.context = type(parent)(command, info_name=words[-1], parent=parent) if parent else _context(command)
        first, _, self.more = (command.help or "").partition("\n\n")
        self.help = " ".join(first.split()).rstrip(".")
        usage = command.collect_usage_pieces(self.context)
        self.usage = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), " ".join(usage))
        parameters = [each for each in command.get_params(self.context) if not getattr(each, "hidden", False)]
        self.records = [(each.get_help_record(self.context), each.opts[0].startswith("-")) for each in parameters]
        forms = [(form, each) for each in parameters for form in (*each.opts, *each.secondary_opts)]
        self.options = sorted((each for each in forms if each[0].startswith("-")), key=lambda each: each[0])
        members = getattr(command, "commands", {}).items()
        self.members = [Command(each, (*words, name), self.context) for name, each in members if not each.hidden]

    def all(self) -> Iterator[Command]:
        """Yield it, and those below it."""
        yield self
        for member in self.members:
            yield from member.all()


def _context(command: Any) -> Any:
    return command.make_context("tare", [], resilient_parsing=True)


def roff(text: str) -> str:
    """Return text for a man page: words in backticks are bold, and no line of it is a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return re.sub(r"^(?=[.'])", r"\\&", "\n".join(line.strip() for line in text.splitlines()), flags=re.MULTILINE)


def items(title: str, pairs: list[tuple[str, str]]) -> list[str]:
    """Return the lines of a section of terms and what they mean; none without terms."""
    lines = [line for term, text in pairs for line in (".TP", rf"\fB{roff(term)}\fR", roff(text) or r"\&")]
    return [f".SH {title}", *lines] if pairs else []


def man_page(command: Command, date: str) -> str:
    """Return a command's page."""
    name, top = "-".join(command.words), command.words == ("tare",)
    records = [(record, is_option) for record, is_option in command.records if record]
    codes = [(str(code), f"{who.replace('`', '')}: {what}") for code, who, what, _ in CODES] if top else []
    paragraphs = [roff(each) for each in command.more.split("\n\n") if each]
    lines = [
        f'.TH {name.upper()} 1 "{date}" "tare {__version__}" "tare"',
        *(".SH NAME", rf"{roff(name)} \- {roff(command.help)}"),
        *(".SH SYNOPSIS", rf"\fB{roff(' '.join(command.words))}\fR {roff(command.usage)}"),
        *((".SH DESCRIPTION", "\n.PP\n".join(paragraphs)) if paragraphs else ()),
        *items("ARGUMENTS", [record for record, is_option in records if not is_option]),
        *items("OPTIONS", [record for record, is_option in records if is_option]),
        *items("COMMANDS", [("-".join(each.words) + "(1)", each.help + ".") for each in command.members]),
        *items("EXIT STATUS", codes),
        *(() if top else (".SH SEE ALSO", r"\fBtare\fR(1), " + rf"\fB{roff('-'.join(command.words[:-1]))}\fR(1)")),
    ]
    return "\n".join([*lines, ""]).replace(r"\fBtare\fR(1), \fBtare\fR(1)", r"\fBtare\fR(1)")


def quoted(text: str) -> str:
    """Return a word for a shell, which takes nothing in it for its own."""
    return "'" + text.replace("'", r"'\''") + "'"


def bash(command: Command) -> str:
    """Return the line of bash's table: commands first, then options."""
    words = [*(each.words[-1] for each in command.members), *(form for form, _ in command.options)]
    return f'\t"{" ".join(command.words)}") words=" {" ".join(words)}" ;;'


def zsh(command: Command) -> str:
    """Return the line of zsh's table, with what each word means."""
    commands = " ".join(quoted(f"{each.words[-1]}:{each.help}") for each in command.members)
    options = " ".join(quoted(f"{form}:{option.help or ''}") for form, option in command.options)
    return f'"{" ".join(command.words)}") commands=({commands}) options=({options}) ;;'


def fish(command: Command) -> str:
    """Return the lines of fish's table."""
    here = f"complete -c tare -n {quoted('__tare_at ' + quoted(' '.join(command.words)))}"
    lines = [f"{here} -f -a {each.words[-1]} -d {quoted(each.help)}" for each in command.members]
    for form, option in command.options:
        kind, value = "-l" if form.startswith("--") else "-s", "" if option.is_flag else " -r"
        lines.append(f"{here} {kind} {form.lstrip('-')}{value} -d {quoted(option.help or '')}")
    return "\n".join(lines)


def completion(shell: str, commands: list[Command]) -> str:
    """Return the completion for a shell."""
    template, line, joined = {"bash": (BASH, bash, " | "), "zsh": (ZSH, zsh, " | "), "fish": (FISH, fish, " ")}[shell]
    mark = "'" if shell == "fish" else '"'
    paths = joined.join(f"{mark}{' '.join(each.words)}{mark}" for each in commands[1:])
    return template.format(version=__version__, paths=paths, table="\n".join(map(line, commands)))


def write(folder: Path) -> None:
    """Write every page and completion below a folder."""
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    commands = list(Command(typer.main.get_command(app)).all())
    texts = {f"man/man1/{'-'.join(each.words)}.1": man_page(each, date) for each in commands}
    texts |= {name: completion(shell, commands) for name, shell in COMPLETIONS.items()}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
