// The attributes that all operators with a sliding window share.
#pragma once

#include "model/node_reader.hpp"

namespace braze::model {

/// kernel_shape, strides, dilations, pads and auto_pad. kModelInvalid for numbers that no window
/// has.
Window read_window(NodeReader& node);

}  // namespace braze::model
