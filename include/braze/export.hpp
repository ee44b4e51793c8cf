// BRAZE_API marks what the shared library exports; everything else in it is hidden.
#pragma once

#define BRAZE_API __attribute__((visibility("default")))
