#!/bin/bash -eu
# Builds the fuzz targets into $OUT, each with its seeds, limits and the libraries that it needs. OSS-Fuzz sets
# SRC, WORK, OUT, CC, CXX, CFLAGS, CXXFLAGS and LIB_FUZZING_ENGINE.
#
# fuzz_api and fuzz_state are left out: they read a model beside them, and their inputs are calls more than files.
set -o pipefail
cd "${RIFFLE_SOURCE:-$SRC/riffle}"

# The distribution's sentencepiece needs libstdc++.
export CXXFLAGS=${CXXFLAGS/-stdlib=libc++/}
build=$WORK/build
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DRIFFLE_ASSERTS=ON -DRIFFLE_FUZZ=ON \
    "-DRIFFLE_FUZZ_ENGINE=$LIB_FUZZING_ENGINE"

mkdir -p "$OUT/lib"
for corpus in test/fuzz/corpus/*/; do
    name=fuzz_$(basename "$corpus")
    case $name in fuzz_api | fuzz_state) continue ;; esac
    ninja -C "$build" "$name"
    cp "$build/$name" "$OUT/"
    # The machines that run the targets have the C library alone.
    ldd "$OUT/$name" | awk '$3 ~ "^/" && $3 !~ "/lib(c|m|dl|rt|pthread|resolv)[.]so" { print $3 }' |
        xargs -r cp -nL -t "$OUT/lib"
    patchelf --force-rpath --set-rpath "\$ORIGIN/lib" "$OUT/$name"
    zip -qj "$OUT/${name}_seed_corpus.zip" "$corpus"*
    printf '[libfuzzer]\ntimeout = 10\nrss_limit_mb = 2048\nmalloc_limit_mb = 512\n' >"$OUT/$name.options"
done
