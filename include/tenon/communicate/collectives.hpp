// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/communicate/all_gather.hpp"
#include "tenon/communicate/all_reduce.hpp"
#include "tenon/communicate/all_to_all.hpp"
#include "tenon/communicate/barrier.hpp"
#include "tenon/communicate/broadcast.hpp"
#include "tenon/communicate/point_to_point.hpp"
#include "tenon/communicate/reduce_scatter.hpp"
