// What the shared library exports. Everything else in it is hidden.
#pragma once

/// Exports what a namespace body declares: namespace braze BRAZE_API { ... }
#define BRAZE_API __attribute__((visibility("default")))
