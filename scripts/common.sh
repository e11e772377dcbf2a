# Functions that the scripts share. Sourced, after `set -euo pipefail`, from any folder; goes to the repository's root.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# The time that archives state: the commit's, so that the same commit gives the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$(basename "$0"): $*"
    exit 1
}

# configure FOLDER [CMAKE-ARGUMENT...]: says nothing unless it fails.
configure() {
    local folder=$1
    shift
    mkdir -p "$folder"
    if ! cmake -S . -B "$folder" -G Ninja "$@" >"$folder/configure.log" 2>&1; then
        cat "$folder/configure.log" >&2
        die "cmake could not configure $folder; its words are above"
    fi
}

# build FOLDER [CMAKE-ARGUMENT...]: configures what is not configured yet and builds what is not up to date: the
# `targets`, or all. The first time a terminal sees the progress; later only the compilers' own words are shown.
build() {
    local folder=$1 failed="the build in $1 failed; the compiler's words are above"
    shift
    if [ ! -f "$folder/build.ninja" ]; then
        say "Building in $folder"
        configure "$folder" "$@"
        if [ -t 2 ]; then
            ninja -C "$folder" ${targets[@]+"${targets[@]}"} >&2 || die "$failed"
            return
        fi
    fi
    ninja -C "$folder" --quiet ${targets[@]+"${targets[@]}"} | sed '/^ninja: no work to do/d' >&2 || die "$failed"
}

# Instrumented builds are clang's, with lines for its reports and lld, which links them in a fifth of the time. They
# stop at -O1: at -O3 compilers take minutes for one file of kernels.
instrumented=(-DCMAKE_BUILD_TYPE=None -DRIFFLE_ASSERTS=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
for language in C CXX; do instrumented+=("-DCMAKE_${language}_FLAGS=-O1 -gline-tables-only"); done
for kind in EXE SHARED; do instrumented+=("-DCMAKE_${kind}_LINKER_FLAGS=-fuse-ld=lld"); done

# build_asan [CMAKE-ARGUMENT...]: AddressSanitizer and UndefinedBehaviorSanitizer: the tests and, with libFuzzer, the fuzz
# targets, or only the `targets`.
build_asan() {
    build build/check/asan "${instrumented[@]}" -DRIFFLE_SANITIZE=address,undefined -DRIFFLE_FUZZ=ON "$@"
}

# pack_tar FOLDER FILE: a .tar.gz of the folder with the same bytes for the same files
pack_tar() {
    tar -C "$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --mode=u+rw,go+r,go-w,a+X -cf - "$(basename "$1")" | gzip -9n >"$2"
}
