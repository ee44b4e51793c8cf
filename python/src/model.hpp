// The parts of the module _braze.
#pragma once

#include <nanobind/nanobind.h>

namespace braze::python {

/// Model, Options, compile, load.
void bind_model(nanobind::module_& m);
/// What a plan, a model's declaration, a verification and the devices say: plain records.
void bind_records(nanobind::module_& m);

}  // namespace braze::python
