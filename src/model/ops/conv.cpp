// Conv, ConvTranspose, QLinearConv, and the window that they share with the pools.
#include <algorithm>

#include "model/ops/readers.hpp"
#include "model/ops/window.hpp"

namespace braze::model {
namespace {

/// Far beyond any tensor, and products of two of them do not overflow.
constexpr std::int64_t kFarthest = std::int64_t{1} << 31;

Ints bounded(NodeReader& node, const char* name, std::int64_t least) {
  Ints values = node.attributes.integers(name);
  for (const std::int64_t value : values) {
    if (value < least || value > kFarthest) {
      node.invalid("attribute '{}' is {}, expected numbers from {} to {}", name, to_string(values),
                   least, kFarthest);
    }
  }
  return values;
}

std::int64_t read_group(NodeReader& node) {
  const std::int64_t group = node.attributes.integer("group", 1);
  if (group < 1 || group > kFarthest) node.invalid("group is {}, expected 1 or more", group);
  return group;
}

}  // namespace

Window read_window(NodeReader& node) {
  Window window;
  window.kernel = bounded(node, "kernel_shape", 1);
  window.strides = bounded(node, "strides", 1);
  window.dilations = bounded(node, "dilations", 1);
  const Ints pads = bounded(node, "pads", -kFarthest);  // negative ones crop
  if (pads.size() % 2 != 0) {
    node.invalid("attribute 'pads' is {}, expected begins and ends", to_string(pads));
  }
  const auto middle = pads.begin() + std::ssize(pads) / 2;
  window.pads_begin.assign(pads.begin(), middle);
  window.pads_end.assign(middle, pads.end());
  window.auto_pad = node.attributes.choice<AutoPad>("auto_pad", "NOTSET",
                                                    {{"NOTSET", AutoPad::kNotSet},
                                                     {"", AutoPad::kNotSet},
                                                     {"VALID", AutoPad::kValid},
                                                     {"SAME_UPPER", AutoPad::kSameUpper},
                                                     {"SAME_LOWER", AutoPad::kSameLower}});
  return window;
}

void read_conv(NodeReader& node) {
  Window window = read_window(node);
  node.emit(Conv{std::move(window), read_group(node)});
}

void read_conv_transpose(NodeReader& node) {
  ConvTranspose op;
  op.window = read_window(node);
  op.output_padding = bounded(node, "output_padding", 0);
  op.output_shape = bounded(node, "output_shape", 0);
  op.group = read_group(node);
  node.emit(std::move(op));
}

void read_qlinear_conv(NodeReader& node) {
  Window window = read_window(node);
  node.emit(QLinearConv{std::move(window), read_group(node)});
}

}  // namespace braze::model
