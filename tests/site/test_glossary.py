"""The glossary names what there is, each word once."""

import ast
import pkgutil
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import ldpbandits

TEXT = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^- \*\*([a-z ]+)\*\*(?: \(`(\w+)`\))?: ", TEXT, flags=re.MULTILINE)
NAMED = set(re.findall(r"`([A-Z]\w+)`", TEXT))
WORDS = """
arm pull reward value response unit gap regret horizon bound epsilon neighbours guarantee transform mechanism curator
kind budget claim layer agent rule index floor tally pending law algorithm channel trial checkpoint curve experiment
engine step leap archive ticket nonce ledger outbox store
"""


def names() -> set[str]:
    """Return every name in every module of the package."""
    modules = (found.name for found in pkgutil.walk_packages(ldpbandits.__path__, "ldpbandits."))
    return {name for module in modules if not module.endswith("__main__") for name in vars(import_module(module))}


def test_each_word_is_explained_once() -> None:
    """Every line is an entry, no word has two, and the words of the design are among them."""
    words = [word for word, _ in ENTRIES]
    assert len(words) == len(set(words)) == TEXT.count("\n- ")
    assert set(WORDS.split()) <= set(words)


def test_a_word_that_is_a_class_is_there() -> None:
    """What the glossary calls a class exists under that name, and a name that does not is noticed."""
    assert NAMED - names() == set()
    assert {"NoSuchClass"} - names()
    assert len(NAMED) > 25


def test_a_class_goes_by_its_word() -> None:
    """The class beside a word is that word."""
    for word, name in ENTRIES:
        assert name in ("", "".join(part.capitalize() for part in word.split()))


def test_a_word_is_one_class() -> None:
    """In all of the package each class of the glossary is defined once: a reader need not ask which one is meant."""
    defined = Counter(
        node.name
        for path in Path(ldpbandits.__path__[0]).rglob("*.py")
        if path.parts[-2:] != ("admin", "messages.py")  # the twins of the server's messages: the same things
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name in NAMED if defined[name] > 1} <= {"Bernoulli"}  # a mechanism, and a law of rewards: its name
    assert defined["Tally"] == defined["Claim"] == defined["Store"] == defined["Rule"] == 1
