"""The script for fish, with what each command and option is for."""

from collections.abc import Iterator, Sequence

from ldpbandits.cli.words import Option, Place

SCRIPT = """\
# Completes ldpbandits in fish. Made by: ldpbandits completion fish
function __ldpbandits_at
    set -l place ""
    for word in (commandline -opc)[2..-1]
        if contains -- "$place $word" {paths}
            set place "$place $word"
        end
    end
    test "$place" = "$argv[1]"
end
complete -c ldpbandits -f
{lines}
"""


def script(places: Sequence[Place]) -> str:
    """Return the completion script for fish."""
    paths = " ".join(_quoted(_place(place)) for place in places if place.path)
    return SCRIPT.format(paths=paths, lines="\n".join(line for place in places for line in _lines(place)))


def _lines(place: Place) -> Iterator[str]:
    start = f"complete -c ldpbandits -n {_quoted(f'__ldpbandits_at {_quoted(_place(place))}')}"
    for command in place.commands:
        yield f"{start} -a {command.names[0]} -d {_quoted(command.help)}"
    if place.values:
        yield f"{start} -a {_quoted(' '.join(place.values))}"
    if place.takes_file:
        yield f"{start} -F"
    for option in place.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        yield f"{start} {names}{_value(option)} -d {_quoted(option.help)}"


def _value(option: Option) -> str:
    if not option.takes_value:
        return ""
    if option.values:
        return f" -x -a {_quoted(' '.join(option.values))}"
    return " -r -F" if option.is_file else " -x"


def _place(place: Place) -> str:
    return "".join(f" {word}" for word in place.path)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
