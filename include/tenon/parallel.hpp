// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/parallel/data.hpp"
#include "tenon/parallel/schedule/chart.hpp"
#include "tenon/parallel/schedule/check.hpp"
#include "tenon/parallel/schedule/choice.hpp"
#include "tenon/parallel/schedule/generate.hpp"
#include "tenon/parallel/schedule/svg.hpp"
#include "tenon/parallel/schedule/table.hpp"
#include "tenon/parallel/schedule/time.hpp"
#include "tenon/parallel/schedule/walk.hpp"
#include "tenon/parallel/strategy.hpp"
