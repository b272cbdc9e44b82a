// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/placement/context_traffic.hpp"
#include "tenon/placement/dims.hpp"
#include "tenon/placement/layout.hpp"
#include "tenon/placement/move.hpp"
#include "tenon/placement/partition.hpp"
#include "tenon/placement/pieces_traffic.hpp"
#include "tenon/placement/placement.hpp"
#include "tenon/placement/propagate.hpp"
#include "tenon/placement/state.hpp"
#include "tenon/placement/token_order.hpp"
#include "tenon/placement/traffic.hpp"
