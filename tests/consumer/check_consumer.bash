#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_consumer.bash ROOT BUILD CMAKE package|sources|sources_configured FLAG...: a project outside
# the tree uses tenon: installed from BUILD and then moved, or as sources by FetchContent.
set -eu
root=$1 build=$2 cmake=$3 form=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -r "$root/tests/consumer/program" "$folder/program"

if [ "$form" = package ]; then
  "$cmake" --install "$build" --prefix "$folder/installed" >/dev/null
  mv "$folder/installed" "$folder/moved"
  set -- -DFORM=package "-DCMAKE_PREFIX_PATH=$folder/moved" "$@"
else
  set -- -DFORM=sources "-DFETCHCONTENT_SOURCE_DIR_TENON=$root" "$@"
fi
"$cmake" -S "$folder/program" -B "$folder/build" "$@"
[ "$form" != sources_configured ] || exit 0
"$cmake" --build "$folder/build" -j 2
said=$("$folder/build/consumer")
echo "$said"
[ "$said" = "checked 150, fast 150" ]
