// The attributes of one ONNX node, by name and type.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "graph/op.hpp"

namespace onnx {
class AttributeProto;
class NodeProto;
}  // namespace onnx

namespace braze::model {

class ExternalData;

/// Whoever reads a node asks for each attribute that its operator defines; finish() then refuses
/// the ones that nobody asked for. All errors are kModelInvalid naming the node, the attribute,
/// what was found and what was expected, unless it says otherwise.
class AttributeReader {
 public:
  /// `where` is the node as messages name it; it, `node` and `external` must outlive the reader.
  AttributeReader(onnx::NodeProto& node, const std::string& where, ExternalData& external);

  [[nodiscard]] int count() const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  std::int64_t integer(std::string_view name);  ///< required
  std::int64_t integer(std::string_view name, std::int64_t absent);
  bool flag(std::string_view name, bool absent);  ///< 0 or 1
  double real(std::string_view name);             ///< required
  double real(std::string_view name, float absent);
  std::string text(std::string_view name, std::string_view absent);
  Ints integers(std::string_view name);  ///< empty if absent
  std::vector<double> reals(std::string_view name);
  std::optional<Tensor> tensor(std::string_view name);

  /// The value that a text stands for.
  template <class T>
  T choice(std::string_view name, std::string_view absent,
           std::initializer_list<std::pair<std::string_view, T>> choices) {
    const std::string found = text(name, absent);
    std::string expected;
    for (const auto& [spelling, value] : choices) {
      if (spelling == found) return value;
      expected += (expected.empty() ? "" : ", ") + std::string(spelling);
    }
    invalid(name, found, "one of " + expected);
  }

  /// kUnsupported if the attribute is there with another value than `supported`.
  void only(std::string_view name, std::int64_t supported);

  /// Has read all attributes that the operator defines.
  void finish() const;

 private:
  [[nodiscard]] onnx::AttributeProto* find(std::string_view name) const;
  /// The attribute, checked for its type; null if absent.
  onnx::AttributeProto* get(std::string_view name, int type);
  onnx::AttributeProto& need(std::string_view name, int type);
  [[noreturn]] void invalid(std::string_view name, std::string_view found,
                            std::string_view expected) const;

  onnx::NodeProto* node_;
  const std::string* where_;
  ExternalData* external_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace braze::model
