# scripts/release writes version, address and hash. Linux on x86-64 only, as Riffle itself.
class Riffle < Formula
  desc "CPU-first runtime for large language models"
  homepage "@HOME@"
  url "@URL@/riffle-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on arch: :x86_64
  depends_on "curl"
  depends_on "hwloc"
  depends_on "jansson"
  depends_on :linux
  depends_on "minizip"
  depends_on "openssl@3"
  depends_on "pcre2"
  depends_on "sentencepiece"
  depends_on "utf8proc"
  depends_on "zydis"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DRIFFLE_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/riffle --version")
  end
end
