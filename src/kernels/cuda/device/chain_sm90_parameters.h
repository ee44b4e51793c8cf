// Parameters of chain_sm90.cuh: read by the host too.
#pragma once

#include "braze/conv_sm90_parameters.h"

namespace braze::device {

inline constexpr int kMostChainStages = 4, kMostChainTaps = 49;
/// Steps whose weights are in shared memory at a time; planes of the input likewise.
inline constexpr int kMostChainWeights = 28, kMostChainPlanes = 16;
/// Places of a team for 64 channels of the last result.
inline constexpr int kMostChainStaged = 4;
/// A step's weights: 64 outputs times 128 bytes of channels.
inline constexpr int kChainWeights = 8192;
/// Adjacent pixels of a thread's sums in a depthwise stage.
inline constexpr int kChainRun = 4;
/// Barriers, before all else, which begins at a multiple of 1024 bytes.
inline constexpr int kChainBarriers = 1024;

/// A stage's tile: pixels of its result are numbered through, `pitch` from row to row, in shared
/// memory too. Planes are 64 channels of all pixels.
struct ChainSm90StageParameters {
  EpilogueParameters e;
  OutputParameters stored;     // its result in memory, where it is stored on the way
  int planes, taps;            // of what it reads; of its filter
  int blocks, channels;        // of its result: 64 channels each; all
  int group_bytes;             // from 8 pixels to the next 8, of what it reads
  int pitch;                   // of its result
  int pitch_inverse;           // (n * pitch_inverse) >> 20 = n / pitch
  int rows, columns;           // of its result
  int height, width;           // of an image of its result
  int top, left;               // rows and columns of its tile before the last stage's
  int zeros;                   // beyond the image its result is read, as zeros
  int lead;                    // steps that a warpgroup is ahead of the next one of its team
  int from, from_plane;        // bytes: where it reads in the team's buffers (but the first stage)
  int to, to_plane;            // where it writes (but the last)
  int held, held_plane;        // where an operand from a stage lies in the team's buffers
  int held_pitch, held_pixel;  // from row to row; of the tile's first pixel
  int loaded_bytes;            // of an operand from memory: a plane as it comes
  // Of a depthwise stage, where group_bytes is from row to row of what it reads:
  int filters;                 // planes whose filters are a step
  int runs, runs_inverse;      // runs of pixels in a row; (n * runs_inverse) >> 20 = n / runs
  int tap_at[kMostChainTaps];  // units of 16 bytes from the first pixel of what it reads
};

struct ChainSm90Parameters {
  EncodedTensorMap input;   // [n, y, x, c] tiled: a phase of a plane
  EncodedTensorMap output;  // [n, y, x, c] tiled: the last stage's tile, 64 channels
  EncodedTensorMap operand[kMostChainStages];  // the same of a stage's operand from memory
  const unsigned char* weights;  // [stage][64 outputs, plane, tap] of kChainWeights, swizzled
  OutputParameters y;
  ChainSm90StageParameters stage[kMostChainStages];
  int tiles, tiles_x, tiles_y, teams;
  int stride, corner_y, corner_x;  // input position of the last result's first pixel
  int phases_y, phases_x;          // of the input; phase (i, j): positions i, j past the strides
  int phase_bytes, phase_loaded, plane_bytes, input_slots;  // slots: of a team
  int steps, weight_slots;
  int turns;  // of a team and a tile: products of 64 channels
  int team_bytes, staged, staged_bytes, staged_buffers;  // of a team's memory; the last result's
  int staged_beyond;                                     // the place, in pixels, of what is none
  int columns_inverse;  // (n * columns_inverse) >> 20 = n / the last stage's columns
  int overwrites;       // the last result's place is that of what it is made of
};

}  // namespace braze::device
