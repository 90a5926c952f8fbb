"""The script for bash, from version 3.2 on."""

from collections.abc import Sequence

from ldpbandits.cli.words import Place

SCRIPT = """\
# Completes ldpbandits in bash. Made by: ldpbandits completion bash
_ldpbandits() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" place="" words="" i
    if [[ $word == "=" ]]; then  # bash takes --option=value for three words
        word=""
    elif [[ $before == "=" ]]; then
        before="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$place ${{COMP_WORDS[i]}}" in
            {paths}) place="$place ${{COMP_WORDS[i]}}" ;;
        esac
    done
    COMPREPLY=()
    case "$place $before" in
{values}
        {files}) return ;;  # where nothing is said, readline completes files
        {others}) compopt +o default 2> /dev/null; return ;;
        *)
            case "$place" in
{words}
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case "$place" in
        {with_files}) ;;
        *) compopt +o default 2> /dev/null ;;
    esac
}}
complete -o default -F _ldpbandits ldpbandits
"""


def script(places: Sequence[Place]) -> str:
    """Return the completion script for bash."""
    values, files, others = list[str](), list[str](), list[str]()
    for place in places:
        for option in place.options:
            if option.takes_value:
                patterns = [_quoted(*place.path, name) for name in option.names]
                if option.values:
                    values.append(f'        {" | ".join(patterns)}) words="{" ".join(option.values)}" ;;')
                else:
                    (files if option.is_file else others).extend(patterns)
    words = [f'                {_quoted(*place.path)}) words="{" ".join(place.words)}" ;;' for place in places]
    return SCRIPT.format(
        paths=" | ".join(_quoted(*place.path) for place in places if place.path),
        values="\n".join(values),
        files=" | ".join(files),
        others=" | ".join(others),
        words="\n".join(words),
        with_files=" | ".join(_quoted(*place.path) for place in places if place.takes_file),
    )


def _quoted(*path: str) -> str:
    """Return a pattern for a place, or for an option there: all its words, each after a space."""
    return '"' + "".join(f" {word}" for word in path) + '"'
