"""The example for Kubernetes: it keeps the schemas, sets options that exist, and asks for what the server answers.

There is no cluster here: nobody has applied it.
"""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.deploy.test_docker import VARIABLES, said
from tests.server.local import Local
from tests.tools import ROOT

TEXT = (ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
RESOURCES: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all(TEXT)}
POD = RESOURCES["Deployment"]["spec"]["template"]
(SERVER,) = POD["spec"]["containers"]


@pytest.mark.parametrize("kind", list(RESOURCES))
def test_each_resource_keeps_its_schema(kind: str) -> None:
    """That of the Kubernetes API, strictly; and one with a word too many is refused."""
    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(RESOURCES[kind], version, strict=True)
    wrong = RESOURCES[kind] | {"spec": RESOURCES[kind]["spec"] | {"replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_it_sets_options_and_secrets_that_exist() -> None:
    """Each secret is a file of the mounted secret, and the command that makes the secret names all of them."""
    variables = {each["name"]: each["value"] for each in SERVER["env"]}
    assert set(variables) <= VARIABLES
    (mount,) = (each["mountPath"] for each in SERVER["volumeMounts"] if each["name"] == "secrets")
    files = {value.removeprefix(f"{mount}/") for value in variables.values() if value}
    assert files == set(re.findall(r"--from-file=(\w+)", TEXT))


def test_its_probes_are_answered(tmp_path: Path) -> None:
    """By the server, without a key, at the port of the image."""
    local = Local(tmp_path / "agent.db")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = SERVER[probe]["httpGet"]
        assert local("GET", asked["path"], key=None).status == 200
        assert asked["port"] == SERVER["ports"][0]["name"]
    local.close()
    assert said("EXPOSE") == [str(SERVER["ports"][0]["containerPort"])]


def test_names_agree() -> None:
    """The service and the budget find the pods, and every volume that is mounted is there."""
    labels = POD["metadata"]["labels"]
    assert RESOURCES["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert RESOURCES["Service"]["spec"]["selector"] == labels
    assert RESOURCES["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert {each["name"] for each in SERVER["volumeMounts"]} == {each["name"] for each in POD["spec"]["volumes"]}
    assert str(POD["spec"]["securityContext"]["runAsUser"]) == said("USER")[0]
