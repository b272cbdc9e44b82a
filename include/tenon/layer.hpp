// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/layer/assignment.hpp"
#include "tenon/layer/attention.hpp"
#include "tenon/layer/chain.hpp"
#include "tenon/layer/concept.hpp"
#include "tenon/layer/context.hpp"
#include "tenon/layer/dropout.hpp"
#include "tenon/layer/embedding.hpp"
#include "tenon/layer/feed_forward.hpp"
#include "tenon/layer/linear.hpp"
#include "tenon/layer/normalization.hpp"
#include "tenon/layer/parameter.hpp"
#include "tenon/layer/pointwise.hpp"
#include "tenon/layer/redistributed.hpp"
#include "tenon/layer/residual.hpp"
#include "tenon/layer/sizes.hpp"
