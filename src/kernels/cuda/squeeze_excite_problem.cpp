#include "kernels/cuda/squeeze_excite.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace braze::cuda::squeezing {
namespace {

constexpr int kMostOfCluster = 8;  // blocks of a portable cluster

bool is_small_float(DType dtype) { return is_float(dtype) && dtype != DType::kFloat64; }

/// [n, c] or [n, c, 1, ...]
bool is_vector(const Value& value, std::int64_t n, std::int64_t c) {
  const Shape& shape = value.shape;
  return is_small_float(value.dtype) && shape.size() >= 2 && shape[0] == n && shape[1] == c &&
         element_count(shape) == n * c;
}

/// Weight [outputs][inputs] of a product that makes a vector from a vector; nullptr if the node is
/// none.
const Value* product_weight(const Graph& graph, const Node& node) {
  const Value* weight = node.inputs.size() < 2 ? nullptr : &graph.value(node.inputs[1]);
  if (weight == nullptr || !weight->is_constant() || !is_small_float(weight->dtype)) return nullptr;
  if (const auto* conv = node.as<Conv>()) {
    const Window& window = conv->window;
    const auto none = [](const Ints& pads) {
      return std::ranges::all_of(pads, [](std::int64_t pad) { return pad == 0; });
    };
    const bool pointwise = conv->group == 1 && element_count(window.kernel) == 1;
    return pointwise && none(window.pads_begin) && none(window.pads_end) ? weight : nullptr;
  }
  const auto* gemm = node.as<Gemm>();
  return gemm != nullptr && !gemm->trans_a && gemm->alpha == 1 ? weight : nullptr;
}

std::int64_t outputs_of(const Graph& graph, const Node& node) {
  return graph.value(node.output()).shape[1];
}

/// Walks the members in order.
class Reader {
 public:
  Reader(const Graph& graph, const Group& group) : graph_(graph), group_(group) {}

  /// Nothing if the group has another shape; then `why` has a rule if it nearly had this one.
  std::optional<Problem> read(Support& why) {
    why = Support::no("", "");
    read_pool();
    if (!read_product(problem_.squeeze) || !read_product(problem_.excite)) return std::nullopt;
    problem_.hidden = outputs_of(graph_, graph_.node(problem_.squeeze->anchor));
    if (outputs_of(graph_, graph_.node(problem_.excite->anchor)) != problem_.channels)
      return std::nullopt;
    if (at_ < group_.members.size() && !read_scale(why)) return std::nullopt;
    if (at_ != group_.members.size() || problem_.channels == 0 || problem_.hidden == 0 ||
        problem_.images == 0 || problem_.pixels == 0 || reads_inside())
      return std::nullopt;
    return problem_;
  }

 private:
  const Value& value(ValueId id) const { return graph_.value(id); }
  const Group::Member* member() const {
    return at_ < group_.members.size() ? &group_.members[at_] : nullptr;
  }

  /// Does a member read what another one makes, but for the vector that is passed on?
  bool reads_inside() const {
    const auto is_made = [this](ValueId id) {
      return std::ranges::any_of(group_.members, [&](const Group::Member& one) {
        return id != kNoValue && (id == one.result || id == graph_.node(one.anchor).output());
      });
    };
    if (is_made(problem_.x)) return true;
    return std::ranges::any_of(group_.members, [&](const Group::Member& one) {
      const Node& node = graph_.node(one.anchor);
      const bool product = &one == problem_.squeeze || &one == problem_.excite;
      return (product && is_made(node.input(2))) ||
             std::ranges::any_of(one.epilogue.steps,
                                 [&](const EpilogueStep& step) { return is_made(step.operand); });
    });
  }

  void read_pool() {
    const Node& node = graph_.node(member()->anchor);
    const auto* reduce = node.as<Reduce>();
    if (reduce == nullptr || reduce->fn != ReduceFn::kMean || !member()->epilogue.empty()) return;
    const Value& x = value(node.inputs[0]);
    Ints spatial(x.shape.size() < 3 ? 0 : x.shape.size() - 2);
    std::iota(spatial.begin(), spatial.end(), 2);
    if (spatial.empty() || reduce->axes != spatial || !is_small_float(x.dtype)) return;
    problem_.pool = &node;
    set_image(node.inputs[0]);
    vector_ = node.output();
    ++at_;
  }

  void set_image(ValueId id) {
    const Shape& shape = value(id).shape;
    problem_.x = id;
    problem_.images = shape[0];
    problem_.channels = shape[1];
    problem_.pixels =
        std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1}, std::multiplies<>());
  }

  /// Reshapes that keep the vector one.
  void skip_reshapes() {
    for (; vector_ != kNoValue && member() != nullptr; ++at_) {
      const Node& node = graph_.node(member()->anchor);
      if (node.kind() != OpKind::kReshape || node.inputs[0] != vector_ ||
          !member()->epilogue.empty() ||
          !is_vector(value(node.output()), value(vector_).shape[0], value(vector_).shape[1]))
        return;
      vector_ = node.output();
    }
  }

  bool read_product(const Group::Member*& product) {
    skip_reshapes();
    if (member() == nullptr) return false;
    const Node& node = graph_.node(member()->anchor);
    const Value* weight = product_weight(graph_, node);
    if (weight == nullptr) return false;
    const ValueId from = node.inputs[0];
    if (vector_ == kNoValue) {
      problem_.mean = from;
      if (value(from).is_constant() || value(from).shape.size() < 2) return false;
      problem_.images = value(from).shape[0];
      problem_.channels = value(from).shape[1];
    } else if (from != vector_) {
      return false;
    }
    const std::int64_t inputs = value(from).shape[1];
    if (!is_vector(value(from), problem_.images, inputs) ||
        !is_vector(value(member()->result), problem_.images, outputs_of(graph_, node)))
      return false;
    problem_.dtype = weight->dtype;
    product = member();
    vector_ = member()->result;
    ++at_;
    return true;
  }

  bool read_scale(Support& why) {
    skip_reshapes();
    if (member() == nullptr) return false;
    const Node& node = graph_.node(member()->anchor);
    const auto* binary = node.as<Binary>();
    if (binary == nullptr || binary->fn != BinaryFn::kMul ||
        (node.inputs[0] == vector_) == (node.inputs[1] == vector_))
      return false;
    const ValueId x = node.inputs[node.inputs[0] == vector_ ? 1 : 0];
    const Value& gate = value(vector_);
    if (value(x).is_constant() || !is_small_float(value(x).dtype) ||
        value(x).shape.size() != gate.shape.size() || gate.shape.size() < 3 ||
        value(x).shape[0] != problem_.images || value(x).shape[1] != problem_.channels ||
        !is_small_float(value(member()->result).dtype))
      return false;
    if (problem_.pool != nullptr && x != problem_.x) {
      why = Support::no("other-image", fmt::format("the mean is of '{}', what is scaled is '{}'",
                                                   value(problem_.x).name, value(x).name));
      return false;
    }
    set_image(x);
    problem_.scale = member();
    ++at_;
    return true;
  }

  const Graph& graph_;
  const Group& group_;
  Problem problem_;
  ValueId vector_ = kNoValue;  // the result of the members so far
  std::size_t at_ = 0;
};

/// What a block may use.
std::int64_t shared_limit(const Device& device) {
  return static_cast<std::int64_t>(device.onchip_bytes) - 1024;
}

/// Vectors of `vector` channels that a thread has.
std::int64_t vectors_of_thread(const Problem& problem, const Split& split, int vector) {
  const std::int64_t channels = std::min(split.slice(problem), problem.channels);
  const std::int64_t vectors = ceil_div(channels, vector);
  const std::int64_t columns = std::min<std::int64_t>(vectors, kThreads);
  return ceil_div(vectors, columns) * ceil_div(split.range(problem), kThreads / columns);
}

}  // namespace

std::optional<Problem> read(const Graph& graph, const Group& group, Support& why) {
  return Reader(graph, group).read(why);
}

Problem read(const Graph& graph, const Group& group) {
  Support why;
  const std::optional<Problem> problem = read(graph, group, why);
  ensure(problem.has_value(), "a planned group has its family's shape");
  return *problem;
}

Arena arena_of(const Problem& problem, const Split& split) {
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t slice = split.slice(problem), hidden = round_up(problem.hidden, 8);
  Arena arena;
  arena.excite_at = problem.hidden * slice * element;
  arena.weights = arena.excite_at + slice * hidden * element;
  std::int64_t end = arena.weights;
  const auto reserve = [&end](std::int64_t& at, std::int64_t floats) {
    at = round_up(end, 32);
    end = at + floats * 4;
  };
  const bool pool = problem.pool != nullptr;
  const std::int64_t sums = pool ? std::max<std::int64_t>(kThreads * kWidest, slice) : 0;
  reserve(arena.partial_at, std::max(sums, hidden));
  reserve(arena.groups_at, pool ? std::max<std::int64_t>(kThreads, slice) : 0);
  reserve(arena.totals_at, pool && split.ranges > 1 ? split.ranges * slice : 0);
  reserve(arena.mean_at, slice);
  reserve(arena.parts_at, split.slices > 1 ? split.slices * hidden : 0);
  reserve(arena.hidden_at, hidden);
  reserve(arena.gate_at, slice);
  reserve(arena.exchanged_at, 4);  // two barriers
  reserve(arena.held_at, 0);
  return arena;
}

std::int64_t vectors_held(const Problem& problem, const Split& split, int vector, DType x,
                          const Device& device) {
  if (problem.pool == nullptr || problem.scale == nullptr) return 0;
  const std::int64_t of_all = static_cast<std::int64_t>(size_of(x)) * vector * kThreads;
  const std::int64_t room = shared_limit(device) - arena_of(problem, split).held_at;
  return std::min(vectors_of_thread(problem, split, vector), room / of_all);
}

std::vector<Split> splits_of(const Problem& problem, const Device& device) {
  const bool clusters = device.sm >= 90;
  std::vector<Split> list;
  for (std::int64_t slices = 1; slices <= (clusters ? kMostOfCluster : 1); slices *= 2) {
    for (std::int64_t ranges = 1; ranges <= 64; ranges *= 2) {
      const Split split{slices, ranges};
      const std::int64_t cluster = split.cluster(problem);
      const std::int64_t last = (slices - 1) * split.slice(problem);
      const bool blocks = cluster <= (clusters ? kMostOfCluster : 1) && last < problem.channels;
      const bool pixels = ranges == 1 || (problem.x != kNoValue && ranges <= problem.pixels &&
                                          (problem.pool != nullptr || problem.scale != nullptr));
      if (blocks && pixels && arena_of(problem, split).held_at <= shared_limit(device))
        list.push_back(split);
    }
  }
  return list;
}

Support joins(const Graph& graph, const Group& group, const Device& device) {
  Support why;
  const std::optional<Problem> problem = read(graph, group, why);
  if (!problem) return why;
  constexpr std::int64_t kMost = 1 << 30;
  if (problem->pixels > kMost || problem->channels > 1 << 20 || problem->hidden > 1 << 20 ||
      problem->images > 1 << 20)
    return Support::no("extent", "too large for 32-bit coordinates");
  if (splits_of(*problem, device).empty()) {
    const auto element = static_cast<std::int64_t>(size_of(problem->dtype));
    return Support::no(
        "on-chip", fmt::format("the weights of {} to {} channels and back take {} KB; {} blocks of "
                               "{} KB share them",
                               problem->channels, problem->hidden,
                               2 * problem->channels * problem->hidden * element / 1024,
                               device.sm >= 90 ? kMostOfCluster : 1, shared_limit(device) / 1024));
  }
  return Support::yes();
}

double time_us(const Problem& problem, const Split& split, DType x, const Device& device) {
  // Fitted to 171 kernels of EfficientNet-B0 on an H200. Weights come slowly: all blocks ask for
  // the same ones.
  constexpr double kStart = 1.35, kTrip = 0.7, kProduct = 0.25, kSum = 2.05;
  constexpr double kParts = 0.5, kTotals = 0.4, kTotal = 2.5e-4;
  constexpr double kFar = 0.53, kWeightsFar = 0.097;
  const double blocks = static_cast<double>(problem.images * split.ranges * split.slices);
  const double weights = static_cast<double>(arena_of(problem, split).weights);
  const double all = static_cast<double>(vectors_of_thread(problem, split, kWidest));
  const double kept =
      static_cast<double>(vectors_held(problem, split, kWidest, x, device)) / std::max(all, 1.0);
  // Memory is read by 32 bytes at least: of a pixel, a slice may be less.
  const double pixel =
      std::max(32.0, static_cast<double>(split.slice(problem)) * static_cast<double>(size_of(x)));
  const double image = static_cast<double>(split.range(problem)) * pixel;
  const double shared = static_cast<double>(arena_of(problem, split).held_at) + kept * image;
  const double on_one = std::clamp(std::floor(device.onchip_bytes / shared), 1.0, 2.0);
  const double units = split.cluster(problem) > 2 ? device.units * 10.0 / 11 : device.units;
  const double waves = std::ceil(blocks / (units * on_one));
  const double active = std::min(blocks, units * on_one);
  const double near = device.onchip_bandwidth / device.units / 1e6;  // bytes per us of one SM
  const double share = std::ceil(active / units);                    // blocks on one
  const double far = std::min(kFar * near / share,
                              device.cache_bandwidth / 1e6 / active);  // bytes per us of a block
  const double slow = std::min(far, device.dram_bandwidth / 1e6 / active);
  const double first = image * blocks > device.cache_bytes ? slow : far;
  const double again = image * active > device.cache_bytes ? slow : far;

  double us = kStart + kTrip + 2 * kProduct + weights / (kWeightsFar * near / share);
  if (split.slices > 1) us += kParts;
  if (problem.pool != nullptr) us += kSum + image / first;
  if (problem.pool != nullptr && split.ranges > 1)
    us += kTotals + kTotal * static_cast<double>(split.ranges * split.slice(problem));
  if (problem.scale != nullptr) {
    us += image / first;  // stores
    if (problem.pool == nullptr) us += kTrip + image / first;
    if (problem.pool != nullptr && kept < 1) us += kTrip + (1 - kept) * image / again;
  }
  return waves * us +
         (waves - 1) * weights / far;  // the first blocks' weights come before their turn
}

}  // namespace braze::cuda::squeezing
