#include "target/epilogue.hpp"

#include <fmt/format.h>

namespace braze {
namespace {

const char* to_string(Broadcast broadcast) {
  switch (broadcast) {
    case Broadcast::kScalar:
      return "scalar";
    case Broadcast::kChannel:
      return "channel";
    case Broadcast::kPixel:
      return "pixel";
    case Broadcast::kImage:
      return "image";
    case Broadcast::kFull:
      return "full";
  }
  return "?";
}

}  // namespace

std::optional<Broadcast> classify_broadcast(const Shape& operand, const Shape& output,
                                            std::string* why) {
  const auto refuse = [why](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  if (operand.size() > output.size()) {
    return refuse(fmt::format("operand {} has a higher rank than the result {}", to_string(operand),
                              to_string(output)));
  }
  const std::size_t offset = output.size() - operand.size();
  bool varies_n = false, varies_c = false, varies_spatial = false, fixed_spatial = false,
       fixed_n = false, fixed_c = false;
  std::string axes;
  for (std::size_t axis = 0; axis < output.size(); ++axis) {
    if (output[axis] == 1) continue;  // one element: it varies and does not
    const std::int64_t extent = axis < offset ? 1 : operand[axis - offset];
    if (extent != 1 && extent != output[axis]) {
      return refuse(fmt::format("operand {} does not broadcast to the result {}",
                                to_string(operand), to_string(output)));
    }
    const bool varies = extent != 1;
    (axis == 0   ? (varies ? varies_n : fixed_n)
     : axis == 1 ? (varies ? varies_c : fixed_c)
                 : (varies ? varies_spatial : fixed_spatial)) = true;
    if (varies) axes += fmt::format("{}{}", axes.empty() ? "" : ", ", axis);
  }
  if (!varies_n && !varies_c && !varies_spatial) {
    // One element, or a result of one element: as wide as the result if that has one element too.
    return Broadcast::kScalar;
  }
  if (!fixed_n && !fixed_c && !fixed_spatial) return Broadcast::kFull;
  if (varies_c && !varies_n && !varies_spatial) return Broadcast::kChannel;
  if (varies_c && !varies_spatial && !fixed_n) return Broadcast::kImage;
  if (varies_spatial && !varies_c && !fixed_spatial) return Broadcast::kPixel;
  return refuse(fmt::format(
      "operand {} varies along axes {} of the result {}: not along channels, pixels or all of it",
      to_string(operand), axes, to_string(output)));
}

std::string print(const Epilogue& epilogue) {
  std::string text;
  for (const EpilogueStep& step : epilogue.steps) {
    if (!text.empty()) text += ' ';
    if (step.cast) {
      text += fmt::format("to_{}", to_string(*step.cast));
      continue;
    }
    if (!step.unary.has_value()) {
      text += fmt::format("{}{}({})", step.swapped ? "reverse_" : "", to_string(step.binary),
                          to_string(step.broadcast));
      continue;
    }
    text += to_string(step.unary->fn);
    if (step.unary->alpha != 0 || step.unary->beta != 0)
      text += fmt::format("({:g},{:g})", step.unary->alpha, step.unary->beta);
  }
  return text;
}

}  // namespace braze
