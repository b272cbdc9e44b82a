// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/mesh/axis.hpp"
#include "tenon/mesh/mesh.hpp"
