// Files that are cut off or changed must be read or refused, whatever the damage.
#include <cstdlib>
#include <random>

#include "model/npy.hpp"
#include "model/onnx_model.hpp"
#include "model/read_tensor.hpp"
#include "support/temporary_folder.hpp"

namespace braze::test {
namespace {

/// BRAZE_SEED, or one that never changes.
std::uint32_t seed() {
  const char* given = std::getenv("BRAZE_SEED");
  return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : 1;
}

/// Models that together use every encoding of tensors and every kind of attribute.
std::vector<std::string> models() {
  std::vector<std::string> all;
  OnnxModel conv(11, 3);
  conv.input("x", {std::string("N"), 2, 5, std::string("")});
  conv.floats("w", {3, 2, 1, 1}, {1, 2, 3, 4, 5, 6}).input("w", {3, 2, 1, 1});
  conv.node("Conv", {"x", "w"}, {"c"}, {{"pads", {1, 1, 1, 1}}, {"auto_pad", "NOTSET"}}, "conv");
  conv.node("Constant", {}, {"k"}, {{"value", make_tensor(DType::kFloat32, {1}, Ints{2})}});
  conv.node("Mul", {"c", "k"}, {"m"}).node("LeakyRelu", {"m"}, {"y"}, {{"alpha", 0.5}}).output("y");
  all.push_back(conv.bytes());

  OnnxModel movement(18);
  movement.input("x", {1, 4, 6, 6}).ints("shape", {0, -1}).ints("axes", {2, 3});
  movement.node("Reshape", {"x", "shape"}, {"r"}, {{"allowzero", 0}}, "a");
  movement.node("ReduceMean", {"x", "axes"}, {"m"}, {{"keepdims", 0}}, "a");
  movement.node("Split", {"r"}, {"s", "t"}, {{"axis", 1}, {"num_outputs", 2}});
  movement.node("Sum", {"s", "t", "t"}, {"u"}).node("Dropout", {"u"}, {"v", "mask"});
  movement.node("Resize", {"x", "", "", "sizes"}, {"z"}, {{"mode", "linear"}})
      .ints("sizes", {1, 4, 2, 2});
  movement.output("v").output("m").output("mask").output("z");
  all.push_back(movement.bytes());

  OnnxModel encodings(13);
  const onnx::TensorProto::DataType types[] = {onnx::TensorProto::FLOAT16, onnx::TensorProto::UINT8,
                                               onnx::TensorProto::BOOL};
  for (const auto type : types) {
    auto& tensor = *encodings.graph().add_initializer();
    tensor.set_name("t" + std::to_string(type));
    tensor.set_data_type(type);
    tensor.add_dims(2);
    tensor.add_int32_data(1);
    tensor.add_int32_data(0);
    encodings.output(tensor.name());
  }
  auto& outside = *encodings.graph().add_initializer();
  outside.set_name("outside");
  outside.set_data_type(onnx::TensorProto::FLOAT);
  outside.add_dims(3);
  outside.set_data_location(onnx::TensorProto::EXTERNAL);
  outside.add_external_data()->set_key("location");
  outside.mutable_external_data(0)->set_value("weights.bin");
  encodings.output("outside");
  all.push_back(encodings.bytes());
  return all;
}

/// Calls `read` with every beginning of `text`, then with 3000 copies that have one to four bytes
/// changed.
void damage(const std::string& text, const std::function<void(const std::string&)>& read) {
  const auto attempt = [&read](const std::string& damaged) {
    try {
      read(damaged);
    } catch (const Exception& exception) {
      EXPECT_NE(exception.error().code, ErrorCode::kInternal) << exception.what();
      EXPECT_STRNE(exception.what(), "");
    }
  };
  for (std::size_t length = 0; length < text.size(); ++length) attempt(text.substr(0, length));
  SCOPED_TRACE(fmt::format("BRAZE_SEED={}", seed()));
  std::mt19937 random(seed());
  for (int i = 0; i < 3000; ++i) {
    std::string changed = text;
    for (std::uint32_t n = random() % 4 + 1; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    attempt(changed);
  }
}

TEST(Damaged, Models) {
  for (const std::string& model : models()) {
    damage(model, [](const std::string& text) {
      (void)read_onnx(std::as_bytes(std::span(text)), "/nonexistent");
    });
  }
}

TEST(Damaged, TensorProtos) {
  onnx::TensorProto proto;
  model::encode_tensor(make_tensor(DType::kInt16, {2, 3}, Ints{1, 2, 3, 4, 5, 6}), "t", proto);
  damage(proto.SerializeAsString(), [](const std::string& text) {
    (void)parse_tensor_proto(std::as_bytes(std::span(text)), "/nonexistent", "t.pb");
  });
}

TEST(Damaged, NpyFiles) {
  const TemporaryFolder folder;
  const std::string file = folder / "damaged.npy";
  write_npy(file, make_tensor(DType::kInt16, {2, 3}, Ints{1, 2, 3, 4, 5, 6}));
  const auto mapped = MappedFile::open(file);
  const std::string text(reinterpret_cast<const char*>(mapped->bytes().data()),
                         mapped->bytes().size());
  damage(text, [](const std::string& damaged) {
    const auto owner = std::make_shared<std::string>(damaged);
    (void)parse_npy(std::as_bytes(std::span(*owner)), owner, "t.npy");
  });
}

}  // namespace
}  // namespace braze::test
