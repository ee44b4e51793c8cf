// An NVRTC of version FAKE_MAJOR.3 for FAKE_ARCHS. What it compiles is the text of its options,
// header names and source; a source with "#error" in it does not compile.
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "exec/cuda/api.hpp"

using braze::cuda::api::NvrtcProgram;

namespace {

const std::vector<int> kArchs = {FAKE_ARCHS};
std::atomic<int> compiled{0};
struct Program {
  std::string name, source, headers, image, log;
};
Program* at(NvrtcProgram program) { return reinterpret_cast<Program*>(program); }

}  // namespace

extern "C" {

/// Programs compiled so far.
int fake_nvrtc_compiled() { return compiled; }

int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_MAJOR;
  *minor = 3;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(kArchs.size());
  return 0;
}
int nvrtcGetSupportedArchs(int* archs) {
  for (std::size_t i = 0; i < kArchs.size(); ++i) archs[i] = kArchs[i];
  return 0;
}
int nvrtcCreateProgram(NvrtcProgram* program, const char* source, const char* name, int headers,
                       const char* const*, const char* const* names) {
  auto* made = new Program{name, source, "", "", ""};
  for (int i = 0; i < headers; ++i) made->headers += std::string(names[i]) + "\n";
  *program = reinterpret_cast<NvrtcProgram>(made);
  return 0;
}
int nvrtcDestroyProgram(NvrtcProgram* program) {
  delete at(*program);
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(NvrtcProgram program, int count, const char* const* options) {
  ++compiled;
  Program& self = *at(program);
  if (self.source.find("#error") != std::string::npos) {
    self.log = self.name + "(1): error: #error directive\n";
    return 6;
  }
  for (int i = 0; i < count; ++i) self.image += std::string(options[i]) + "\n";
  self.image += self.headers + self.source;
  return 0;
}
int nvrtcGetProgramLogSize(NvrtcProgram program, std::size_t* bytes) {
  *bytes = at(program)->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(NvrtcProgram program, char* log) {
  std::strcpy(log, at(program)->log.c_str());
  return 0;
}
int nvrtcGetCUBINSize(NvrtcProgram program, std::size_t* bytes) {
  *bytes = ("cubin\n" + at(program)->image).size();
  return 0;
}
int nvrtcGetCUBIN(NvrtcProgram program, char* image) {
  const std::string text = "cubin\n" + at(program)->image;
  std::memcpy(image, text.data(), text.size());
  return 0;
}
int nvrtcGetPTXSize(NvrtcProgram program, std::size_t* bytes) {
  *bytes = ("ptx\n" + at(program)->image).size();
  return 0;
}
int nvrtcGetPTX(NvrtcProgram program, char* image) {
  const std::string text = "ptx\n" + at(program)->image;
  std::memcpy(image, text.data(), text.size());
  return 0;
}
}
