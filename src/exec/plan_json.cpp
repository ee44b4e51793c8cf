#include "exec/plan_json.hpp"

#include "exec/op_json.hpp"

namespace braze {

template <>
inline constexpr FusionLevel kLast<FusionLevel> = FusionLevel::kFull;
template <>
inline constexpr Memory kLast<Memory> = Memory::kArena;
template <>
inline constexpr Layout kLast<Layout> = Layout::kChannelsLast;
template <>
inline constexpr KernelKind kLast<KernelKind> = KernelKind::kReference;

namespace {

template <class Items, class Write>
Json list(const Items& items, const Write& write) {
  Json json = Json::array();
  for (const auto& item : items) json.push_back(write(item));
  return json;
}

Json to_json(const Value& value, BlobWriter& blobs) {
  Json json = {{"name", value.name},
               {"dtype", static_cast<int>(value.dtype)},
               {"shape", value.shape},
               {"symbols", value.symbols}};
  if (value.is_constant()) json["constant"] = blobs.add(*value.constant);
  return json;
}

Json to_json(const Node& node, BlobWriter& blobs) {
  return {{"id", node.id},
          {"op", to_json(node.op, blobs)},
          {"inputs", node.inputs},
          {"outputs", node.outputs},
          {"origins", node.origins}};
}

Json to_json(const Folded& folded) { return {{"node", folded.node}, {"into", folded.into}}; }

Json to_json(const Graph& graph, BlobWriter& blobs) {
  Json values = Json::array();
  for (ValueId id = 0; id < graph.value_count(); ++id)
    values.push_back(to_json(graph.value(id), blobs));
  Json nodes = Json::array();
  for (NodeId id = 0; id < graph.node_count(); ++id) {
    ensure(!graph.node(id).erased, "a plan's graph is compacted");
    nodes.push_back(to_json(graph.node(id), blobs));
  }
  return {{"name", graph.name},
          {"values", std::move(values)},
          {"nodes", std::move(nodes)},
          {"inputs", graph.inputs},
          {"outputs", list(graph.outputs,
                           [](const GraphOutput& output) -> Json {
                             return {{"name", output.name}, {"value", output.value}};
                           })},
          {"folded", list(graph.folded, [](const Folded& folded) { return to_json(folded); })}};
}

Json to_json(const Placement& placement) {
  return {{"memory", static_cast<int>(placement.memory)},
          {"index", placement.index},
          {"offset", placement.offset},
          {"bytes", placement.bytes},
          {"layout", static_cast<int>(placement.layout)},
          {"pitch", placement.pitch},
          {"view_of", placement.view_of}};
}

/// `output`: of the anchor's results, the one that the member makes.
Json to_json(const Graph& graph, const Group::Member& member) {
  const std::vector<ValueId>& outputs = graph.node(member.anchor).outputs;
  const auto made = std::ranges::find(outputs, member.result);
  return {
      {"anchor", member.anchor},
      {"output", made == outputs.end() ? 0 : made - outputs.begin()},
      {"epilogue", list(member.epilogue.steps, [](const auto& step) { return Json(step.node); })}};
}

Json to_json(const Graph& graph, const KernelPlan& kernel) {
  const auto parameter = [](const Candidate::Parameter& one) -> Json {
    return {{"name", one.name}, {"value", one.value}};
  };
  return {{"name", kernel.name},
          {"family", kernel.family},
          {"backend", kernel.backend},
          {"kind", static_cast<int>(kernel.kind)},
          {"members", list(kernel.group.members,
                           [&](const Group::Member& member) { return to_json(graph, member); })},
          {"inputs", kernel.group.inputs},
          {"casts", kernel.group.casts},
          {"outputs", kernel.group.outputs},
          {"candidate", list(kernel.candidate.parameters, parameter)},
          {"algorithm", kernel.candidate.algorithm},
          {"flops", kernel.work.flops},
          {"dram_bytes", kernel.work.dram_bytes},
          {"onchip_bytes", kernel.work.onchip_bytes},
          {"efficiency", kernel.work.efficiency},
          {"est_us", kernel.est_us},
          {"measured", kernel.measured},
          {"stream", kernel.stream},
          {"waits", kernel.waits},
          {"nodes", kernel.nodes}};
}

/// Reads one plan; what is read later may refer to what was read before.
class PlanReader {
 public:
  PlanReader(const Json& json, const BlobReader& blobs) : json_(json), blobs_(blobs) {}

  Plan read() {
    read_graph(member(json_, "graph"));
    read_device(member(json_, "device"));
    plan_.options.fusion = get<FusionLevel>(json_, "fusion");
    plan_.options.nhwc_io = get<bool>(json_, "nhwc_io");
    for (const Json& placement : array(json_, "placements")) read_placement(placement);
    if (std::ssize(plan_.placements) != plan_.graph.value_count()) {
      fail(ErrorCode::kModelInvalid, "there are {} placements, expected one for each of {} values",
           plan_.placements.size(), plan_.graph.value_count());
    }
    for (const Json& kernel : array(json_, "kernels")) read_kernel(kernel);
    plan_.folded = read_folded(array(json_, "folded"));
    for (const Json& refusal : array(json_, "not_fused")) {
      plan_.not_fused.push_back({get<std::vector<std::string>>(refusal, "nodes"),
                                 get<std::string>(refusal, "rule"),
                                 get<std::string>(refusal, "reason")});
    }
    plan_.arena_bytes = get<std::int64_t>(json_, "arena_bytes");
    plan_.largest_live_bytes = get<std::int64_t>(json_, "largest_live_bytes");
    return std::move(plan_);
  }

 private:
  /// An id in [0, count), or -1 where `absent` allows it.
  static std::int32_t checked(std::int32_t id, const char* name, std::int32_t count,
                              bool absent = false) {
    if (id < (absent ? -1 : 0) || id >= count)
      fail(ErrorCode::kModelInvalid, "'{}' refers to number {} of {}", name, id, count);
    return id;
  }
  std::int32_t value_count() const { return plan_.graph.value_count(); }
  std::vector<ValueId> values(const Json& object, const char* name, bool absent = false) const {
    auto ids = get<std::vector<ValueId>>(object, name);
    for (const ValueId id : ids) checked(id, name, value_count(), absent);
    return ids;
  }
  const Node& node(const Json& json, const char* name) const {
    NodeId id = kNoNode;
    braze::read(json, name, id);
    return plan_.graph.node(checked(id, name, plan_.graph.node_count()));
  }

  static std::vector<Folded> read_folded(const Json& json) {
    std::vector<Folded> folded;
    for (const Json& one : json)
      folded.push_back({get<std::string>(one, "node"), get<std::string>(one, "into")});
    return folded;
  }

  void read_graph(const Json& json) {
    plan_.graph.name = get<std::string>(json, "name");
    for (const Json& value : array(json, "values")) read_value(value);
    for (const Json& node : array(json, "nodes")) {
      plan_.graph.add_node(read_op(member(node, "op"), blobs_), values(node, "inputs", true),
                           values(node, "outputs", true), get<std::string>(node, "id"),
                           get<std::vector<std::string>>(node, "origins"));
    }
    plan_.graph.inputs = values(json, "inputs");
    for (const Json& output : array(json, "outputs")) {
      plan_.graph.outputs.push_back(
          {get<std::string>(output, "name"),
           checked(get<ValueId>(output, "value"), "value", value_count())});
    }
    plan_.graph.folded = read_folded(array(json, "folded"));
  }

  void read_value(const Json& json) {
    const auto dtype = get<DType>(json, "dtype");
    const auto shape = get<Shape>(json, "shape");
    auto name = get<std::string>(json, "name");
    check_shape(name, dtype, shape);
    Value& value = plan_.graph.value(plan_.graph.add_value(std::move(name), dtype, shape));
    value.symbols = get<std::vector<std::string>>(json, "symbols");
    value.known_rank = true;
    if (json.contains("constant"))
      value.constant = blobs_.tensor(dtype, shape, get<std::int64_t>(json, "constant"));
  }

  void read_placement(const Json& json) {
    plan_.placements.push_back(
        {.memory = get<Memory>(json, "memory"),
         .index = get<std::int32_t>(json, "index"),
         .offset = get<std::int64_t>(json, "offset"),
         .bytes = get<std::int64_t>(json, "bytes"),
         .layout = get<Layout>(json, "layout"),
         .pitch = get<std::int64_t>(json, "pitch"),
         .view_of = checked(get<ValueId>(json, "view_of"), "view_of", value_count(), true)});
  }

  void read_device(const Json& json) {
    Device& device = plan_.device;
    device.name = get<std::string>(json, "name");
    device.kind = device.name == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda;
    device.sm = get<int>(json, "sm");
    device.units = get<int>(json, "units");
    device.tf32 = get<bool>(json, "tf32");
    device.max_error = get<double>(json, "max_error");
  }

  void read_kernel(const Json& json) {
    KernelPlan kernel;
    kernel.name = get<std::string>(json, "name");
    kernel.family = get<std::string>(json, "family");
    kernel.backend = get<std::string>(json, "backend");
    kernel.kind = get<KernelKind>(json, "kind");
    for (const Json& one : array(json, "members")) kernel.group.members.push_back(read_member(one));
    for (const Group::Member& member : kernel.group.members) {
      if (!kernel.group.single() && member.result == kNoValue)
        fail(ErrorCode::kModelInvalid, "kernel '{}': a member makes nothing", kernel.name);
    }
    kernel.group.inputs = values(json, "inputs");
    kernel.group.outputs = values(json, "outputs");
    for (const Json& id : array(json, "casts")) {
      const Node& cast = node(id, "casts");
      if (cast.as<Cast>() == nullptr || cast.inputs.size() != 1 || cast.inputs[0] == kNoValue)
        fail(ErrorCode::kModelInvalid, "node '{}' is no Cast", cast.id);
      kernel.group.casts.push_back(id.get<NodeId>());
    }
    for (const Json& one : array(json, "candidate")) {
      kernel.candidate.parameters.push_back(
          {get<std::string>(one, "name"), get<std::int64_t>(one, "value")});
    }
    kernel.candidate.algorithm = get<std::string>(json, "algorithm");
    kernel.work = {get<double>(json, "flops"), get<double>(json, "dram_bytes"),
                   get<double>(json, "onchip_bytes"), get<double>(json, "efficiency")};
    kernel.est_us = get<double>(json, "est_us");
    kernel.measured = get<bool>(json, "measured");
    kernel.stream = get<std::int32_t>(json, "stream");
    kernel.waits = get<std::vector<std::int32_t>>(json, "waits");
    for (const std::int32_t other : kernel.waits)
      checked(other, "waits", static_cast<std::int32_t>(plan_.kernels.size()));
    constexpr std::int32_t kStreams = 64;
    checked(kernel.stream, "stream", kStreams);
    kernel.nodes = get<std::vector<std::string>>(json, "nodes");
    plan_.kernels.push_back(std::move(kernel));
  }

  Group::Member read_member(const Json& json) const {
    Group::Member member;
    member.anchor = get<NodeId>(json, "anchor");
    const Node& anchor = node(braze::member(json, "anchor"), "anchor");
    const auto outputs = static_cast<std::int32_t>(anchor.outputs.size());
    const std::int32_t output =
        checked(get<std::int32_t>(json, "output"), "output", std::max(outputs, 1));
    member.result = anchor.output(static_cast<std::size_t>(output));
    for (const Json& id : array(json, "epilogue")) {
      member.epilogue.steps.push_back(read_step(id, member.result));
      member.result = plan_.graph.node(member.epilogue.steps.back().node).output();
    }
    return member;
  }

  /// The step that a pointwise node on `result` is.
  EpilogueStep read_step(const Json& json, ValueId result) const {
    const Node& next = node(json, "epilogue");
    const auto wrong = [&](const std::string& what) {
      fail(ErrorCode::kModelInvalid, "node '{}' is no step of an epilogue: {}", next.id, what);
    };
    EpilogueStep step;
    braze::read(json, "epilogue", step.node);
    if (result == kNoValue || next.output() == kNoValue || next.outputs.size() != 1)
      wrong("there is no result");
    if (const auto* unary = next.as<Unary>()) {
      if (next.inputs.size() != 1 || next.inputs[0] != result) wrong("it reads another value");
      step.unary = *unary;
      return step;
    }
    if (const auto* cast = next.as<Cast>()) {
      if (next.inputs.size() != 1 || next.inputs[0] != result) wrong("it reads another value");
      step.cast = cast->to;
      return step;
    }
    const auto* binary = next.as<Binary>();
    if (binary == nullptr) wrong("it is not pointwise");
    if (next.inputs.size() != 2 || (next.inputs[0] == result) == (next.inputs[1] == result))
      wrong("one of its two operands is to be the result before it");
    step.binary = binary->fn;
    step.swapped = next.inputs[1] == result;
    step.operand = next.inputs[step.swapped ? 0 : 1];
    if (step.operand == kNoValue) wrong("an operand is absent");
    std::string why;
    const auto broadcast = classify_broadcast(plan_.graph.value(step.operand).shape,
                                              plan_.graph.value(result).shape, &why);
    if (!broadcast) wrong(why);
    step.broadcast = *broadcast;
    return step;
  }

  const Json& json_;
  const BlobReader& blobs_;
  Plan plan_;
};

}  // namespace

Json to_json(const Plan& plan, BlobWriter& blobs) {
  const auto refusal = [](const Refusal& one) -> Json {
    return {{"nodes", one.nodes}, {"rule", one.rule}, {"reason", one.reason}};
  };
  return {{"graph", to_json(plan.graph, blobs)},
          {"device",
           {{"name", plan.device.name},
            {"sm", plan.device.sm},
            {"units", plan.device.units},
            {"tf32", plan.device.tf32},
            {"max_error", plan.device.max_error}}},
          {"fusion", static_cast<int>(plan.options.fusion)},
          {"nhwc_io", plan.options.nhwc_io},
          {"placements",
           list(plan.placements, [](const Placement& placement) { return to_json(placement); })},
          {"kernels", list(plan.kernels,
                           [&](const KernelPlan& kernel) { return to_json(plan.graph, kernel); })},
          {"folded", list(plan.folded, [](const Folded& folded) { return to_json(folded); })},
          {"not_fused", list(plan.not_fused, refusal)},
          {"arena_bytes", plan.arena_bytes},
          {"largest_live_bytes", plan.largest_live_bytes}};
}

Plan read_plan(const Json& json, const BlobReader& blobs) { return PlanReader(json, blobs).read(); }

}  // namespace braze
