"""systemd's syntax, written and read back. That systemd itself agrees is tests/hosts/test_systemd_refusals.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.start.unit import (
    Directive,
    environment,
    exec_start,
    fold_dollars,
    quote_environment,
    quote_exec,
    quote_exec_lines,
    quote_path,
    quote_text,
    quote_user,
    read_environment,
    read_exec,
    read_unit,
    split_words,
)
from orchestrator.errors import InputRefused

PROGRAM = "/opt/x/bin/python"
PRINTABLE = st.text(st.characters(exclude_categories=["Cc", "Cs"]))


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--pp-size", "--pp-size"),
        ("0.92", "0.92"),
        ("100%", '"100%%"'),
        ("%h/models", '"%%h/models"'),
        ("a$HOME", '"a$$HOME"'),
        ("${X}", '"$${X}"'),
        ("C:\\new", '"C:\\\\new"'),
        ("it's", '"it\'s"'),
        ("two words", '"two words"'),
        ('{"a": {"b": [1, 2]}}', '"{\\"a\\": {\\"b\\": [1, 2]}}"'),
        ("", '""'),
        (";", '";"'),
        ("Ünï", '"Ünï"'),
    ],
)
def test_a_word_is_quoted_only_where_it_must_be(word: str, written: str) -> None:
    assert quote_exec([PROGRAM, word]) == f"{PROGRAM} {written}"


@given(st.lists(PRINTABLE))
def test_any_words_are_read_back_as_they_were(words: list[str]) -> None:
    meant = (PROGRAM, *words)
    assert read_exec(quote_exec(meant)) == meant
    (directive,) = read_unit(f"[Service]\nExecStart={quote_exec_lines(meant)}\n")
    assert read_exec(directive.value) == meant


@given(PRINTABLE)
def test_any_value_of_a_variable_is_read_back_as_it_was(value: str) -> None:
    assert read_environment(quote_environment("A_1", value)) == {"A_1": value}


def test_a_dollar_means_itself_in_environment_lines() -> None:
    assert quote_environment("X", "100% $HOME") == '"X=100%% $HOME"'


def test_each_option_gets_a_line_unless_a_value_has_one_inside() -> None:
    assert quote_exec_lines([PROGRAM, "-m", "m", "--a", "1", "--b"]) == f"{PROGRAM} -m m \\\n    --a 1 \\\n    --b"
    assert quote_exec_lines([PROGRAM, "--a", "x --b"]) == f'{PROGRAM} --a "x --b"'


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\x00", "\x1b", "\x7f", "\x85", "\ud800"])
def test_control_characters_are_refused_everywhere(character: str) -> None:
    text = f"a{character}b"
    with pytest.raises(InputRefused, match="control character"):
        quote_exec([PROGRAM, text])
    with pytest.raises(InputRefused, match="control character"):
        quote_environment("A", text)
    with pytest.raises(InputRefused, match="control character"):
        quote_path(f"/{text}")
    with pytest.raises(InputRefused, match="control character"):
        quote_text(text)


@pytest.mark.parametrize("program", ["python", "-/bin/x", "@/bin/x", "+/bin/x", "!/bin/x", "/bin/$X", "/bin/", ""])
def test_a_program_that_systemd_would_read_otherwise_is_refused(program: str) -> None:
    with pytest.raises(InputRefused, match="absolute path"):
        quote_exec([program])
    with pytest.raises(InputRefused):
        quote_exec([])


def test_names_and_paths_have_their_own_forms() -> None:
    assert quote_path("/srv/50% off") == "/srv/50%% off"
    assert quote_user("sglang-1") == "sglang-1"
    assert quote_text(" 5% more \\") == "5%% more "
    for path in ("srv", "/srv ", "/srv\\", ""):
        with pytest.raises(InputRefused):
            quote_path(path)
    for user in ("a b", "%u", "", "-x"):
        with pytest.raises(InputRefused):
            quote_user(user)
    for name in ("A-B", "", "1A"):
        with pytest.raises(InputRefused):
            quote_environment(name, "x")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/bin/x a  b", ("/bin/x", "a", "b")),
        ("/bin/x 'a b' \"c d\"", ("/bin/x", "a b", "c d")),
        ('/bin/x --o={"a":1}', ("/bin/x", "--o={a:1}")),
        ("/bin/x '{\"a\":1}'", ("/bin/x", '{"a":1}')),
        (r"/bin/x \x41\102\u00e9\s\t", ("/bin/x", "AB\u00e9 \t")),
        ("/bin/x '' \"\"", ("/bin/x", "", "")),
    ],
)
def test_words_part_as_in_systemd(value: str, words: tuple[str, ...]) -> None:
    assert split_words(value) == words


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("/bin/x $A", r"single \$"),
        ("/bin/x ${A}", r"single \$"),
        ("/bin/x a$$$b", r"single \$"),
        ("/bin/x %h", "single %"),
        ('/bin/x "a', "unbalanced"),
        ("/bin/x \\q", "unknown escape"),
    ],
)
def test_what_only_the_host_knows_is_refused(value: str, says: str) -> None:
    with pytest.raises(InputRefused, match=says):
        read_exec(value)


def test_what_the_manager_holds_is_folded_once() -> None:
    assert fold_dollars(["a$$HOME", "$$$$", "100%"]) == ("a$HOME", "$$", "100%")
    with pytest.raises(InputRefused):
        fold_dollars(["$X"])


def test_a_unit_is_read_as_systemd_reads_it() -> None:
    text = (
        "# comment\n[Service]\n ; comment\nExecStart=/bin/x \\\n  --a \\\n# inside\n  --b\n\n"
        'Environment="A=1" B=2\nEnvironment=C=3\nEnvironment = A=4\nNote=ends in \\\\\n[Install]\nWantedBy=x\n'
    )
    directives = read_unit(text)
    assert directives[0] == Directive(line=4, section="Service", key="ExecStart", value="/bin/x    --a    --b")
    assert exec_start(directives) == (("/bin/x", "--a", "--b"),)
    assert environment(directives) == {"A": "4", "B": "2", "C": "3"}
    assert directives[-2].value == "ends in \\\\"
    assert directives[-1].section == "Install"


def test_an_empty_assignment_clears() -> None:
    text = "[Service]\nExecStart=/bin/x\nExecStart=\nExecStart=/bin/y\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n"
    assert exec_start(read_unit(text)) == (("/bin/y",),)
    assert environment(read_unit(text)) == {"B": "2"}


@pytest.mark.parametrize("text", ["[Service]\nno assignment\n", "[Service]\nExecStart=/bin/x \\"])
def test_what_is_no_unit_is_refused(text: str) -> None:
    with pytest.raises(InputRefused, match="line 2"):
        read_unit(text)
