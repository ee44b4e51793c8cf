// Compiling emitted sources with NVRTC, which needs no GPU and no toolkit.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/cuda/api.hpp"
#include "exec/cuda/gpu.hpp"
#include "exec/cuda/library.hpp"

namespace braze::cuda {

/// NVRTC, loaded, and what it compiles for.
struct Nvrtc : api::NvrtcTable {
  std::shared_ptr<const OpenLibrary> library;
  std::vector<int> archs;  // sms, ascending
};

/// Opens the first NVRTC of the search order that compiles for `sm` (0: any) and whose cubins a
/// driver for CUDA `driver` loads (major 0: there is no driver to ask). One newer than every sm of
/// an NVRTC, and than sm_90, is compiled for as PTX. kDevice saying which NVRTC is needed.
std::shared_ptr<const Nvrtc> open_nvrtc(const SearchPath& search, int sm = 0, Version driver = {});

class NvrtcCompiler final : public Compiler {
 public:
  /// For GPUs of `sm` (90 means sm_90a); `headers` are what sources may include. `threads`
  /// programs are compiled at once; 0: as many as the process may use.
  NvrtcCompiler(std::shared_ptr<const Nvrtc> nvrtc, int sm,
                const std::vector<DeviceHeader>& headers, int threads = 0);

  /// kInternal with NVRTC's log if a source does not compile; the first such in their order.
  std::vector<std::string> compile(std::span<const std::string> sources) override;

  /// Everything but the source that an image depends on: version, options, headers. For cache keys.
  [[nodiscard]] const std::string& identity() const { return identity_; }

 private:
  [[nodiscard]] std::string compile_one(const std::string& source) const;

  std::shared_ptr<const Nvrtc> nvrtc_;
  std::vector<const char*> header_names_, header_texts_;
  std::string architecture_;  // "sm_90a", or "compute_90" for PTX
  bool ptx_ = false;
  int threads_ = 1;
  std::string identity_;
};

/// "conv_3x3.cu" for a source whose entry is conv_3x3: its name in NVRTC's messages.
std::string source_name(const std::string& source);

}  // namespace braze::cuda
