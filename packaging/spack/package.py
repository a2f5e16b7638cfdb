"""The recipe for Spack: copy it to packages/py_tare_hpc/package.py of your repository, with the digest of the sdist."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyTareHpc(PythonPackage):
    """Measure what containers cost MPI programs."""

    url = "tare_hpc-0.2.0.tar.gz"
    license("Apache-2.0")
    manual_download = True

    version("0.2.0", sha256="0" * 64)

    variant("apptainer", default=False, description="Bring the runtime Apptainer")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-packaging@23:", type=("build", "run"))
    depends_on("py-psutil@5.9:", type=("build", "run"))
    depends_on("py-pydantic@2.7:", type=("build", "run"))
    depends_on("py-pyroute2@0.8:", type=("build", "run"))
    depends_on("py-pyyaml@6:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-scipy@1.12:", type=("build", "run"))
    depends_on("py-typer@0.12:", type=("build", "run"))
    depends_on("mpi", type="run")
    depends_on("apptainer", when="+apptainer", type="run")
