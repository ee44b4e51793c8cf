// Engine files: what is written comes back, and nothing that is in a file can do harm.
#include "exec/engine_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <random>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "exec/cpu_program.hpp"
#include "exec/op_json.hpp"
#include "exec/random_network.hpp"
#include "graph/fields.hpp"
#include "kernels/cpu/families.hpp"
#include "passes/pipeline.hpp"
#include "plan/make_plan.hpp"
#include "state.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

using Bytes = std::vector<std::byte>;

Options with_threads(int threads) {
  Options options;
  options.threads = threads;
  return options;
}

Plan plan_of(const Net& net, FusionLevel fusion = FusionLevel::kFull, bool nhwc_io = false) {
  Graph graph = net.graph;
  simplify(graph);
  return make_plan(graph, cpu_device(1), {fusion, nhwc_io}, cpu::registry());
}

/// Input bytes of a plan, from a seed; floats in [-1, 1).
std::vector<Bytes> some_inputs(const Plan& plan) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Bytes> inputs;
  for (const ValueId id : plan.graph.inputs) {
    Bytes& bytes = inputs.emplace_back(
        static_cast<std::size_t>(plan.placements[static_cast<std::size_t>(id)].bytes));
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const float x = uniform(random);
      std::memcpy(&bytes[i], &x, 4);
    }
  }
  return inputs;
}

std::vector<Bytes> outputs_of(Plan plan) {
  plan.device = cpu_device(1);
  const std::vector<Bytes> inputs = some_inputs(plan);
  std::vector<Bytes> outputs;
  for (const GraphOutput& output : plan.graph.outputs)
    outputs.emplace_back(
        static_cast<std::size_t>(plan.placements[static_cast<std::size_t>(output.value)].bytes));
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Bytes& bytes : inputs) in.push_back(bytes.data());
  for (Bytes& bytes : outputs) out.push_back(bytes.data());
  CpuProgram(std::move(plan)).run(in, out);
  return outputs;
}

class EngineFile : public ::testing::Test {
 protected:
  std::filesystem::path file(const char* name = "net.engine") const { return folder_ / name; }
  Bytes contents(const char* name = "net.engine") const {
    const auto mapped = MappedFile::open(file(name));
    return {mapped->bytes().begin(), mapped->bytes().end()};
  }
  /// A small network with most kinds of kernels; its engine file's bytes.
  Bytes sample() const {
    RandomNetwork network(3);
    write_engine(file(), plan_of(network.net));
    return contents();
  }
  /// Loads and runs the bytes as users would. Whatever they are, that gives an error or outputs.
  Status try_bytes(const Bytes& bytes) const {
    write_file(file("try.engine"), bytes);
    const Result<Model> model = load(file("try.engine"), with_threads(1));
    if (!model) return model.error();
    const auto outputs = model->run(random_inputs(*model));
    if (!outputs) return outputs.error();
    return Done{};
  }

 private:
  const TemporaryFolder folder_;
};

EngineHeader header_of(const Bytes& bytes) {
  EngineHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

/// Makes size and checksum of changed bytes right again.
void seal(Bytes& bytes) {
  EngineHeader header = header_of(bytes);
  header.file_bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  Hasher hasher;
  hasher.add(std::span(bytes).first(offsetof(EngineHeader, hash_high)));
  hasher.add(std::span(bytes).subspan(sizeof header));
  header.hash_high = hasher.digest().high;
  header.hash_low = hasher.digest().low;
  std::memcpy(bytes.data(), &header, sizeof header);
}

Json json_of(const Bytes& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data()) + sizeof(EngineHeader);
  return Json::from_cbor(begin, begin + header_of(bytes).json_bytes);
}

/// The file with other JSON in it, sealed.
Bytes with_json(const Bytes& bytes, const Json& json) {
  const auto padded = [](std::size_t size) { return (size + 63) / 64 * 64; };
  const auto span = std::span(bytes);
  EngineHeader header = header_of(bytes);
  const auto blobs = span.subspan(sizeof header + padded(header.json_bytes));
  const std::vector<std::uint8_t> text = Json::to_cbor(json);
  header.json_bytes = text.size();
  Bytes result(sizeof header + padded(text.size()));
  std::memcpy(result.data(), &header, sizeof header);
  std::memcpy(&result[sizeof header], text.data(), text.size());
  result.insert(result.end(), blobs.begin(), blobs.end());
  seal(result);
  return result;
}

void expect_refused(const Status& status, const std::string& part) {
  ASSERT_FALSE(status.ok()) << "expected: " << part;
  EXPECT_EQ(status.error().code, ErrorCode::kModelInvalid) << status.error().message;
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("try.engine"), std::string::npos) << status.error().message;
}

TEST_F(EngineFile, GivesTheSamePlanAndTheSameNumbers) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomNetwork network(seed);
    const Plan plan =
        plan_of(network.net, seed % 5 == 0 ? FusionLevel::kOff : FusionLevel::kFull, seed % 3 == 1);
    write_engine(file(), plan);
    const Plan read = read_engine(file());
    EXPECT_EQ(print(read), print(plan));
    EXPECT_EQ(print(read.graph), print(plan.graph));
    EXPECT_TRUE(outputs_of(read) == outputs_of(plan));
    write_engine(file("again.engine"), read);
    EXPECT_TRUE(contents() == contents("again.engine")) << "other bytes from the same plan";
    if (HasFailure()) break;
  }
}

TEST_F(EngineFile, SavedModelRunsAsTheCompiledOne) {
  RandomNetwork network(5);
  auto state = std::make_shared<Model::State>();
  state->program = std::make_unique<CpuProgram>(plan_of(network.net));
  describe(*state);
  const Model model(std::move(state));
  ASSERT_TRUE(model.save(file()).ok());
  EXPECT_TRUE(is_engine_file(file()));
  const Result<Model> loaded = load(file(), with_threads(2));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto expected = model.run(random_inputs(model));
  const auto got = loaded->run(random_inputs(*loaded));
  ASSERT_TRUE(expected.ok() && got.ok());
  ASSERT_EQ(got->size(), expected->size());
  for (std::size_t i = 0; i < got->size(); ++i) {
    ASSERT_EQ((*got)[i].shape(), (*expected)[i].shape());
    EXPECT_EQ(std::memcmp((*got)[i].data(), (*expected)[i].data(), (*got)[i].bytes()), 0);
  }
}

/// True if the address lies in a mapping of the file.
bool is_mapped_from(const std::filesystem::path& file, const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(file.filename().string())) continue;
    std::size_t dash = 0;
    const std::uintptr_t begin = std::stoull(line, &dash, 16);
    const std::uintptr_t end = std::stoull(line.substr(dash + 1), nullptr, 16);
    if (address >= begin && address < end) return true;
  }
  return false;
}

TEST_F(EngineFile, ConstantsAreMappedNotCopied) {
  sample();
  const Plan plan = read_engine(file());
  int constants = 0;
  for (ValueId id = 0; id < plan.graph.value_count(); ++id) {
    const Value& value = plan.graph.value(id);
    if (!value.is_constant()) continue;
    ++constants;
    EXPECT_TRUE(is_mapped_from(file(), value.constant->data())) << value.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value.constant->data()) % 64, 0U);
  }
  EXPECT_GT(constants, 0);
}

// Every attribute of every operator, each with a value of its own that is not the default.
struct Distinct {
  int next = 2;
  void operator()(const char*, Ints& value) { value = {next++, -next, INT64_MAX}; }
  void operator()(const char*, std::vector<double>& value) { value = {0.1 * next++, -kInfinity}; }
  void operator()(const char*, std::int64_t& value) { value = -next++; }
  void operator()(const char*, double& value) { value = 1.0 / next++; }
  void operator()(const char*, bool& value) { value = !value; }
  void operator()(const char*, Window& value) { for_each_field(value, *this); }
  void operator()(const char*, Tensor& value) {
    value = Tensor::from<float>(DType::kFloat32, {1}, std::vector<float>{2.5F});
  }
  template <class E>
    requires std::is_enum_v<E>
  void operator()(const char*, E& value) {
    value = static_cast<E>(1);
  }
};

struct Equal {
  template <class T>
  void check(const char* name, const T& a, const T& b) {
    if constexpr (std::is_same_v<T, Window>) {
      compare(a, b);
    } else if constexpr (std::is_same_v<T, Tensor>) {
      ASSERT_TRUE(a.dtype() == b.dtype() && a.shape() == b.shape()) << name;
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << name;
    } else {
      EXPECT_TRUE(a == b) << name;
    }
  }
  template <class Op>
  void compare(const Op& a, const Op& b) {
    std::apply(
        [&](const auto&... field) { (check(field.name, a.*field.member, b.*field.member), ...); },
        fields(static_cast<const Op*>(nullptr)));
  }
};

template <class Op>
void expect_survives() {
  Op op;
  for_each_field(op, Distinct{});
  BlobWriter writer;
  const Json json = to_json(Attributes(op), writer);
  const auto cbor = Json::to_cbor(json);
  Bytes bytes;
  for (const BlobWriter::Blob& blob : writer.blobs()) {
    bytes.resize(static_cast<std::size_t>(blob.offset) + blob.tensor.bytes());
    std::memcpy(&bytes[static_cast<std::size_t>(blob.offset)], blob.tensor.data(),
                blob.tensor.bytes());
  }
  const Attributes read = read_op(Json::from_cbor(cbor), BlobReader(bytes, nullptr));
  ASSERT_TRUE(std::holds_alternative<Op>(read));
  Equal{}.compare(std::get<Op>(read), op);
}

TEST(EngineOperators, EveryAttributeSurvives){
#define BRAZE_SURVIVES(Name) \
  {                          \
    SCOPED_TRACE(#Name);     \
    expect_survives<Name>(); \
  }
    BRAZE_OPS(BRAZE_SURVIVES)
#undef BRAZE_SURVIVES
}

TEST_F(EngineFile, RefusesWhatIsNoEngine) {
  EXPECT_FALSE(is_engine_file(file("missing")));
  const Result<Model> missing = load(file("missing"), {});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kModelInvalid);
  expect_refused(try_bytes({}), "0 bytes");
  EXPECT_FALSE(is_engine_file(file("try.engine")));
  expect_refused(try_bytes(Bytes(200)), "does not begin as an engine file");

  const Bytes bytes = sample();
  EngineHeader header = header_of(bytes);
  Bytes other = bytes;
  header.format = 77;
  std::memcpy(other.data(), &header, sizeof header);
  expect_refused(try_bytes(other), "format 77");
  header = header_of(bytes);
  header.version = {'9', '.', '8', '.', '7'};
  std::memcpy(other.data(), &header, sizeof header);
  expect_refused(try_bytes(other), "9.8.7");
}

TEST_F(EngineFile, RefusesTruncation) {
  const Bytes bytes = sample();
  std::mt19937 random(1);
  for (int i = 0; i < 150; ++i) {
    const std::size_t size = i < 70 ? static_cast<std::size_t>(i) : random() % bytes.size();
    SCOPED_TRACE(size);
    Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    expect_refused(try_bytes(part), "");
    if (size < sizeof(EngineHeader)) continue;
    seal(part);
    expect_refused(try_bytes(part), "");
    if (HasFatalFailure()) break;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  expect_refused(try_bytes(longer), "bytes, expected");
}

TEST_F(EngineFile, RefusesFlippedBytes) {
  const Bytes bytes = sample();
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    Bytes changed = bytes;
    const std::size_t at = i < 64 ? static_cast<std::size_t>(i) : random() % bytes.size();
    SCOPED_TRACE(at);
    changed[at] ^= static_cast<std::byte>(1U << random() % 8);
    expect_refused(try_bytes(changed), "");
    if (HasFatalFailure()) break;
  }
}

TEST_F(EngineFile, SurvivesFlippedBytesUnderARightChecksum) {
  const Bytes bytes = sample();
  const std::size_t plan_end = sizeof(EngineHeader) + header_of(bytes).json_bytes;
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 700; ++i) {
    Bytes changed = bytes;
    const std::size_t at = sizeof(EngineHeader) + random() % (plan_end - sizeof(EngineHeader));
    changed[at] = static_cast<std::byte>(random());
    seal(changed);
    if (!try_bytes(changed).ok()) ++refused;
  }
  EXPECT_GT(refused, 100);
}

/// Calls visit for every number, bool and array in a JSON value.
void for_each_leaf(Json& json, const std::function<void(Json&)>& visit) {
  if (json.is_structured()) {
    for (Json& child : json) for_each_leaf(child, visit);
    if (json.is_array()) visit(json);
  } else {
    visit(json);
  }
}

TEST_F(EngineFile, SurvivesAnyNumberAnywhere) {
  const Bytes bytes = sample();
  const Json json = json_of(bytes);
  std::vector<Json*> leaves;
  Json changed = json;
  for_each_leaf(changed, [&](Json& leaf) { leaves.push_back(&leaf); });
  std::mt19937 random(4);
  const Json values[] = {0,
                         1,
                         2,
                         3,
                         7,
                         64,
                         -1,
                         -2,
                         1 << 20,
                         INT32_MAX,
                         INT64_MAX,
                         INT64_MIN,
                         kInfinity,
                         kNaN,
                         0.5,
                         true,
                         false,
                         "x",
                         nullptr,
                         Json::array(),
                         Json::object()};
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    Json& leaf = *leaves[random() % leaves.size()];
    const Json before = leaf;
    if (before.is_number_integer() && random() % 3 == 0) {
      leaf = before.get<std::int64_t>() + (random() % 2 == 0 ? 1 : -1);
    } else if (before.is_array() && !before.empty() && random() % 2 == 0) {
      leaf.erase(leaf.size() - 1);
    } else {
      leaf = values[random() % std::size(values)];
    }
    if (!try_bytes(with_json(bytes, changed)).ok()) ++refused;
    leaf = before;
    if (before.is_array()) {  // its elements lie elsewhere now
      leaves.clear();
      for_each_leaf(changed, [&](Json& one) { leaves.push_back(&one); });
    }
  }
  ASSERT_EQ(changed, json);
  EXPECT_GT(refused, 500);
}

TEST_F(EngineFile, RefusesAPlanThatReachesOutside) {
  const Bytes bytes = sample();
  ASSERT_TRUE(try_bytes(with_json(bytes, json_of(bytes))).ok());
  const auto expect = [&](const std::string& part, const std::function<void(Json&)>& change) {
    Json json = json_of(bytes);
    change(json);
    expect_refused(try_bytes(with_json(bytes, json)), part);
  };
  const Json json = json_of(bytes);
  const auto written = json["kernels"][0]["outputs"][0].get<std::size_t>();
  expect("outside of its memory", [](Json& plan) { plan["arena_bytes"] = 8; });
  expect("outside of its memory",
         [&](Json& plan) { plan["placements"][written]["offset"] = INT64_MAX - 3; });
  expect("takes 4 bytes", [&](Json& plan) { plan["placements"][written]["bytes"] = 4; });
  expect("refers to number", [](Json& plan) { plan["kernels"][0]["outputs"][0] = 100000; });
  expect("no family 'magic'", [](Json& plan) { plan["kernels"][0]["family"] = "magic"; });
  expect("'dtype' is 200", [](Json& plan) { plan["graph"]["values"][0]["dtype"] = 200; });
  expect("there is no 'arena_bytes'", [](Json& plan) { plan.erase("arena_bytes"); });
  expect("no such candidate", [](Json& plan) {
    plan["kernels"][0]["candidate"].push_back({{"name", "rows"}, {"value", 1 << 30}});
  });
  expect("there is no operator", [](Json& plan) { plan["graph"]["nodes"][0]["op"]["kind"] = "?"; });
  expect("a constant of", [](Json& plan) {
    for (Json& value : plan["graph"]["values"]) {
      if (value.contains("constant")) value["constant"] = INT64_MAX - 63;
    }
  });
}

TEST_F(EngineFile, RefusesNestingThatWouldExhaustTheStack) {
  const Bytes bytes = sample();
  for (const unsigned opener : {0x81U, 0xA1U, 0x7FU, 0x9FU, 0xC1U}) {
    EngineHeader header = header_of(bytes);
    header.json_bytes = 1U << 22U;
    Bytes nested(sizeof header + header.json_bytes, static_cast<std::byte>(opener));
    std::memcpy(nested.data(), &header, sizeof header);
    seal(nested);
    expect_refused(try_bytes(nested), "CBOR");
  }
}

}  // namespace
}  // namespace braze::test
