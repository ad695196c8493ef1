"""Completion of the command line in shells: a script that is made from the parser."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHELLS = ("bash", "zsh", "fish")


@attrs.frozen
class _Command:
    """What is completed behind one command.

    Attributes:
        name: of the command.
        summary: what it does.
        options: each with its names, what it does, and whether a value follows.
        choices: words that an argument may be.
    """

    name: str
    summary: str
    options: list[tuple[Sequence[str], str, bool]]
    choices: list[str]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell, one of `SHELLS`."""
    commands = list(_commands(parser))
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join(made(parser.prog, commands))


def _commands(parser: argparse.ArgumentParser) -> Iterator[_Command]:
    for group in (action for action in parser._actions if isinstance(action, argparse._SubParsersAction)):  # noqa: SLF001 - argparse tells it nowhere else
        for choice in group._choices_actions:  # noqa: SLF001
            actions = group.choices[choice.dest]._actions  # noqa: SLF001
            options = [
                (action.option_strings, action.help or "", action.nargs != 0)
                for action in actions
                if action.option_strings
            ]
            places = [action for action in actions if not action.option_strings and action.choices is not None]
            choices = [str(word) for action in places for word in (action.choices or ())]
            yield _Command(choice.dest, choice.help or "", options, choices)


def _bash(program: str, commands: Sequence[_Command]) -> Iterator[str]:
    yield f"# Completion of {program} in bash: source it, or save it in ~/.local/share/bash-completion/completions."
    yield f"_{program}() {{"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" words='
    yield "    COMPREPLY=()"
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        words="{" ".join(command.name for command in commands)} --help --version"'
    yield '        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")'
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]}" in'
    for command in commands:
        names = [name for names, _, _ in command.options for name in names]
        yield f'        {command.name}) words="{" ".join([*names, *command.choices])}" ;;'
    yield "    esac"
    yield '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")'
    yield '    case "$current" in'
    yield "        -*) ;;"
    yield '        *) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;'
    yield "    esac"
    yield "}"
    yield f"complete -o filenames -F _{program} {program}"


def _zsh(program: str, commands: Sequence[_Command]) -> Iterator[str]:
    yield f"#compdef {program}"
    yield f"# Completion of {program} in zsh: source it after compinit, or save it in a directory of $fpath."
    yield f"_{program}() {{"
    yield "    local -a commands"
    yield "    commands=("
    yield from (f"        {_quoted(command.name + ':' + command.summary)}" for command in commands)
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    case $words[2] in"
    for command in commands:
        specs = []
        for names, summary, takes in command.options:
            told = summary.replace("[", "(").replace("]", ")").replace(":", ";")
            specs += [_quoted(f"{name}[{told}]" + (":value:_files" if takes else "")) for name in names]
        rest = f"*:word:({' '.join(command.choices)})" if command.choices else "*:file:_files"
        yield f"        {command.name}) _arguments {' '.join([*specs, _quoted(rest)])} ;;"
    yield "    esac"
    yield "}"
    yield f"(( $+functions[compdef] )) && compdef _{program} {program}"


def _fish(program: str, commands: Sequence[_Command]) -> Iterator[str]:
    yield f"# Completion of {program} in fish: save it as ~/.config/fish/completions/{program}.fish."
    for command in commands:
        first = f"complete -c {program} -n __fish_use_subcommand -f -a {command.name}"
        yield f"{first} -d {_fish_quoted(command.summary)}"
        condition = f"-n {_fish_quoted('__fish_seen_subcommand_from ' + command.name)}"
        for names, summary, takes in command.options:
            flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names)
            value = " -r" if takes else ""
            yield f"complete -c {program} {condition} {flags}{value} -d {_fish_quoted(summary)}"
        if command.choices:
            yield f"complete -c {program} {condition} -f -a {_fish_quoted(' '.join(command.choices))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
