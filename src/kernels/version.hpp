// Which kernels this library has.
#pragma once

#include "target/device.hpp"

namespace braze {

/// Another text for other kernels: a hash of the sources of those that run on this kind of device.
const char* kernels_version(DeviceKind kind);

}  // namespace braze
