"""Where the keys of a TOML document stand."""

import tomllib

import pytest

from fwonline.definition.toml import Lines, dotted, parse
from fwonline.exceptions import DefinitionError

DOCUMENT = '''# a comment with [brackets] and = signs
name = "a#b = [1]"
a.b."c d" = 3
list = [1, # one
  2,
  {q = 1, z = [ "]", {k = 2}]},
]
text = """
[not.a.table] \\""" =
"quoted" """""
literal = \'\'\'
x = 'y'\'\'\'
when = 1979-05-27 07:32:00
[run]
seed = 1
[[model]]
class = "x"
[model.constraint]
r = 1
[[model]]
'class' = 'y # z'
[[model.sub]]
p = 1
[[model.sub]]
p = 2
[model.sub.deep]
f = [[1, 2], [3]]
'''


def paths_of(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths_of(inner, (*path, key))


def test_every_key_stands_on_the_line_where_it_is_written():
    lines = Lines(DOCUMENT)
    written = DOCUMENT.split("\n")
    keys = [path for path in paths_of(tomllib.loads(DOCUMENT)) if path]
    assert len(keys) == 37
    for path in keys:
        named = [part for part in path if isinstance(part, str)][-1]
        if not isinstance(path[-1], int):
            assert named in written[lines[path] - 1], (dotted(path), lines[path])
    assert lines[("list", 1)] == 5
    assert lines[("list", 2, "z", 1, "k")] == 6
    assert lines[("model", 0)] == 16
    assert lines[("model", 0, "constraint", "r")] == 19
    assert lines[("model", 1, "sub", 1, "p")] == 25
    assert lines[("model", 1, "sub", 1, "deep", "f", 1, 0)] == 27


def test_a_key_that_is_not_written_stands_where_its_table_does():
    lines = Lines(DOCUMENT)
    assert lines[("run", "absent", "deeper")] == 14
    assert lines[("absent",)] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = = 2\n", "f.toml:2:5: this is not TOML: invalid value"),
        ("a = 1\na = 2\n", "f.toml:2:6: this is not TOML: cannot overwrite a value"),
        ("a = 1\nb = [1,\n\n", "f.toml:2:8: this is not TOML: invalid value"),
        ("[run\nseed = 1", "f.toml:1:5: this is not TOML: expected ']' at the end of a table declaration"),
    ],
)
def test_a_syntax_error_names_line_and_column(text, message):
    with pytest.raises(DefinitionError) as error:
        parse(text, "f.toml")
    assert str(error.value) == message


def test_keys_are_shown_as_toml_writes_them():
    assert dotted(("model", 0, "a key", "b")) == 'model[0]."a key".b'
