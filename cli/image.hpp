// Pictures as inputs: PNG and JPEG files turned into the tensor that a network takes.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "braze/braze.hpp"

namespace braze::cli {

/// Float inputs hold (pixel * scale - mean) / std with pixels from 0 to 255; uint8 inputs hold the
/// pixels.
struct ImageOptions {
  std::vector<double> mean;     // empty: 0. One value, or one per channel in the order of the input
  std::vector<double> std;      // empty: 1
  std::optional<double> scale;  // default 1/255
  bool resize =
      false;         // bring the picture to the input's height and width; otherwise they must agree
  bool bgr = false;  // channels in the order blue, green, red
};

/// The picture as a tensor for `input`: float32, float16 or uint8, [1,C,H,W] or [1,H,W,C] with C in
/// {1, 3, 4}. Where the shape allows both, `channels_last` decides. kInput naming the file or the
/// input; kUsage for options that do not fit.
Tensor load_image(const std::filesystem::path& file, const TensorInfo& input, bool channels_last,
                  const ImageOptions& options);

}  // namespace braze::cli
