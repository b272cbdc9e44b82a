#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_flags.bash FLAGS.MD PROGRAM: the page's table names the flags that --help names, no others.
set -eu
in_page=$(sed -n 's/^| `\(--[a-z-]*\).*/\1/p' "$1" | sort)
in_help=$("$2" --help | sed -n 's/^ *\(-[a-z],\)\{0,1\}\(--[a-z-]*\).*/\2/p' | sort)
[ -n "$in_help" ]
[ "$in_page" = "$in_help" ] || {
  printf 'in the page:\n%s\nin --help:\n%s\n' "$in_page" "$in_help"
  exit 1
}
