#!/bin/bash
# tests/on_arm64.sh FOLDER PYTEST-ARGUMENTS…: run tests in an emulated 64-bit ARM process, some twenty times as slow.
# Debian's Python for arm64 and the locked wheels go into FOLDER; no package of this machine changes.
set -euo pipefail
command -v qemu-aarch64-static apt-get >/dev/null || { echo "this needs Debian and its package qemu-user-static"; exit 1; }
mkdir -p "$1" && folder=$(realpath "$1") && shift

if [ ! -e "$folder/.complete" ]; then
  rm -rf "$folder"/{state,cache,root,site}  # of an attempt that ended early
  mkdir -p "$folder"/{state/lists/partial,cache/archives/partial,root,home}
  touch "$folder/state/status"
  printf '%s\n' 'APT::Architecture "arm64";' 'APT::Architectures {"arm64";};' "Dir::State \"$folder/state\";" \
    "Dir::State::status \"$folder/state/status\";" "Dir::Cache \"$folder/cache\";" > "$folder/apt.conf"
  export APT_CONFIG=$folder/apt.conf
  apt-get update -qq
  apt-get install -qq --yes --no-install-recommends --download-only python3 libstdc++6 libgomp1
  for package in "$folder"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
  unset APT_CONFIG
fi

python=$(realpath "$folder"/root/usr/bin/python3)
arm() { qemu-aarch64-static -L "$folder/root" "$python" "$@"; }

if [ ! -e "$folder/.complete" ]; then
  version=$(arm -c 'import sys; print(f"{sys.version_info.major}.{sys.version_info.minor}.99")')  # some ask for a later patch
  platforms=$(seq -f '--platform manylinux_2_%g_aarch64' 17 28)
  # shellcheck disable=SC2086
  python3 -m pip install --quiet --root-user-action ignore \
    --target "$folder/site" $platforms --platform manylinux2014_aarch64 \
    --python-version "$version" --implementation cp --only-binary :all: --no-deps --require-hashes -r requirements.lock
  touch "$folder/.complete"
fi

# The emulated processor has no name that LLVM knows, so the kernels are compiled for a common one.
export NUMBA_CPU_NAME=neoverse-n1 NUMBA_CPU_FEATURES=+neon,+fp-armv8,+aes,+crc,+lse
export PYTHONPATH=$folder/site:$PWD NUMBA_CACHE_DIR=$folder/compiled HOME=$folder/home OPENBLAS_NUM_THREADS=1
unset OPENBLAS_CORETYPE
arm -m pytest -q -p no:cacheprovider -p no:xdist "$@"
