// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/model/decoder.hpp"
#include "tenon/model/decoder_model.hpp"
#include "tenon/model/experts_decoder.hpp"
#include "tenon/model/placements.hpp"
#include "tenon/model/shape.hpp"
