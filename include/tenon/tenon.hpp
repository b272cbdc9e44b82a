// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/base.hpp"
#include "tenon/communicate.hpp"
#include "tenon/communicate/mpi.hpp"
#include "tenon/communicate/program.hpp"
#include "tenon/kernel.hpp"
#include "tenon/layer.hpp"
#include "tenon/memory.hpp"
#include "tenon/mesh.hpp"
#include "tenon/model.hpp"
#include "tenon/parallel.hpp"
#include "tenon/placement.hpp"
#include "tenon/tensor.hpp"
#include "tenon/train.hpp"
