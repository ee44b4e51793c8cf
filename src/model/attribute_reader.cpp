#include "model/attribute_reader.hpp"

#include <onnx/onnx.pb.h>

#include <algorithm>

#include "model/decode_tensor.hpp"

namespace braze::model {
namespace {

using Type = onnx::AttributeProto;

const char* type_name(int type) {
  switch (type) {
    case Type::FLOAT:
      return "a float";
    case Type::INT:
      return "an integer";
    case Type::STRING:
      return "a string";
    case Type::TENSOR:
      return "a tensor";
    case Type::GRAPH:
      return "a graph";
    case Type::FLOATS:
      return "a list of floats";
    case Type::INTS:
      return "a list of integers";
    case Type::STRINGS:
      return "a list of strings";
    default:
      return "of another type";
  }
}

}  // namespace

AttributeReader::AttributeReader(onnx::NodeProto& node, const std::string& where,
                                 ExternalData& external)
    : node_(&node), where_(&where), external_(&external) {
  std::set<std::string_view> names;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!names.insert(attribute.name()).second) {
      fail(ErrorCode::kModelInvalid, "{}: attribute '{}' is there twice", where, attribute.name());
    }
  }
}

void AttributeReader::invalid(std::string_view name, std::string_view found,
                              std::string_view expected) const {
  fail(ErrorCode::kModelInvalid, "{}: attribute '{}' is {}, expected {}", *where_, name, found,
       expected);
}

int AttributeReader::count() const { return node_->attribute_size(); }

onnx::AttributeProto* AttributeReader::find(std::string_view name) const {
  auto& attributes = *node_->mutable_attribute();
  const auto found =
      std::find_if(attributes.begin(), attributes.end(),
                   [name](const auto& attribute) { return attribute.name() == name; });
  return found == attributes.end() ? nullptr : &*found;
}

onnx::AttributeProto* AttributeReader::get(std::string_view name, int type) {
  asked_.emplace(name);
  onnx::AttributeProto* attribute = find(name);
  if (attribute == nullptr) return nullptr;
  if (!attribute->ref_attr_name().empty()) {
    invalid(name, "a reference to a function's attribute", "a value");
  }
  if (attribute->type() != type) invalid(name, type_name(attribute->type()), type_name(type));
  return attribute;
}

onnx::AttributeProto& AttributeReader::need(std::string_view name, int type) {
  onnx::AttributeProto* attribute = get(name, type);
  if (attribute == nullptr) invalid(name, "absent", type_name(type));
  return *attribute;
}

std::int64_t AttributeReader::integer(std::string_view name) { return need(name, Type::INT).i(); }

std::int64_t AttributeReader::integer(std::string_view name, std::int64_t absent) {
  const onnx::AttributeProto* attribute = get(name, Type::INT);
  return attribute == nullptr ? absent : attribute->i();
}

bool AttributeReader::flag(std::string_view name, bool absent) {
  const std::int64_t value = integer(name, absent ? 1 : 0);
  if (value != 0 && value != 1) invalid(name, std::to_string(value), "0 or 1");
  return value == 1;
}

double AttributeReader::real(std::string_view name) { return need(name, Type::FLOAT).f(); }

double AttributeReader::real(std::string_view name, float absent) {
  const onnx::AttributeProto* attribute = get(name, Type::FLOAT);
  return attribute == nullptr ? absent : attribute->f();
}

std::string AttributeReader::text(std::string_view name, std::string_view absent) {
  const onnx::AttributeProto* attribute = get(name, Type::STRING);
  return attribute == nullptr ? std::string(absent) : attribute->s();
}

Ints AttributeReader::integers(std::string_view name) {
  const onnx::AttributeProto* attribute = get(name, Type::INTS);
  if (attribute == nullptr) return {};
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<double> AttributeReader::reals(std::string_view name) {
  const onnx::AttributeProto* attribute = get(name, Type::FLOATS);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::optional<Tensor> AttributeReader::tensor(std::string_view name) {
  onnx::AttributeProto* attribute = get(name, Type::TENSOR);
  if (attribute == nullptr) return std::nullopt;
  return decode_tensor(*attribute->mutable_t(), *external_,
                       fmt::format("{}, attribute '{}'", *where_, name));
}

void AttributeReader::only(std::string_view name, std::int64_t supported) {
  const std::int64_t value = integer(name, supported);
  if (value != supported) {
    fail(ErrorCode::kUnsupported, "{}: attribute '{}' is {}; only {} is supported", *where_, name,
         value, supported);
  }
}

void AttributeReader::finish() const {
  for (const onnx::AttributeProto& attribute : node_->attribute()) {
    if (!asked_.contains(attribute.name())) {
      fail(ErrorCode::kModelInvalid,
           "{}: attribute '{}' is not one that the operator has in this opset", *where_,
           attribute.name());
    }
  }
}

}  // namespace braze::model
