// Strict reading of JSON: every number is in range, every member has its type, or kModelInvalid
// says which member is wrong.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.hpp"

namespace braze {

using Json = nlohmann::json;

/// The last enumerator of an enum that is stored as its number.
template <class E>
inline constexpr E kLast = E{};

[[noreturn]] inline void fail_member(std::string_view name, std::string_view expected,
                                     const Json& found) {
  std::string text = found.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  fail(ErrorCode::kModelInvalid, "'{}' is {}, expected {}", name, text, expected);
}

/// object[name]; kModelInvalid if `object` is none or has no such member.
inline const Json& member(const Json& object, const char* name) {
  if (!object.is_object()) fail_member(name, "a member of an object", object);
  const auto found = object.find(name);
  if (found == object.end())
    fail(ErrorCode::kModelInvalid, "there is no '{}' where one is expected", name);
  return *found;
}
inline const Json& array(const Json& object, const char* name) {
  const Json& json = member(object, name);
  if (!json.is_array()) fail_member(name, "an array", json);
  return json;
}

inline void read(const Json& json, std::string_view name, bool& to) {
  if (!json.is_boolean()) fail_member(name, "true or false", json);
  to = json.get<bool>();
}
template <class T>
  requires(std::signed_integral<T> && !std::same_as<T, bool>)
void read(const Json& json, std::string_view name, T& to) {
  const auto in_range = [&] {
    if (json.is_number_unsigned())
      return json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (!json.is_number_integer()) return false;
    const auto number = json.get<std::int64_t>();
    return number >= std::numeric_limits<T>::min() && number <= std::numeric_limits<T>::max();
  };
  if (!in_range()) fail_member(name, fmt::format("an integer of {} bits", 8 * sizeof(T)), json);
  to = static_cast<T>(json.get<std::int64_t>());
}
inline void read(const Json& json, std::string_view name, double& to) {
  if (!json.is_number()) fail_member(name, "a number", json);
  to = json.get<double>();
}
inline void read(const Json& json, std::string_view name, std::string& to) {
  if (!json.is_string()) fail_member(name, "a text", json);
  to = json.get<std::string>();
}
template <class E>
  requires std::is_enum_v<E>
void read(const Json& json, std::string_view name, E& to) {
  static_assert(static_cast<int>(kLast<E>) > 0, "every stored enum names its last enumerator");
  std::int64_t number = -1;
  read(json, name, number);
  if (number < 0 || number > static_cast<std::int64_t>(kLast<E>))
    fail_member(name, fmt::format("0 to {}", static_cast<int>(kLast<E>)), json);
  to = static_cast<E>(number);
}
template <class T>
void read(const Json& json, std::string_view name, std::vector<T>& to) {
  if (!json.is_array()) fail_member(name, "an array", json);
  to.resize(json.size());
  for (std::size_t i = 0; i < to.size(); ++i) read(json[i], name, to[i]);
}

/// The value of a member.
template <class T>
T get(const Json& object, const char* name) {
  T value{};
  read(member(object, name), name, value);
  return value;
}

}  // namespace braze
