# A flake of Nix, which builds the tree that it lies in: nix build 'git+file:.?dir=packages/nix'. It needs a nixpkgs with the Rust that
# Cargo.toml names.
{
  description = "Protects files with AES and SHA-3, as fast as the machine can move them";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      each = nixpkgs.lib.genAttrs systems;
      cargo = builtins.fromTOML (builtins.readFile ../../Cargo.toml);
    in
    {
      packages = each (
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        {
          default = pkgs.rustPlatform.buildRustPackage {
            pname = "phalanx";
            version = cargo.workspace.package.version;
            src = ../..;
            cargoLock.lockFile = ../../Cargo.lock;
            cargoBuildFlags = [ "--package=phalanx" ];
            nativeBuildInputs = [ pkgs.installShellFiles ];
            # They want mounts, a terminal, servers and the history: .ci/run has them.
            doCheck = false;
            postInstall = ''
              mkdir man
              $out/bin/phalanx man man
              installManPage man/*.1
              for shell in bash zsh fish; do $out/bin/phalanx completions $shell >phalanx.$shell; done
              installShellCompletion phalanx.{bash,zsh,fish}
            '';
            meta = {
              description = "Protects files with AES and SHA-3, as fast as the machine can move them";
              license = [
                pkgs.lib.licenses.mit
                pkgs.lib.licenses.asl20
              ];
              mainProgram = "phalanx";
            };
          };
        }
      );
    };
}
