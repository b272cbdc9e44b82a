// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tenon/train/batches.hpp"
#include "tenon/train/clip.hpp"
#include "tenon/train/learning_rate.hpp"
#include "tenon/train/optimizer.hpp"
#include "tenon/train/progress.hpp"
#include "tenon/train/sample_text.hpp"
#include "tenon/train/stage_runner.hpp"
#include "tenon/train/step_log.hpp"
#include "tenon/train/table.hpp"
#include "tenon/train/text.hpp"
#include "tenon/train/trainer.hpp"
