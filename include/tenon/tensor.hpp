// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/tensor/copy_block.hpp"
#include "tenon/tensor/print.hpp"
#include "tenon/tensor/random.hpp"
#include "tenon/tensor/redistribute.hpp"
#include "tenon/tensor/remesh.hpp"
#include "tenon/tensor/spread.hpp"
#include "tenon/tensor/tensor.hpp"
#include "tenon/tensor/view.hpp"
