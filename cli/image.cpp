#include "cli/image.hpp"

#include <stb_image.h>
#include <stb_image_resize.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/failure.hpp"
#include "cli/text.hpp"

namespace braze::cli {
namespace {

/// How an input holds a picture.
struct Frame {
  std::int64_t channels = 0, height = 0, width = 0;
  bool channels_last = false;
};

bool is_channel_count(std::int64_t extent) { return extent == 1 || extent == 3 || extent == 4; }

Frame frame_of(const TensorInfo& input, bool channels_last) {
  const Shape& s = input.shape;
  if (s.size() == 4 && s[0] == 1) {
    const bool first = is_channel_count(s[1]);
    const bool last = is_channel_count(s[3]);
    if (last && (channels_last || !first)) return {s[3], s[1], s[2], true};
    if (first && !channels_last) return {s[1], s[2], s[3], false};
  }
  fail(ErrorCode::kInput,
       "input '{}' is {}; a picture goes into [1,C,H,W] or [1,H,W,C] with 1, 3 or 4 channels",
       input.name, type_text(input.dtype, s));
}

using Pixels = std::unique_ptr<stbi_uc, decltype(&stbi_image_free)>;

/// Decoded pixels, [height, width, channels], of the frame's size.
Pixels decode(const std::filesystem::path& file, const TensorInfo& input, const Frame& frame,
              bool resize) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"),
                                                               &std::fclose);
  if (!stream) fail(ErrorCode::kInput, "cannot open picture {}", file.string());
  int width = 0;
  int height = 0;
  int channels = 0;
  if (stbi_info_from_file(stream.get(), &width, &height, &channels) == 0)
    fail(ErrorCode::kInput, "{} is no PNG or JPEG: {}", file.string(), stbi_failure_reason());
  const bool fits = width == frame.width && height == frame.height;
  if (!fits && !resize) {
    fail(ErrorCode::kInput,
         "{} is {} pixels wide and {} high, input '{}' takes {} by {} (--resize scales it)",
         file.string(), width, height, input.name, frame.width, frame.height);
  }
  const int wanted = static_cast<int>(frame.channels);
  Pixels pixels(stbi_load_from_file(stream.get(), &width, &height, &channels, wanted),
                &stbi_image_free);
  if (!pixels)
    fail(ErrorCode::kInput, "cannot decode {}: {}", file.string(), stbi_failure_reason());
  if (fits) return pixels;
  const auto bytes = static_cast<std::size_t>(frame.width * frame.height * frame.channels);
  Pixels scaled(static_cast<stbi_uc*>(std::malloc(bytes)), &stbi_image_free);
  if (!scaled || stbir_resize_uint8(pixels.get(), width, height, 0, scaled.get(),
                                    static_cast<int>(frame.width), static_cast<int>(frame.height),
                                    0, wanted) == 0) {
    fail(ErrorCode::kOutOfMemory, "no memory to scale {} to {} by {}", file.string(), frame.width,
         frame.height);
  }
  return scaled;
}

/// One value per channel: `given` repeated if it is one, `otherwise` if there are none.
std::vector<double> per_channel(const std::vector<double>& given, std::int64_t channels,
                                double otherwise, const char* option) {
  const auto count = static_cast<std::size_t>(channels);
  if (given.empty()) return std::vector<double>(count, otherwise);
  if (given.size() == 1) return std::vector<double>(count, given[0]);
  if (given.size() == count) return given;
  fail(ErrorCode::kUsage, "{} has {} values, the picture {} channels", option, given.size(),
       channels);
}

/// binary16 bits, rounded to nearest even.
std::uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x1p-14F)  // subnormal: a multiple of 2^-24
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24F)));
  const std::uint32_t rounded = (bits & 0x7fffffffU) + 0xfffU + ((bits >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13U) - (112U << 10U)));
}

/// Calls put(index in the tensor, channel, pixel) for every element.
template <class Put>
void for_each_element(const stbi_uc* pixels, const Frame& frame, bool bgr, const Put& put) {
  const std::int64_t plane = frame.height * frame.width;
  for (std::int64_t c = 0; c < frame.channels; ++c) {
    const std::int64_t source = bgr && c < 3 && frame.channels >= 3 ? 2 - c : c;
    for (std::int64_t p = 0; p < plane; ++p) {
      const std::int64_t to = frame.channels_last ? p * frame.channels + c : c * plane + p;
      put(to, c, pixels[p * frame.channels + source]);
    }
  }
}

}  // namespace

Tensor load_image(const std::filesystem::path& file, const TensorInfo& input, bool channels_last,
                  const ImageOptions& options) {
  const Frame frame = frame_of(input, channels_last);
  const bool scaled = options.scale || !options.mean.empty() || !options.std.empty();
  if (input.dtype == DType::kUInt8 && scaled)
    fail(ErrorCode::kUsage,
         "input '{}' is uint8 and takes pixels as they are: no --mean, --std, --scale", input.name);
  const std::vector<double> mean = per_channel(options.mean, frame.channels, 0.0, "--mean");
  const std::vector<double> std = per_channel(options.std, frame.channels, 1.0, "--std");
  const double scale = options.scale.value_or(1.0 / 255.0);
  if (std::find(std.begin(), std.end(), 0.0) != std.end())
    fail(ErrorCode::kUsage, "--std must not be 0");

  const Pixels pixels = decode(file, input, frame, options.resize);
  Tensor tensor = Tensor::make(input.dtype, input.shape);
  const auto value = [&](std::int64_t c, stbi_uc pixel) {
    const auto channel = static_cast<std::size_t>(c);
    return static_cast<float>((pixel * scale - mean[channel]) / std[channel]);
  };
  const auto fill = [&](auto* data, const auto& convert) {
    for_each_element(
        pixels.get(), frame, options.bgr,
        [&](std::int64_t to, std::int64_t c, stbi_uc pixel) { data[to] = convert(c, pixel); });
  };
  switch (input.dtype) {
    case DType::kFloat32:
      fill(tensor.as<float>(), value);
      break;
    case DType::kFloat16:
      fill(tensor.as<std::uint16_t>(),
           [&](std::int64_t c, stbi_uc pixel) { return half_bits(value(c, pixel)); });
      break;
    case DType::kUInt8:
      fill(tensor.as<std::uint8_t>(), [](std::int64_t, stbi_uc pixel) { return pixel; });
      break;
    default:
      fail(ErrorCode::kInput, "input '{}' is {}; a picture goes into float, float16 or uint8",
           input.name, to_string(input.dtype));
  }
  return tensor;
}

}  // namespace braze::cli
