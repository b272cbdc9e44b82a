// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/memory/boxes.hpp"
#include "tenon/memory/buffer.hpp"
#include "tenon/memory/copy.hpp"
#include "tenon/memory/device.hpp"
#include "tenon/memory/keep_pages.hpp"
#include "tenon/memory/meter.hpp"
