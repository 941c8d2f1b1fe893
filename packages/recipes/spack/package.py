# A package of Spack. packages/recipes/fill puts the address and the digest of a release in.
from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Phalanx(CargoPackage):
    """Protects files, folders, streams and volumes with AES and SHA-3, on one core, on all, or on a GPU."""

    homepage = "@ADDRESS@"
    url = "@ADDRESS@/phalanx-@VERSION@.tar.gz"

    license("MIT OR Apache-2.0", checked_by="phalanx")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("c", type="build")
    depends_on("rust@@RUST@:", type="build")
