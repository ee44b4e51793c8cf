// Plain records, read-only in Python.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "braze/braze.hpp"
#include "python/src/error.hpp"
#include "python/src/model.hpp"

namespace nb = nanobind;

namespace braze::python {

void bind_records(nb::module_& m) {
  using namespace nb::literals;  // NOLINT(google-build-using-namespace)

  nb::class_<TensorInfo>(m, "TensorInfo")
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro("dtype", [](const TensorInfo& info) { return to_string(info.dtype); })
      .def_ro("shape", &TensorInfo::shape);
  nb::class_<DeclaredTensor>(m, "DeclaredTensor")
      .def_ro("name", &DeclaredTensor::name)
      .def_prop_ro("dtype", [](const DeclaredTensor& info) { return to_string(info.dtype); })
      .def_ro("known_rank", &DeclaredTensor::known_rank)
      .def_ro("shape", &DeclaredTensor::shape)
      .def_ro("symbols", &DeclaredTensor::symbols);
  nb::class_<ModelInfo>(m, "ModelInfo")
      .def_ro("name", &ModelInfo::name)
      .def_ro("producer", &ModelInfo::producer)
      .def_ro("description", &ModelInfo::description)
      .def_ro("version", &ModelInfo::version)
      .def_ro("metadata", &ModelInfo::metadata)
      .def_ro("inputs", &ModelInfo::inputs)
      .def_ro("outputs", &ModelInfo::outputs);
  nb::class_<KernelSummary>(m, "KernelSummary")
      .def_ro("name", &KernelSummary::name)
      .def_ro("backend", &KernelSummary::backend)
      .def_ro("family", &KernelSummary::family)
      .def_ro("detail", &KernelSummary::detail)
      .def_ro("nodes", &KernelSummary::nodes)
      .def_ro("kind", &KernelSummary::kind)
      .def_ro("flops", &KernelSummary::flops)
      .def_ro("dram_bytes", &KernelSummary::dram_bytes)
      .def_ro("onchip_bytes", &KernelSummary::onchip_bytes)
      .def_ro("est_us", &KernelSummary::est_us)
      .def_ro("measured", &KernelSummary::measured)
      .def_ro("stream", &KernelSummary::stream)
      .def_ro("waits", &KernelSummary::waits);
  nb::class_<FoldedNode>(m, "FoldedNode")
      .def_ro("node", &FoldedNode::node)
      .def_ro("into", &FoldedNode::into);
  nb::class_<NotFused>(m, "NotFused")
      .def_ro("nodes", &NotFused::nodes)
      .def_ro("rule", &NotFused::rule)
      .def_ro("reason", &NotFused::reason);
  nb::class_<PlanSummary>(m, "PlanSummary")
      .def_ro("device", &PlanSummary::device)
      .def_ro("nhwc_io", &PlanSummary::nhwc_io)
      .def_ro("kernels", &PlanSummary::kernels)
      .def_ro("folded", &PlanSummary::folded)
      .def_ro("not_fused", &PlanSummary::not_fused)
      .def_ro("launches", &PlanSummary::launches)
      .def_ro("peak_bytes", &PlanSummary::peak_bytes)
      .def_ro("largest_live_bytes", &PlanSummary::largest_live_bytes)
      .def_ro("constant_bytes", &PlanSummary::constant_bytes)
      .def_ro("warnings", &PlanSummary::warnings);
  nb::class_<Deviation>(m, "Deviation")
      .def_ro("what", &Deviation::what)
      .def_ro("max_error", &Deviation::max_error)
      .def_ro("allowed", &Deviation::allowed)
      .def_ro("ok", &Deviation::ok);
  nb::class_<VerifyReport>(m, "VerifyReport")
      .def_ro("reference", &VerifyReport::reference)
      .def_ro("outputs", &VerifyReport::outputs)
      .def_ro("kernels", &VerifyReport::kernels)
      .def_prop_ro("ok", &VerifyReport::ok);
  nb::class_<DeviceReport>(m, "DeviceReport")
      .def_ro("name", &DeviceReport::name)
      .def_ro("usable", &DeviceReport::usable)
      .def_ro("detail", &DeviceReport::detail);

  m.def("devices", &devices);
  m.def("version", &version);
  m.def("add_package_folder", &add_package_folder, "folder"_a);
  m.def(
      "inspect_file", [](const std::filesystem::path& file) { return unwrap(inspect(file)); },
      "file"_a);
  m.def(
      "inspect_bytes",
      [](const nb::bytes& data) {
        return unwrap(inspect(std::span(static_cast<const std::byte*>(data.data()), data.size())));
      },
      "data"_a);
}

}  // namespace braze::python
