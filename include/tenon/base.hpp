// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base/check.hpp"
#include "tenon/base/checks.hpp"
#include "tenon/base/element.hpp"
#include "tenon/base/host_device.hpp"
#include "tenon/base/log.hpp"
#include "tenon/base/random.hpp"
#include "tenon/base/text.hpp"
#include "tenon/base/type_list.hpp"
#include "tenon/base/version.hpp"
