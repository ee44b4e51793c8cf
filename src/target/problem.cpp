#include "target/problem.hpp"

namespace braze {

std::int64_t Candidate::get(std::string_view name, std::int64_t otherwise) const {
  for (const Parameter& parameter : parameters) {
    if (parameter.name == name) return parameter.value;
  }
  return otherwise;
}

}  // namespace braze
