#!/bin/sh
# build.sh OUT [FLAGS...]: build the fuzzer, each file with the flags for its instruction set; AMX is emulated.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
shift
avx512="-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma"
objects=$(mktemp -d)
for source in "$here"/../src/*.cpp "$here"/fuzz.cpp; do
  own=
  case "$("${CXX:-c++}" -dumpmachine | cut -d- -f1)/$(basename "$source")" in
    aarch64/kernels_neon.cpp) own="-march=armv8.2-a+dotprod" ;;
    aarch64/kernels_neon_i8mm.cpp) own="-march=armv8.2-a+dotprod+i8mm" ;;
    x86_64/kernels_avx2.cpp) own="-mavx2 -mfma" ;;
    x86_64/kernels_avx512.cpp) own="$avx512" ;;
    x86_64/kernels_avx512_bf16.cpp) own="$avx512 -mavx512bf16" ;;
    x86_64/kernels_amx.cpp) own="$avx512 -mavx512bf16 -DHEEDFUL_EMULATE_AMX" ;;
  esac
  # shellcheck disable=SC2086
  "${CXX:-c++}" -std=c++17 -DHEEDFUL_MIN_WORK=0 -DHEEDFUL_MIN_WORK_TO_WAKE=0 -O1 -g -ffp-contract=fast -Wall -Wextra -Werror -Wno-psabi -pthread $own "$@" -c "$source" \
    -o "$objects/$(basename "$source").o"
done
"${CXX:-c++}" -pthread "$@" "$objects"/*.o -o "$out"
rm -r "$objects"
