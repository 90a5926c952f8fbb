"""The script for zsh, with what each command and option is for."""

from collections.abc import Iterable, Sequence

from ldpbandits.cli.words import Option, Place

SCRIPT = """\
#compdef ldpbandits
# Completes ldpbandits in zsh. Made by: ldpbandits completion zsh
_ldpbandits() {{
    local place="" i
    local -a commands options values
    for ((i = 2; i < CURRENT; i++)); do
        case "$place ${{words[i]}}" in
            ({paths}) place="$place ${{words[i]}}" ;;
        esac
    done
    local before="${{words[CURRENT-1]}}"
    if [[ ${{words[CURRENT]}} == --*=* ]]; then
        before="${{words[CURRENT]%%=*}}"
        compset -P '*='
    fi
    case "$place $before" in
{values}
        ({files}) _files; return ;;
        ({others}) _message value; return ;;
    esac
    case "$place" in
{words}
    esac
    (( $#commands )) && _describe -t commands command commands
    (( $#values )) && _describe -t values value values
    [[ ${{words[CURRENT]}} == -* || $#commands$#values == 00 ]] && _describe -t options option options
    case "$place" in
        ({with_files}) _files ;;
    esac
}}
if [[ $funcstack[1] == _ldpbandits ]]; then
    _ldpbandits "$@"
else
    compdef _ldpbandits ldpbandits
fi
"""


def script(places: Sequence[Place]) -> str:
    """Return the completion script for zsh."""
    values, files, others = list[str](), list[str](), list[str]()
    for place in places:
        for option in place.options:
            if option.takes_value:
                patterns = [_pattern(*place.path, name) for name in option.names]
                if option.values:
                    listed = f"values=({' '.join(map(_quoted, option.values))})"
                    values.append(
                        f"        ({'|'.join(patterns)}) {listed}; _describe -t values value values; return ;;"
                    )
                else:
                    (files if option.is_file else others).extend(patterns)
    return SCRIPT.format(
        paths="|".join(_pattern(*place.path) for place in places if place.path),
        values="\n".join(values),
        files="|".join(files),
        others="|".join(others),
        words="\n".join(map(_words, places)),
        with_files="|".join(_pattern(*place.path) for place in places if place.takes_file),
    )


def _words(place: Place) -> str:
    listed = [f"commands=({_described(place.commands)})", f"options=({_described(place.options)})"]
    listed.append(f"values=({' '.join(map(_quoted, place.values))})")
    return f"        ({_pattern(*place.path)}) {'; '.join(listed)} ;;"


def _described(options: Iterable[Option]) -> str:
    return " ".join(_quoted(f"{name}:{option.help}") for option in options for name in option.names)


def _pattern(*path: str) -> str:
    return '"' + "".join(f" {word}" for word in path) + '"'


def _quoted(text: str) -> str:
    name, colon, told = text.partition(":")
    told = told.replace("\\", "\\\\").replace(":", "\\:").replace("'", "'\\''")
    return f"'{name}{colon}{told}'"
