// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/parallel/data.hpp"
#include "tenon/parallel/run_strategy.hpp"
#include "tenon/parallel/strategy.hpp"
