"""What ssh, or a node's shell, writes becomes one sentence with a remedy."""

from __future__ import annotations

import pytest

from tare.cluster.ssh_errors import explained

CHANGED = (
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
    "Host key for alpha has changed and you have requested strict checking.\nHost key verification failed."
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("ssh: Could not resolve hostname alpha: Name or service not known", "there is no host of this name"),
        ("taretest@10.0.0.1: Permission denied (publickey).", "it refuses your key: try `ssh alpha true`"),
        ("Received disconnect: Too many authentication failures", "it refuses your key"),
        (CHANGED, "its host key is not the one in known_hosts"),
        ("No ED25519 host key is known for alpha\nHost key verification failed.", "its host key is not known"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection refused", "nothing accepts ssh connections there"),
        ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", "it does not answer"),
        ("Timeout, server 10.0.0.1 not responding.", "it does not answer"),
        ("ssh: connect to host 10.0.0.1 port 22: No route to host", "there is no route to it"),
        ("sh: 1: exec: python3: not found", "it has no python3 in PATH"),
        ("bash: exec: python3: not found", "it has no python3 in PATH"),
        ("fish: Unknown command: python3", "it has no python3 in PATH"),
        ("zsh:1: command not found: python3", "it has no python3 in PATH"),
        ("OSError: [Errno 28] No space left on device: '/home/me/.cache'", "its home folder is full"),
        ("OSError: [Errno 122] Disk quota exceeded: '/home/me/.cache'", "its home folder is full"),
        ("", "the connection was closed"),
        ("Something else\nthat nobody knows", "that nobody knows"),
    ],
)
def test_words_of_ssh_become_a_sentence(words: str, sentence: str) -> None:
    explanation = explained("alpha", words)
    assert explanation.startswith(sentence)
    assert "\n" not in explanation
    assert "HOST" not in explanation
