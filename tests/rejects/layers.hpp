// SPDX-License-Identifier: Apache-2.0
// What the programs about layers include, compiled once for all of them.
#pragma once

#include "tenon/layer.hpp"
#include "tenon/train/optimizer.hpp"
