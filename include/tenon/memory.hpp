// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/memory/boxes.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/memory/cuda/check.hpp"
#include "tenon/memory/cuda/stream.hpp"
#include "tenon/memory/cuda_device.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/memory/emulated_device.hpp"
#include "tenon/memory/keep_pages.hpp"
#include "tenon/memory/meter.hpp"
#include "tenon/memory/seen_by_host.hpp"
