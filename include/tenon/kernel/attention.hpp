// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/kernel/attention/backward.hpp"
#include "tenon/kernel/attention/forward.hpp"
