// Values that are other values' bytes: reshapes, channel concats written in place, splits and
// slices read in place.
//
//   reshape    y has x's bytes (model layout, or channels-last with axes 0 and 1 kept)
//   transpose  channels-last read as model order, or back: the same bytes
//   concat     each x_i is written into y where it belongs; one that cannot be is copied there
//   split      each y_i is read out of x where it lies; one that cannot be is copied from there
// In channels-last a part along axis 1 has the whole's pitch and a channel offset: every kernel
// that touches it must take a pitch. So it is inside of groups too (plan/parts.hpp).
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "plan/parts.hpp"
#include "plan/stages.hpp"

namespace braze {
namespace {

/// Where a part of `whole` lies in it: bytes from its start, and the pitch if the part has gaps.
struct Part {
  std::int64_t offset = 0;
  std::int64_t pitch = 0;  // of the part's placement
  bool gaps = false;       // pitch differs from the part's channel count
};

class ViewMaker {
 public:
  ViewMaker(Plan& plan, const Registry& registry) : plan_(plan), registry_(registry) {}

  void make() {
    index_kernels();
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) view_reshape(k);
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) view_transpose(k);
    for (std::size_t k = plan_.kernels.size(); k-- > 0;) view_concat(k);
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) view_parts(k);
    for (const KernelPlan& kernel : plan_.kernels) pitch_inside(kernel);
    apply_edits();
    settle_outputs();
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  const Value& value(ValueId id) const { return plan_.graph.value(id); }
  Placement& placement(ValueId id) { return plan_.placements[index(id)]; }
  std::int64_t element(ValueId id) const {
    return static_cast<std::int64_t>(size_of(value(id).dtype));
  }

  const Node* anchor(std::size_t k) const {
    const Group& group = plan_.kernels[k].group;
    if (group.members.empty() || !group.single() || !group.members[0].epilogue.empty() ||
        !group.casts.empty())
      return nullptr;
    return &plan_.graph.node(group.members[0].anchor);
  }
  bool removed(std::size_t k) const { return removed_[k]; }
  bool takes_pitch(std::size_t k) const {
    return family_of(registry_, plan_.kernels[k].family).pitched;
  }

  void index_kernels() {
    removed_.assign(plan_.kernels.size(), false);
    inserted_.assign(plan_.kernels.size(), {});
    producer_.assign(plan_.placements.size(), -1);
    readers_.assign(plan_.placements.size(), {});
    has_views_.assign(plan_.placements.size(), false);
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      for (const ValueId id : plan_.kernels[k].group.outputs)
        producer_[index(id)] = static_cast<int>(k);
      for (const ValueId id : plan_.kernels[k].group.inputs) readers_[index(id)].push_back(k);
    }
  }

  void make_view(ValueId part, ValueId whole, const Part& where) {
    Placement& mine = placement(part);
    mine.view_of = whole;
    mine.offset = where.offset;
    mine.pitch = where.pitch;
    mine.bytes = extent_bytes(value(part), mine.layout, mine.pitch);
    has_views_[index(whole)] = true;
  }

  void remove(std::size_t k) {
    removed_[k] = true;
    for (const Group::Member& member : plan_.kernels[k].group.members) {
      for (const std::string& origin : plan_.graph.node(member.anchor).origins)
        plan_.folded.push_back({origin, "view"});
    }
  }

  /// A copy kernel that runs just before kernel k.
  void copy_before(std::size_t k, ValueId from, ValueId to) {
    inserted_[k].push_back(copy_kernel(plan_, from, to));
  }

  ValueId add_value_like(ValueId original, std::string_view suffix) {
    const ValueId id = add_copy(plan_, original, suffix, placement(original).layout);
    producer_.push_back(-1);
    readers_.emplace_back();
    has_views_.push_back(false);
    return id;
  }

  void view_reshape(std::size_t k) {
    if (plan_.kernels[k].family != "view") return;
    const Node& node = *anchor(k);
    make_view(node.outputs[0], node.inputs[0], {.pitch = placement(node.outputs[0]).pitch});
    remove(k);
  }

  void view_transpose(std::size_t k) {
    const Node* node = anchor(k);
    const auto* transpose = node == nullptr ? nullptr : node->as<Transpose>();
    if (transpose == nullptr) return;
    const ValueId in = node->inputs[0];
    const ValueId out = node->outputs[0];
    const Ints& perm = transpose->perm;
    if (!is_image(value(in)) || perm[0] != 0 || value(in).is_constant()) return;
    Ints to_last(perm.size());
    std::iota(to_last.begin(), to_last.end(), 0);
    std::rotate(to_last.begin() + 1, to_last.begin() + 2, to_last.end());
    Ints to_second(perm.size());
    std::iota(to_second.begin(), to_second.end(), 0);
    std::rotate(to_second.begin() + 1, to_second.end() - 1, to_second.end());
    const Layout from = placement(in).layout;
    const Layout to = placement(out).layout;
    const bool reads_last =
        perm == to_last && from == Layout::kChannelsLast && to == Layout::kModel;
    const bool writes_last =
        perm == to_second && from == Layout::kModel && to == Layout::kChannelsLast;
    if (!reads_last && !writes_last) return;
    make_view(out, in, {.pitch = placement(out).pitch});
    remove(k);
  }

  /// Where the part [begin, begin + extent of part) along `axis` of `whole` lies; nullopt if it is
  /// not one box with a pitch.
  std::optional<Part> locate(ValueId part, ValueId whole, std::size_t axis, std::int64_t begin) {
    const Shape& shape = value(whole).shape;
    const Placement& outer = placement(whole);
    if (placement(part).layout != outer.layout) {
      if (!is_image(value(part)) || !is_layout_neutral(value(part)) ||
          !is_layout_neutral(value(whole)))
        return std::nullopt;
    }
    const auto outer_count = [&](std::size_t end) {
      return std::accumulate(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(end),
                             std::int64_t{1}, std::multiplies<>());
    };
    const auto inner_count = [&](std::size_t from) {
      return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(from), shape.end(),
                             std::int64_t{1}, std::multiplies<>());
    };
    if (outer.layout == Layout::kModel) {
      if (outer_count(axis) != 1) return std::nullopt;
      return Part{begin * inner_count(axis + 1) * element(whole), placement(part).pitch, false};
    }
    if (placement(part).layout != Layout::kChannelsLast) return std::nullopt;
    if (axis == 1)
      return Part{begin * element(whole), outer.pitch, outer.pitch != value(part).shape[1]};
    const std::int64_t before = axis == 0 ? 1 : outer_count(axis) / shape[1];
    if (before != 1) return std::nullopt;
    const std::int64_t pixels = axis == 0 ? inner_count(2) : inner_count(axis + 1);
    return Part{begin * pixels * outer.pitch * element(whole), outer.pitch,
                outer.pitch != value(part).shape[1]};
  }

  bool readers_take_pitch(ValueId id, std::size_t except) const {
    return std::all_of(readers_[index(id)].begin(), readers_[index(id)].end(),
                       [&](std::size_t k) { return k == except || takes_pitch(k); });
  }

  void view_concat(std::size_t k) {
    const Node* node = anchor(k);
    const auto* concat = node == nullptr ? nullptr : node->as<Concat>();
    if (concat == nullptr) return;
    const ValueId whole = node->outputs[0];
    const auto axis = static_cast<std::size_t>(concat->axis);
    const std::vector<ValueId> inputs = node->inputs;
    std::vector<Part> parts;
    std::vector<ValueId> written;  // what becomes a view of the whole: the input, or the storage it
                                   // is a dense view of; kNoValue: copied
    std::int64_t begin = 0;
    for (const ValueId input : inputs) {
      const std::optional<Part> part = locate(input, whole, axis, begin);
      if (!part) return;
      begin += value(input).shape[axis];
      const ValueId storage = writable_storage(input, *part, k);
      const bool claimed = std::find(written.begin(), written.end(), storage) != written.end();
      written.push_back(claimed ? kNoValue : storage);
      parts.push_back(*part);
    }
    if (std::all_of(written.begin(), written.end(), [](ValueId id) { return id == kNoValue; }))
      return;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (written[i] != kNoValue) {
        const std::int64_t pitch = parts[i].gaps ? parts[i].pitch : placement(written[i]).pitch;
        make_view(written[i], whole, {parts[i].offset, pitch, parts[i].gaps});
        continue;
      }
      const ValueId copy = add_value_like(inputs[i], fmt::format(":in:{}", value(whole).name));
      placement(copy).layout = placement(whole).layout;
      make_view(copy, whole, parts[i]);
      copy_before(k, inputs[i], copy);
    }
    remove(k);
  }

  /// The value whose kernel can write straight into the concat: the input itself, or, for a part
  /// without gaps, the storage that the input is all of. kNoValue if somebody else decides where it
  /// lies or cannot write there.
  ValueId writable_storage(ValueId input, const Part& part, std::size_t concat) {
    const ValueId storage = part.gaps ? input : root_of(input);
    const int producer = producer_[index(storage)];
    if (producer < 0 || removed(static_cast<std::size_t>(producer)) ||
        placement(storage).view_of != kNoValue)
      return kNoValue;
    if (placement(storage).bytes != placement(input).bytes || output_lies_in(storage))
      return kNoValue;
    if (!part.gaps) return storage;
    const bool pitched = takes_pitch(static_cast<std::size_t>(producer)) &&
                         readers_take_pitch(storage, concat) && !has_views_[index(storage)];
    return pitched ? storage : kNoValue;
  }

  bool output_lies_in(ValueId storage) {
    return std::any_of(plan_.graph.outputs.begin(), plan_.graph.outputs.end(),
                       [&](const GraphOutput& output) { return root_of(output.value) == storage; });
  }

  void view_parts(std::size_t k) {
    const Node* node = anchor(k);
    if (node == nullptr) return;
    std::size_t axis = 0;
    std::vector<std::int64_t> begins;
    const ValueId whole = node->inputs.empty() ? kNoValue : node->inputs[0];
    if (const auto* split = node->as<Split>()) {
      axis = static_cast<std::size_t>(split->axis);
      std::int64_t begin = 0;
      for (const std::int64_t size : split->sizes) {
        begins.push_back(begin);
        begin += size;
      }
    } else if (const auto* slice = node->as<Slice>()) {
      std::size_t sliced = 0;
      const Shape& in = value(whole).shape;
      const Shape& out = value(node->outputs[0]).shape;
      for (std::size_t a = 0; a < in.size(); ++a) {
        if (in[a] == out[a]) continue;
        if (slice->steps[a] != 1) return;
        axis = a;
        ++sliced;
      }
      if (sliced != 1) return;
      begins.push_back(slice->starts[axis]);
    } else {
      return;
    }
    if (value(whole).is_constant()) return;
    std::vector<std::optional<Part>> parts;
    std::vector<bool> direct;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const ValueId part = node->outputs[i];
      if (part == kNoValue) {
        parts.emplace_back();
        direct.push_back(true);
        continue;
      }
      parts.push_back(locate(part, whole, axis, begins[i]));
      if (!parts.back()) return;
      direct.push_back(
          placement(part).view_of == kNoValue && !plan_.graph.is_output(part) &&
          (!parts.back()->gaps || (!has_views_[index(part)] && readers_take_pitch(part, k))));
    }
    if (std::none_of(direct.begin(), direct.end(), [](bool here) { return here; })) return;
    const std::vector<ValueId> outputs = node->outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNoValue) continue;
      if (direct[i]) {
        make_view(outputs[i], whole, *parts[i]);
        continue;
      }
      const ValueId window = add_value_like(outputs[i], fmt::format(":of:{}", value(whole).name));
      placement(window).layout = placement(whole).layout;
      make_view(window, whole, *parts[i]);
      copy_before(k, window, outputs[i]);
    }
    remove(k);
  }

  /// In a group that takes pitches, parts of other values have their pitch, and lie in them.
  void pitch_inside(const KernelPlan& kernel) {
    if (kernel.group.single() || !family_of(registry_, kernel.family).pitched) return;
    const std::map<ValueId, PartOf> parts = parts_of(plan_.graph, kernel.group);
    for (const auto& [id, part] : parts) {
      ValueId whole = part.whole;
      while (parts.contains(whole)) whole = parts.at(whole).whole;
      if (placement(id).layout != Layout::kChannelsLast ||
          placement(whole).layout != Layout::kChannelsLast)
        continue;
      placement(id).pitch = placement(whole).pitch;
      placement(id).bytes = extent_bytes(value(id), Layout::kChannelsLast, placement(id).pitch);
    }
  }

  void apply_edits() {
    std::vector<KernelPlan> kernels;
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      for (KernelPlan& copy : inserted_[k]) kernels.push_back(std::move(copy));
      if (!removed(k)) kernels.push_back(std::move(plan_.kernels[k]));
    }
    plan_.kernels = std::move(kernels);
  }

  ValueId root_of(ValueId id) {
    while (placement(id).view_of != kNoValue) id = placement(id).view_of;
    return id;
  }

  /// Each graph output becomes the only output in its storage, at its start and of its size;
  /// otherwise it is copied.
  void settle_outputs() {
    std::vector<ValueId> taken;
    const Layout wanted = plan_.options.nhwc_io ? Layout::kChannelsLast : Layout::kModel;
    for (GraphOutput& output : plan_.graph.outputs) {
      const ValueId id = output.value;
      const ValueId root = root_of(id);
      const Placement& mine = placement(id);
      const Placement& storage = placement(root);
      const bool image = is_image(value(id));
      const bool right_layout = !image || is_layout_neutral(value(id)) || mine.layout == wanted;
      const bool dense = mine.layout == Layout::kModel || mine.pitch == value(id).shape[1];
      const bool own = !value(root).is_constant() && !plan_.graph.is_input(root) &&
                       mine.offset == 0 && mine.bytes == storage.bytes &&
                       std::find(taken.begin(), taken.end(), root) == taken.end();
      if (right_layout && dense && own) {
        taken.push_back(root);
        continue;
      }
      const ValueId copy = add_copy(plan_, id, ":output", image ? wanted : Layout::kModel);
      plan_.kernels.push_back(copy_kernel(plan_, id, copy));
      output.value = copy;
      taken.push_back(copy);
    }
    plan_.graph.touch();
  }

  Plan& plan_;
  const Registry& registry_;
  std::vector<bool> removed_;
  std::vector<std::vector<KernelPlan>> inserted_;
  std::vector<int> producer_;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<bool> has_views_;
};

}  // namespace

void make_views(Plan& plan, const Registry& registry) { ViewMaker(plan, registry).make(); }

}  // namespace braze
