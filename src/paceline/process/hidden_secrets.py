"""Leaves secrets out of commands and texts before they are kept or shown to others: keys, tokens, passwords.

A secret is known by the name it is given to, or by its place in a URL. What has another name cannot be known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "***"
# names that end so, or whose part before a dash, a dot or an underscore does: --api-key, AWS_SECRET_ACCESS_KEY
_NAME = (
    r"(?:[\w.-]*[_.-])?(?:key|api_?key|access_?key|secret|token|auth|password|passwd|passphrase|credentials?)"
    r"(?:[_.-](?:id|key|access_key|value|file_content))*"
)
_OPTION = re.compile(rf"^--?{_NAME}$", re.IGNORECASE)
_GIVEN = re.compile(
    rf"""(?P<name>(?<![\w.])(?:--?)?{_NAME}["']?)(?P<between>\s*[=:]\s*)"""
    r"""(?P<value>"[^"]*"|'[^']*'|[^\s,;&}})\]"']+)""",
    re.IGNORECASE,
)
_IN_SOURCE = re.compile(
    rf"""(?P<name>(?<![\w.]){_NAME}["']?)(?P<between>\s*[=:]\s*)(?P<value>"[^"]+"|'[^']+')""", re.IGNORECASE
)
# in prose "key: 3" and "token: '}'" are mostly none, so a message must be clearer
_IN_MESSAGE = re.compile(
    r"""(?P<name>[?&]\w*(?:key|token|signature|auth)|(?<![\w.])(?:[\w.-]*[_-])?"""
    r"""(?:api[_-]?key|access[_-]?key|secret|password|passwd|passphrase|\w+[_-]token)["']?)"""
    r"""(?P<between>\s*[=:]\s*)(?P<value>"[^"]*"|'[^']*'|[^\s,;&}})\]"']+)""",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"""\"[^"\n]*\"|'[^'\n]*'""")
_URL = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@'\"]+@", re.IGNORECASE)
_BEARER = re.compile(r"\b(?P<kind>bearer|basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)


def without_secrets(command: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets.

    >>> without_secrets(["train.py", "--api-key", "a1b2", "--lr=0.1", "hf_token=c3", "s3://me:pw@host/data"])
    ['train.py', '--api-key', '***', '--lr=0.1', 'hf_token=***', 's3://***@host/data']
    """
    words = []
    is_value = False
    for word in command:
        words.append(HIDDEN if is_value and not word.startswith("-") else hide_secrets(word))
        is_value = _OPTION.match(word) is not None
    return words


def hide_secrets(text: str) -> str:
    """Return a word of a command without secrets.

    >>> hide_secrets("storage_options={secret_access_key: X, region: eu}")
    'storage_options={secret_access_key: ***, region: eu}'
    """
    return _GIVEN.sub(rf"\g<name>\g<between>{HIDDEN}", _without_logins(text))


def hide_in_message(text: str) -> str:
    """Return what an exception says without secrets.

    >>> hide_in_message("403 for https://me:pw@host/x?token=abc&page=2; missing key: weight")
    '403 for https://***@host/x?token=***&page=2; missing key: weight'
    """
    return _IN_MESSAGE.sub(rf"\g<name>\g<between>{HIDDEN}", _without_logins(text))


def _without_logins(text: str) -> str:
    return _BEARER.sub(rf"\g<kind> {HIDDEN}", _URL.sub(rf"\g<scheme>{HIDDEN}@", text))


def hide_in_source(line: str) -> str:
    """Return a line of source without secrets that are written out in it; code stays as it is.

    >>> hide_in_source('client = login(token=read_token(), password="hunter2")')
    'client = login(token=read_token(), password="***")'
    >>> hide_in_source('raise ValueError(f"no login with password=hunter2 for {user}, key={key}")')
    'raise ValueError(f"no login with password=*** for {user}, key={key}")'
    """
    line = _URL.sub(rf"\g<scheme>{HIDDEN}@", line)
    return _LITERAL.sub(_without_its_secrets, _IN_SOURCE.sub(_same_quotes, line))


def _without_its_secrets(literal: re.Match[str]) -> str:
    return _IN_MESSAGE.sub(_unless_filled_in, _BEARER.sub(rf"\g<kind> {HIDDEN}", literal[0]))


def _unless_filled_in(found: re.Match[str]) -> str:
    """Leave a value that is only filled in when the line runs, as in f"password={read()}"."""
    return found[0] if found["value"].startswith(("{", "%")) else f"{found['name']}{found['between']}{HIDDEN}"


def _same_quotes(found: re.Match[str]) -> str:
    quote = found["value"][0]
    return f"{found['name']}{found['between']}{quote}{HIDDEN}{quote}"
