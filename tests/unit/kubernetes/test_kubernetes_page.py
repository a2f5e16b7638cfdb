"""docs/kubernetes.md has the role that the code has, messages that exist, and a row for each product."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tare.kubernetes import manifests
from tare.kubernetes.lab_networks import LAB_NETWORKS
from tare.kubernetes.mpi_jobs import manifest
from tare.kubernetes.pod_networks.recognise import PRODUCTS
from tare.kubernetes.policy import manifest as policy
from tare.study import parse

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def block(mark: str) -> str:
    found = re.search(rf"<!-- {mark}: .*? -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, mark
    return found[1]


def test_the_role_and_the_products_of_the_page_are_those_of_the_sources() -> None:
    assert list(yaml.safe_load_all(block("role"))) == list(manifests.role("tare", "you"))
    assert yaml.safe_load(block("rules")) == list(manifest.rules())
    assert yaml.safe_load(block("policy")) == list(policy.rules())
    rows = set(re.findall(r"^\| ([\w -]+) \|", PAGE.partition("## Recognised networks")[2], re.MULTILINE))
    assert {product.name for product in PRODUCTS} | {"Canal"} <= rows


def test_every_message_of_the_page_is_in_the_sources() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src" / "tare").rglob("*.py"))
    table = PAGE.partition("<!-- messages")[2]
    messages = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(messages) > 15
    assert [each for each in messages if each not in sources] == []


def test_every_runtime_class_of_a_lab_has_a_row_and_the_study_beside_it_can_be_read() -> None:
    section = PAGE.partition("## Several pod networks")[2].partition("\n## ")[0]
    table = section.partition("<!-- runtime classes")[2]
    named = re.findall(r"^\| (none|`[\w-]+`) \|", table.partition("|---|")[2], re.MULTILINE)
    assert [each.strip("`") for each in named] == [each or "none" for each in LAB_NETWORKS]
    (study,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert {each.runtime_class for each in parse(study).environments} == set(LAB_NETWORKS) - {"cilium-native"}
