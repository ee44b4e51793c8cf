// Small ONNX models, written in C++.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx.pb.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "graph/elements.hpp"
#include "graph/graph.hpp"
#include "model/encode_tensor.hpp"
#include "model/read_onnx.hpp"

namespace braze::test {

using Dim = std::variant<int, std::string>;  // "": neither a number nor a name

/// One attribute: Attr("axis", 1), Attr("pads", {1, 1}), ...
struct Attr {
  onnx::AttributeProto proto;

  Attr(const char* name, int value) : Attr(name, onnx::AttributeProto::INT) { proto.set_i(value); }
  Attr(const char* name, double value) : Attr(name, onnx::AttributeProto::FLOAT) {
    proto.set_f(static_cast<float>(value));
  }
  Attr(const char* name, const char* value) : Attr(name, onnx::AttributeProto::STRING) {
    proto.set_s(value);
  }
  Attr(const char* name, std::initializer_list<int> values)
      : Attr(name, onnx::AttributeProto::INTS) {
    for (const int value : values) proto.add_ints(value);
  }
  Attr(const char* name, const std::vector<double>& values)
      : Attr(name, onnx::AttributeProto::FLOATS) {
    for (const double value : values) proto.add_floats(static_cast<float>(value));
  }
  Attr(const char* name, const Tensor& value) : Attr(name, onnx::AttributeProto::TENSOR) {
    model::encode_tensor(value, "", *proto.mutable_t());
  }

 private:
  Attr(const char* name, onnx::AttributeProto::AttributeType type) {
    proto.set_name(name);
    proto.set_type(type);
  }
};

struct OnnxModel {
  onnx::ModelProto proto;

  explicit OnnxModel(int opset = 17, int ir_version = 8) {
    proto.set_ir_version(ir_version);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("test");
  }

  onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  OnnxModel& input(const std::string& name, const std::vector<Dim>& dims,
                   int type = onnx::TensorProto::FLOAT) {
    onnx::ValueInfoProto& info = *graph().add_input();
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const Dim& dim : dims) {
      auto& added = *shape.add_dim();
      if (const int* extent = std::get_if<int>(&dim)) added.set_dim_value(*extent);
      const auto* symbol = std::get_if<std::string>(&dim);
      if (symbol != nullptr && !symbol->empty()) added.set_dim_param(*symbol);
    }
    return *this;
  }

  OnnxModel& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }

  OnnxModel& constant(const std::string& name, const Tensor& tensor) {
    model::encode_tensor(tensor, name, *graph().add_initializer());
    return *this;
  }
  OnnxModel& floats(const std::string& name, const Shape& shape,
                    const std::vector<double>& values) {
    return constant(name, make_tensor(DType::kFloat32, shape, values));
  }
  OnnxModel& ints(const std::string& name, const Ints& values) {
    return constant(name, make_tensor(DType::kInt64, {std::ssize(values)}, values));
  }

  OnnxModel& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs, const std::vector<Attr>& attributes = {},
                  const std::string& name = "", const std::string& domain = "") {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(name);
    node.set_domain(domain);
    for (const std::string& input : inputs) node.add_input(input);
    for (const std::string& output : outputs) node.add_output(output);
    for (const Attr& attribute : attributes) *node.add_attribute() = attribute.proto;
    return *this;
  }

  [[nodiscard]] std::string bytes() const { return proto.SerializeAsString(); }
  [[nodiscard]] Graph read(const std::filesystem::path& folder = "/nonexistent") const {
    const std::string text = bytes();
    return read_onnx(std::as_bytes(std::span(text)), folder);
  }
};

/// A model of one node: inputs x0, x1, ... (float, [1,4,6,6]), output y.
inline OnnxModel one_node(int opset, const std::string& op, int inputs,
                          const std::vector<Attr>& attributes = {}) {
  OnnxModel model(opset);
  std::vector<std::string> names;
  for (int i = 0; i < inputs; ++i) {
    names.push_back("x" + std::to_string(i));
    model.input(names.back(), {1, 4, 6, 6});
  }
  model.node(op, names, {"y"}, attributes).output("y");
  return model;
}

/// Runs `action`, which must throw an Exception with this code whose message has all of these
/// parts.
inline void expect_error(ErrorCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, code) << exception.what();
    for (const std::string& part : parts)
      EXPECT_THAT(std::string(exception.what()), testing::HasSubstr(part));
    return;
  }
  FAIL() << "no error, expected " << to_string(code) << ": "
         << fmt::format("{}", fmt::join(parts, " ... "));
}

inline void expect_read_error(ErrorCode code, const std::vector<std::string>& parts,
                              const OnnxModel& model) {
  expect_error(code, parts, [&model] { (void)model.read(); });
}

/// The attributes of the only node of the graph.
template <class Op>
const Op& only_op(const Graph& graph) {
  if (graph.node_count() != 1 || graph.node(0).as<Op>() == nullptr) {
    throw std::runtime_error("expected one node of the kind, found\n" + print(graph));
  }
  return *graph.node(0).as<Op>();
}

inline std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId value : values) {
    names.push_back(value == kNoValue ? "" : graph.value(value).name);
  }
  return names;
}

}  // namespace braze::test
