// What the shared library exports. Everything else in it is hidden.
#pragma once

/// Marks the functions and classes of the public headers.
#define BRAZE_API __attribute__((visibility("default")))
