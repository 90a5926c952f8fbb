"""Words: what a machine can check of CONTRIBUTING's writing rule, in the code, the docs and the JavaScript SDK."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS, SUFFIXES = ("src", "docs", "sdk/js/src"), (".py", ".md", ".js", ".html")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "sdk/js/README.md", "benchmarks/README.md")

MIN_DOCSTRING_WORDS = 5
UNITS = [
    "_S",
    "_MS",
    "_US",
    "_NS",
    "_MINUTES",
    "_HOURS",
    "_DAYS",
    "_BYTES",
    "_KB",
    "_MB",
    "_BITS",
    "_CHARACTERS",
    "_COLUMNS",
    "_LINES",
    "_CALLS",
    "_ROUNDS",
    "_TRIALS",
    "_PART",
    "_SHARE",
    "_FACTOR",
    "_DIVISOR",
    "_STEP",
    "_STEPS",
    "_PER_SECOND",
    "_HTTP_DATE",
]
"""The suffixes that name a unit, besides _PER_ and a noun. A share or a factor of a time or a size says so."""
TIME_OR_SIZE = re.compile(
    r"(TIMEOUT|INTERVAL|DELAY|PATIENCE|DEADLINE|LIFETIME|PAUSE|GRACE|BACKOFF|SECONDS|MAX_AGE|TTL|BUFFER|CHUNK|BYTES)"
)
MEASURED = re.compile(
    r"^(the )?(most |least |longest |shortest )?(seconds|minutes|hours|days|milliseconds|bytes)\b", re.IGNORECASE
)
"""The comment of a constant that is a time or a size begins with its unit."""
CONSTANTS_WITHOUT_UNIT: dict[str, str] = {}
"""Constants that look like a time or a size and are none, each with the reason."""
BANNED = re.compile(r"\b(so many|whoever)\b", re.IGNORECASE)
OPENINGS = ("What ", "Of ", "So ", "Whoever ")
"""No sentence begins with one of these, unless it is a question."""

SENTENCE = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(*_]*[A-Z])")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
RULE = re.compile(r"^\*\*How we write\.\*\*.*?(?=^\*\*Commits)", re.MULTILINE | re.DOTALL)
"""The writing rule in CONTRIBUTING, which quotes odd sentences."""
TEMPLATE = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
SENTENCE_WORDS = 4
"""Fewest words of a string constant that is read as a sentence."""
CODE = re.compile(r"`[^`]*`")


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of a module, of its classes and of its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "name", "module"), text


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name of each module constant that is a number, and the text below it."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and target.id.lstrip("_").isupper() and _is_number(node.value):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            yield target.id, str(after.value.value) if is_text else ""  # type: ignore[union-attr]


def _is_number(value: ast.expr) -> bool:
    """Tell whether an expression is a number, or arithmetic of numbers and names."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.BinOp(left=left, right=right):
            return all(_is_number(side) or isinstance(side, ast.Name) for side in (left, right))
        case _:
            return False


def short_docstrings(source: str) -> list[str]:
    """Return the docstrings of fewer than five words."""
    found = docstrings(ast.parse(source))
    return [f"{name}: {text!r}" for name, text in found if len(text.split()) < MIN_DOCSTRING_WORDS]


def constants_without_unit(source: str) -> list[str]:
    """Return the constants that are a time or a size, by their name or by their comment, and do not name the unit."""
    return [
        name
        for name, text in constants(ast.parse(source))
        if (TIME_OR_SIZE.search(name) or MEASURED.match(text.strip()))
        and not name.endswith(tuple(UNITS))
        and "_PER_" not in name
        and name not in CONSTANTS_WITHOUT_UNIT
    ]


def odd_sentences(text: str) -> list[str]:
    """Return the sentences with a banned phrase or a banned beginning; questions may begin with any word."""
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.)\s?)", CODE.sub("`code`", text)):
        for sentence in SENTENCE.split(" ".join(paragraph.split())):
            plain = sentence.lstrip("-*#>|\"'( _")
            is_heading = sentence.startswith("#")
            if BANNED.search(plain) or (
                plain.startswith(OPENINGS) and not is_heading and not plain.rstrip("*_)\"' |").endswith("?")
            ):
                found.append(sentence)
    return found


def python_prose(source: str) -> Iterator[str]:
    """Yield docstrings, the texts below constants and fields, other strings of some words, and comments."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)):
                pass
            case ast.JoinedStr(values=parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "it" for part in parts)
            case _:
                continue
        if len(text.split()) >= SENTENCE_WORDS:
            yield text
    comment: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 and comment:
                yield " ".join(comment)
                comment = []
            comment.append(token.string.lstrip("# "))
            last = token.start[0]
    if comment:
        yield " ".join(comment)


def javascript_prose(source: str) -> Iterator[str]:
    """Yield the comments of a JavaScript module."""
    for block in re.findall(r"/\*\*?(.*?)\*/", source, flags=re.DOTALL):
        yield re.sub(r"^\s*\*+ ?", "", block, flags=re.MULTILINE)
    yield from re.findall(r"^\s*//(.*)$", source, flags=re.MULTILINE)


def prose(path: Path) -> list[str]:
    """Return the texts of a file that the rule is about."""
    source = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            return list(python_prose(source))
        case ".md":
            return [RULE.sub("", FENCE.sub("", source))]
        case ".html":
            return [TEMPLATE.sub("\n\n", source)]
        case _:
            return list(javascript_prose(source))


def files(*suffixes: str) -> list[str]:
    """Return the files of these kinds that are checked, as seen from the root."""
    every = [*(ROOT / page for page in PAGES), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    named = [path.relative_to(ROOT).as_posix() for path in every if path.suffix in suffixes]
    return sorted(named)


def test_a_docstring_has_five_words_or_is_deleted() -> None:
    """A docstring of fewer words says nothing."""
    found = {name: short_docstrings((ROOT / name).read_text(encoding="utf-8")) for name in files(".py")}
    assert {name: short for name, short in found.items() if short} == {}


def test_a_constant_that_is_a_time_or_a_size_names_its_unit() -> None:
    """A reader of a name that ends in _S or _BYTES need not look for its unit."""
    found = {name: constants_without_unit((ROOT / name).read_text(encoding="utf-8")) for name in files(".py")}
    assert {name: constants for name, constants in found.items() if constants} == {}


def test_sentences_have_a_subject() -> None:
    """Also in pages, templates and errors: no What, Whoever, Of or So begins one unless it asks something."""
    found = {name: [odd for text in prose(ROOT / name) for odd in odd_sentences(text)] for name in files(*SUFFIXES)}
    assert {name: sentences for name, sentences in found.items() if sentences} == {}
    assert len(found) > 50


def test_short_docstrings_are_found() -> None:
    """In modules, classes and functions, also in those inside of others."""
    source = 'class A:\n    """Holds one letter of five."""\n    def f(self):\n        """Do it."""\n'
    assert short_docstrings(source) == ["f: 'Do it.'"]
    assert short_docstrings('"""Of a kind."""') == ["module: 'Of a kind.'"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("POLL_TIMEOUT = 5.0", ["POLL_TIMEOUT"]),
        ("POLL_TIMEOUT_S = 5.0", []),
        ('PATIENCE: float = 2 * 30\n"""How long to wait."""', ["PATIENCE"]),
        ('LONGEST = 1 << 20\n"""Bytes of a message."""', ["LONGEST"]),
        ('MOST = 1 << 20\n"""Arms of an experiment."""', []),
        ('TIMEOUT_ERROR = "too late"', []),
        ("CHUNK_BYTES = 4096", []),
        ("STEPS_PER_LIFETIME = 60", []),
    ],
)
def test_constants_without_a_unit_are_found(source: str, found: list[str]) -> None:
    """By their names, and by a comment that begins with a unit; numbers only."""
    assert constants_without_unit(source) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is sent is private.", 1),
        ("What is an arm? An option.", 0),
        ("A pull is one round. So the agent waits.", 1),
        ("Whoever asks gets an arm.", 1),
        ("Add so many tickets.", 1),
        ("The rule so decides. Official numbers agree.", 0),
        ("- Of these, two count.", 1),
        ("## What an audit proves", 0),
        ("Call `What is`. Some pulls\nfollow.", 0),
    ],
)
def test_odd_sentences_are_found(text: str, found: int) -> None:
    """In paragraphs and lists; headings, code and questions may begin with any word."""
    assert len(odd_sentences(text)) == found


def test_prose_is_found_in_each_language() -> None:
    """Docstrings, texts below constants, errors, comments over several lines, and comments of JavaScript."""
    source = '"""A module of few words."""\nX = 1\n"""A text of it below."""\n# One\n# sentence.\n\ny = 2  # Two.\n'
    assert sorted(python_prose(source)) == ["A module of few words.", "A text of it below.", "One sentence.", "Two."]
    assert "it is no known arm" in python_prose('raise Error(f"{name} is no known arm")')
    assert list(python_prose('x = "short"')) == []
    found = javascript_prose("/** A block\n * of two lines. */\n// A line.\n")
    assert [" ".join(text.split()) for text in found] == ["A block of two lines.", "A line."]
