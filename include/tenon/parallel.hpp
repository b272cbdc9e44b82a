// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/parallel/flat_group.hpp"
#include "tenon/parallel/parameter_store.hpp"
#include "tenon/parallel/run_strategy.hpp"
#include "tenon/parallel/schedule/chart.hpp"
#include "tenon/parallel/schedule/check.hpp"
#include "tenon/parallel/schedule/choice.hpp"
#include "tenon/parallel/schedule/generate.hpp"
#include "tenon/parallel/schedule/svg.hpp"
#include "tenon/parallel/schedule/table.hpp"
#include "tenon/parallel/schedule/time.hpp"
#include "tenon/parallel/schedule/walk.hpp"
#include "tenon/parallel/shards.hpp"
#include "tenon/parallel/strategy.hpp"
#include "tenon/parallel/tied_parameter.hpp"
