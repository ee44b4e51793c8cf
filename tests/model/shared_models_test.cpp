// Every network of ../shared/models, or of the folder that BRAZE_SHARED names, if there is one.
#include <cstdlib>
#include <filesystem>
#include <set>

#include "model/bind_dims.hpp"
#include "model/onnx_model.hpp"

namespace braze::test {
namespace {

std::vector<std::filesystem::path> shared_models() {
  const char* given = std::getenv("BRAZE_SHARED");
  const std::filesystem::path shared =
      given != nullptr ? std::filesystem::path(given)
                       : std::filesystem::path(BRAZE_SOURCE_DIR).parent_path() / "shared";
  std::vector<std::filesystem::path> files;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(shared / "models", absent)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  return files;
}

class SharedModel : public testing::TestWithParam<std::filesystem::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedModel);

TEST_P(SharedModel, ReadsWithEveryNodeOnceAndIdsUnique) {
  Graph graph = read_onnx(GetParam());
  bind_dims(graph, {});
  EXPECT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.order().size(), static_cast<std::size_t>(graph.node_count()));
  std::set<std::string> ids;
  for (const NodeId id : graph.order()) {
    EXPECT_TRUE(ids.insert(graph.node(id).id).second) << graph.node(id).id;
    EXPECT_EQ(graph.node(id).origins.size(), 1U);
  }
}

TEST_P(SharedModel, CutFilesAreReadOrRefused) {
  const auto mapped = MappedFile::open(GetParam());
  const auto* data = reinterpret_cast<const char*>(mapped->bytes().data());
  const std::size_t size = mapped->bytes().size();
  for (int i = 1; i <= 8; ++i) {
    const std::string cut(data, size * static_cast<std::size_t>(i) / 9);
    try {
      (void)read_onnx(std::as_bytes(std::span(cut)), "/nonexistent");
    } catch (const Exception& exception) {
      EXPECT_NE(exception.error().code, ErrorCode::kInternal) << exception.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SharedModel, testing::ValuesIn(shared_models()),
                         [](const auto& info) {
                           std::string name = info.param.stem().string();
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace braze::test
