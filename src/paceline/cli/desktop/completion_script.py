"""Scripts by which shells complete our command line, made from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

Words = Mapping[str, Sequence[str]]  # "bench run" -> what may follow it

_BASH = """\
# bash completion of paceline: source <(paceline completion bash)
_paceline() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" path="" word index
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${{COMP_WORDS[index]}}"
        case "$path $word" in
{steps}
        esac
    done
    COMPREPLY=()
    case "$path" in
{words}
    esac
}}
complete -o default -F _paceline paceline
"""
_ZSH = """\
# zsh completion of paceline: source <(paceline completion zsh)
autoload -Uz bashcompinit compinit
(( ${{+functions[compdef]}} )) || compinit
(( ${{+functions[complete]}} )) || bashcompinit
{bash}"""


def words_of(verbs: Mapping[str, argparse.ArgumentParser]) -> dict[str, list[str]]:
    """Return what may follow each verb and subcommand: subcommands, options, and values of a closed set."""
    words = {"": [*verbs, "--help", "--version"]}
    for verb, verb_parser in verbs.items():
        words |= dict(_below(verb, verb_parser))
    return words


def _below(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    subcommands = {name: below for action in parser._actions if isinstance(action, argparse._SubParsersAction)
                   for name, below in action.choices.items()}  # fmt: skip
    values = [str(value) for action in parser._actions if not action.option_strings and not subcommands
              for value in action.choices or ()]  # fmt: skip
    yield path, [*subcommands, *values, *_options(parser)]
    for name, below in subcommands.items():
        yield from _below(f"{path} {name}", below)


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def bash_script(words: Words) -> str:
    """Return a script for bash."""
    steps = "\n".join(
        f'            "{_before(path)} {path.rpartition(" ")[2]}") path="{path}" ;;' for path in words if path
    )
    replies = "\n".join(
        f'        "{path}") COMPREPLY=($(compgen -W "{" ".join(after)}" -- "$current")) ;;'
        for path, after in words.items()
    )
    return _BASH.format(steps=steps, words=replies)


def _before(path: str) -> str:
    return path.rpartition(" ")[0]


def zsh_script(words: Words) -> str:
    """Return a script for zsh, which understands that for bash."""
    return _ZSH.format(bash=bash_script(words))


def fish_script(words: Words) -> str:
    """Return a script for fish."""
    lines = ["# fish completion of paceline: paceline completion fish | source"]
    for path, after in words.items():
        parts = path.split()
        conditions = [f"__fish_seen_subcommand_from {part}" for part in parts] or ["__fish_use_subcommand"]
        below = [other.split()[-1] for other in words if parts and _before(other) == path]
        if below:
            conditions.append(f"not __fish_seen_subcommand_from {' '.join(below)}")
        condition = "; and ".join(conditions)
        options = [word.removeprefix("--") for word in after if word.startswith("--")]
        names = [word for word in after if not word.startswith("--")]
        if names:
            lines.append(f"complete -c paceline -n '{condition}' -a '{' '.join(names)}'")
        lines += [f"complete -c paceline -n '{condition}' -l {option}" for option in options]
    return "\n".join(lines) + "\n"


SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
