# A formula of Homebrew. packages/recipes/fill puts the address and the digest of a release in.
class Phalanx < Formula
  desc "Protects files with AES and SHA-3, as fast as the machine can move them"
  homepage "@ADDRESS@"
  url "@ADDRESS@/phalanx-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args
    generate_completions_from_executable(bin/"phalanx", "completions")
    (buildpath/"man").mkpath
    system bin/"phalanx", "man", buildpath/"man"
    man1.install Dir["man/*.1"]
  end

  test do
    ENV["PHALANX_KEYRING"] = testpath/"ring"
    (testpath/"plain").write "text"
    system bin/"phalanx", "key", "new", "work"
    system bin/"phalanx", "protect", "plain", "--key", "work"
    system bin/"phalanx", "unprotect", "plain.phx", "--output", "again"
    assert_equal "text", (testpath/"again").read
  end
end
