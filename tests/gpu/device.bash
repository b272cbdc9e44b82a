#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# device.bash CUDA_FOUND: says what there is. This version has no code for a device, so there is
# nothing that could pass: the test is skipped, with the reason.
if [ "${1:-}" != ON ]; then echo "skipped: this build found no CUDA toolkit"; fi
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
  echo "skipped: there is no GPU on this machine"
fi
echo "skipped: this version has no device code"
exit 77
