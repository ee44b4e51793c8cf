#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "graph/window.hpp"
#include "kernels/cuda/chain_sm90.hpp"

namespace braze::cuda::chain90 {
namespace {

constexpr int kRow = 128;  // bytes of a pixel in a plane
constexpr int kBudget = 227 * 1024;
constexpr int kMostPixels = 256;  // columns of a product
constexpr int kMostSlots = 12;    // for weights that do not stay

int to_int(std::int64_t n) { return static_cast<int>(n); }
int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

/// Of the last tap of the first stage along an axis, past the first: whole strides, and the rest.
struct Reach {
  int strides = 0, phases = 1;
};
Reach reach(const ChainStage& stage, std::size_t axis) {
  Reach reach;
  for (std::int64_t tap = 0; tap < stage.kernel[axis]; ++tap) {
    const std::int64_t at = tap * stage.dilation[axis];
    reach.strides = std::max(reach.strides, to_int(at / stage.stride[axis]));
    reach.phases = std::max(reach.phases, to_int(at % stage.stride[axis]) + 1);
  }
  return reach;
}

/// One past the last pixel of a plane that a stage's products read; of the last phase, of stage 0.
int read_end(const ChainStage& stage, const StageTile& tile, int warpgroups, int from_pitch) {
  const std::int64_t last_row = (stage.kernel[0] - 1) * stage.dilation[0] / stage.stride[0];
  const std::int64_t last_column = (stage.kernel[1] - 1) * stage.dilation[1] / stage.stride[1];
  if (stage.kind == StageKind::kDepthwise)
    return (tile.rows - 1 + to_int(last_row)) * from_pitch + to_int(last_column) +
           round_up(tile.columns, device::kChainRun);
  const int groups = warpgroups * tile.pixels / 8;
  return to_int(last_row) * from_pitch + to_int(last_column) +
         (groups - 1) * (tile.group_bytes / kRow) + 8;
}

/// Sizes of the stages' tiles and of their products. Whether these are possible.
bool set_stages(Geometry& g, const ChainProblem& problem, const Tile& tile) {
  const auto extents = problem.tiles.extents(tile.rows, tile.columns);
  const int most = tile.teams * tile.warpgroups == 3 ? 160 : kMostPixels;
  int pitch = g.phase_pitch;
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const ChainStage& stage = problem.stages[i];
    StageTile& s = g.stages.emplace_back();
    const auto& extent = extents[problem.tiles.members()[i].image];
    s.rows = to_int(extent[0]), s.columns = to_int(extent[1]);
    if (i == 0) {
      const Reach y = reach(stage, 0), x = reach(stage, 1);
      g.phases[0] = y.phases, g.phases[1] = x.phases;
      g.phase_rows = s.rows + y.strides;
      pitch = g.phase_pitch = s.columns + x.strides;
    }
    s.planes = to_int(ceil_div(stage.channels, 64));
    s.blocks = to_int(ceil_div(stage.outputs, 64));
    if (stage.kind == StageKind::kDepthwise) {
      s.group_bytes = pitch * kRow;
      pitch = s.pitch = s.columns;
      s.pixels = to_int(ceil_div(s.rows * s.pitch, tile.warpgroups));
      s.filters = device::kChainWeights / to_int(stage.taps() * kRow);
      g.steps += to_int(ceil_div(s.planes, s.filters));
      continue;
    }
    const bool grouped = s.columns <= 8 && pitch > 8;
    if (grouped) s.group_bytes = pitch * kRow;
    s.pitch = grouped ? 8 : pitch;
    const int pixels = grouped ? s.rows * 8 : (s.rows - 1) * s.pitch + s.columns;
    s.pixels = round_up(to_int(ceil_div(pixels, tile.warpgroups)), 16);
    if (s.pixels > most) return false;
    if (s.planes == 1) s.slices = to_int(ceil_div(stage.channels, 16));
    g.steps += s.blocks * s.planes * to_int(stage.taps());
    pitch = s.pitch;
  }
  for (std::size_t i = problem.stages.size() - 1; i-- > 0;) {
    g.stages[i].top = g.stages[i + 1].top + to_int(problem.stages[i + 1].pad[0]);
    g.stages[i].left = g.stages[i + 1].left + to_int(problem.stages[i + 1].pad[1]);
  }
  // A box of the TMA has at most 256 positions along an axis.
  const auto& stride = problem.stages[0].stride;
  return g.phase_pitch * stride[1] <= 256 && g.phase_rows * stride[0] <= 256 &&
         g.stages.back().rows <= 256 && g.stages.back().columns <= 256;
}

/// May the last result be written over what it is made of, when its products are done?
bool may_overwrite(const ChainProblem& problem, const Storage& storage) {
  if (!storage.staged || problem.last().outputs > 64 || storage.held[problem.stages.size() - 1] ||
      problem.last().kind == StageKind::kDepthwise)
    return false;
  // What is loaded to a result's place would come before the place is free.
  for (std::size_t i = 0; i + 1 < problem.stages.size(); ++i) {
    if (storage.loads(i)) return false;
  }
  return true;
}

/// Bytes of 64 channels of the last result on their way to memory.
int staged_bytes(const Geometry& g, const Tile& tile) {
  const StageTile& last = g.stages.back();
  const bool gaps =
      last.pitch != last.columns || tile.warpgroups * last.pixels > last.rows * last.pitch;
  return round_up((last.rows * last.columns + (gaps ? 8 : 0)) * kRow, 1024);
}

/// Places of the results between stages in a team's memory; results that nobody reads any more
/// give theirs.
void place_results(Geometry& g, const ChainProblem& problem, const Storage& storage,
                   const Tile& tile) {
  struct Placed {
    int begin, end;
    std::size_t last_reader;
  };
  std::vector<Placed> placed;
  for (std::size_t i = 0; i + 1 < g.stages.size(); ++i) {
    StageTile& s = g.stages[i];
    const int pixels =
        std::max({tile.warpgroups * s.pixels, storage.loads(i) ? s.rows * s.pitch : 0,
                  read_end(problem.stages[i + 1], g.stages[i + 1], tile.warpgroups, s.pitch)});
    s.to_plane = round_up(pixels * kRow, 1024);
    int bytes = s.to_plane * s.blocks;
    if (g.overwrites && i + 2 == g.stages.size()) {
      g.staged_beyond = bytes / kRow;
      bytes += 8 * kRow;
    }
    const auto is_free = [&](int begin) {
      return std::ranges::none_of(placed, [&](const Placed& other) {
        return other.last_reader >= i && begin < other.end && other.begin < begin + bytes;
      });
    };
    int begin = 0;
    for (const Placed& other : placed) {
      if (!is_free(begin)) begin = std::max(begin, other.end);
    }
    s.to = begin;
    placed.push_back({begin, begin + bytes, problem.readers(i).back()});
    g.team_bytes = std::max(g.team_bytes, begin + bytes);
  }
}

/// Shared memory: what must be, then what makes it faster.
void set_shared(Geometry& g, const Storage& storage, const Tile& tile) {
  const StageTile& last = g.stages.back();
  if (storage.staged) {
    g.staged = g.overwrites ? g.stages[g.stages.size() - 2].to : g.team_bytes;
    g.staged_buffers = 1;
    if (!g.overwrites) g.team_bytes += g.staged_bytes;
  }
  const StageTile& first = g.stages.front();
  const bool whole = first.filters == 0 && first.blocks > 1;  // each block reads all planes
  const int most_slots = std::min(device::kMostChainPlanes / tile.teams, 2 * first.planes);
  g.input_slots = whole ? first.planes : std::min(first.planes, 2);
  g.weight_slots = tile.resident ? g.steps : std::min(g.steps, 4);
  if (g.weight_slots > device::kMostChainWeights || g.input_slots > most_slots) return;
  const auto bytes = [&] {
    return device::kChainBarriers + tile.teams * g.input_slots * g.plane_bytes +
           g.weight_slots * device::kChainWeights + tile.teams * g.team_bytes;
  };
  if (bytes() > kBudget) return;
  if (last.blocks > 1 && g.staged_buffers == 1 &&
      bytes() + tile.teams * g.staged_bytes <= kBudget) {
    g.staged_buffers = 2;
    g.team_bytes += g.staged_bytes;
  }
  while (g.input_slots < most_slots && bytes() + tile.teams * g.plane_bytes <= kBudget)
    ++g.input_slots;
  // Places for operands of the last stage that are on their way.
  while (storage.loads(g.stages.size() - 1) &&
         g.staged_buffers < std::min(last.blocks, device::kMostChainStaged) &&
         bytes() + tile.teams * g.staged_bytes <= kBudget) {
    ++g.staged_buffers;
    g.team_bytes += g.staged_bytes;
  }
  while (!tile.resident && g.weight_slots < std::min(g.steps, kMostSlots) &&
         bytes() + device::kChainWeights <= kBudget)
    ++g.weight_slots;
  g.shared_bytes = bytes();
}

}  // namespace

Storage storage_of(const ChainProblem& problem, DType result) {
  Storage storage;
  storage.by_tma = result == problem.dtype && problem.last().outputs % 8 == 0;
  storage.staged =
      storage.by_tma || (result == problem.dtype && problem.last().kind != StageKind::kDepthwise);
  for (std::size_t i = 0; i < problem.stages.size(); ++i) {
    const bool has_place = i + 1 < problem.stages.size() || storage.by_tma;
    for (const ChainOperand& operand : problem.stages[i].operands) {
      // There is no other way to what is on chip only.
      const bool on_chip = operand.source.of == ChainSource::Of::kStage;
      if (on_chip || (has_place && storage.held[i] == nullptr)) storage.held[i] = &operand;
    }
  }
  return storage;
}

namespace {

Geometry geometry(const ChainProblem& problem, const Storage& storage, const Tile& tile,
                  bool overwrites) {
  Geometry g;
  if (!set_stages(g, problem, tile)) return g;
  g.overwrites = overwrites;
  g.staged_beyond = g.stages.back().rows * g.stages.back().columns;
  if (storage.staged) g.staged_bytes = staged_bytes(g, tile);
  const ChainStage& last = problem.last();
  g.tiles = problem.batch * ceil_div(last.out[0], tile.rows) * ceil_div(last.out[1], tile.columns);
  g.phase_bytes = round_up(g.phase_rows * g.phase_pitch * kRow, 1024);
  g.plane_bytes = g.phases[0] * g.phases[1] * g.phase_bytes;
  place_results(g, problem, storage, tile);
  set_shared(g, storage, tile);
  // What is read past the input's last plane is in shared memory, too.
  const int end = read_end(problem.stages[0], g.stages[0], tile.warpgroups, g.phase_pitch) * kRow;
  const int past = std::max(end - g.phase_bytes, 0);
  if (device::kChainBarriers + tile.teams * g.input_slots * g.plane_bytes + past > g.shared_bytes)
    g.shared_bytes = 0;
  return g;
}

}  // namespace

Geometry geometry(const ChainProblem& problem, const Storage& storage, const Tile& tile) {
  Geometry apart = geometry(problem, storage, tile, false);
  const bool is_ample = apart.possible() && (tile.resident || tile.teams * tile.warpgroups == 1 ||
                                             apart.weight_slots >= std::min(apart.steps, 8));
  if (is_ample || !may_overwrite(problem, storage)) return apart;
  const Geometry shared = geometry(problem, storage, tile, true);
  return shared.possible() ? shared : apart;
}

bool is_adjacent(const ChainStage& stage) {
  constexpr std::int64_t kMost = 5;
  return stage.stride[1] == 1 && stage.dilation[1] == 1 && stage.kernel[1] <= kMost;
}

std::int64_t block_count(const Geometry& geometry, const Tile& tile, int units) {
  const std::int64_t rounds = ceil_div(geometry.tiles, std::int64_t{units} * tile.teams);
  return ceil_div(geometry.tiles, rounds * tile.teams);
}

namespace {

/// Of two times of which each hides most of the other: about the longer one.
double longer(double a, double b) { return std::sqrt(std::hypot(a * a, b * b)); }

/// Instructions of one thread for a plane of a depthwise stage; reckoned, not measured. A tap takes
/// one for each of 8 channels and pixels, and loading 8 channels of pixel or filter 8 conversions,
/// the load, and for a pixel 4 of its address; the rest is the epilogue.
double depthwise_instructions(const ChainStage& stage, const StageTile& s, const Tile& tile) {
  constexpr double kLoad = 9, kAddress = 4, kPixel = 65, kRunOf = 30, kPlane = 150;
  constexpr double kRun = device::kChainRun;
  const auto rows = static_cast<double>(stage.kernel[0]);
  const auto columns = static_cast<double>(stage.kernel[1]);
  const bool adjacent = is_adjacent(stage);
  const double pixels = adjacent ? kRun - 1 + columns : kRun * columns;
  const double run =
      rows * (pixels * (kLoad + kAddress) + columns * (kLoad + 8 * kRun)) + kRun * kPixel + kRunOf;
  const std::int64_t runs = s.rows * ceil_div(s.columns, device::kChainRun);
  return kPlane + run * static_cast<double>(ceil_div(8 * runs, 128 * tile.warpgroups));
}

}  // namespace

// Fitted to times of 352 kernels of 22 chains on an H200 (cycles; a clock from the peak of
// products); shares of those who follow or take turns to 144 of 12 later. A tile takes a team, for
// 64 outputs of a stage,
//   its steps, each the longest of its products, of the latency of one that is waited for, and of
//   its weights on the way from the L2 cache, whose bandwidth the busy multiprocessors divide;
//   what cannot overlap with them before the first and behind the last one;
//   the epilogue, by pixel: more for an operand in shared memory, far more for others, which are
//   read from memory one by one (known of two chains). It is bound by how many instructions an SM
//   issues, so it takes longer where all are in it at the same time; not where others multiply
//   meanwhile: those who take turns, or follow one another, or have several blocks.
// Where the input's next tile has no place yet, it is waited for. A round is the longest of that
// and, of all teams together, products, instructions of epilogues, and bytes. DRAM is left out.
double time_us(const ChainProblem& problem, const Storage& storage, const Tile& tile,
               const Geometry& g, const Device& device) {
  constexpr double kStart = 1930, kProducts = 0.838, kStep = 160, kBlock = 447, kIssued = 266;
  constexpr double kPixel = 2.27, kHeld = 3.62, kInMemory = 45, kStoredEach = 10, kCopiedEach = 2;
  constexpr double kShareOne = 1.67, kShareMany = 0.817;
  constexpr double kCache = 0.824, kWeights = 1.505, kWait = 300;
  const double clock = device.flops_fp16 / (device.units * 4096.0);  // Hz
  const auto blocks = static_cast<double>(block_count(g, tile, device.units));
  const double rounds = std::ceil(static_cast<double>(g.tiles) / (blocks * tile.teams));
  const double part = device.cache_bandwidth / clock / blocks;  // bytes a cycle
  const double weights = device::kChainWeights / (kWeights * part);
  // Are all in their epilogues at the same time? Else others multiply meanwhile.
  const bool is_alone = tile.warpgroups == 1 && (tile.teams == 1 || !tile.resident);
  double team = 0, behind = 0;         // of a tile: all stages, and those but the first
  double products = 0, epilogues = 0;  // likewise, of tensor cores and of instructions
  double loaded = 0;                   // bytes of operands, and of results on the way
  double first = 0;                    // more than that while weights that stay are on their way
  for (std::size_t i = 0; i < g.stages.size(); ++i) {
    const StageTile& s = g.stages[i];
    const ChainStage& stage = problem.stages[i];
    if (stage.stored && i + 1 < g.stages.size()) {
      // To memory on the way: reckoned, a latency and instructions for 8 channels of a pixel.
      constexpr double kCopy = 500, kCopied = 80;
      const double pixels = static_cast<double>(s.rows) * s.columns;
      const double copied = kCopy + kCopied * 8 * s.blocks * pixels / 128;
      team += copied;
      if (i > 0) behind += copied;
      epilogues += copied;
      loaded += 2 * pixels * static_cast<double>(stage.outputs);
    }
    if (stage.kind == StageKind::kDepthwise) {
      // Of a team alone, an SM's scheduler has a warp for each warpgroup: one does not fill it.
      constexpr double kShareDepthwise = 1.5, kDepthwise = 1.3;
      const double issued = kDepthwise * s.planes * depthwise_instructions(stage, s, tile);
      const double all = issued * std::max<double>(kShareDepthwise, tile.warpgroups);
      team += all;
      if (i > 0) behind += all;
      epilogues += issued * tile.warpgroups;
      continue;
    }
    const double n = s.pixels, steps = s.planes * static_cast<double>(stage.taps());
    // Operands come from shared memory at 128 bytes a cycle.
    const double product = kProducts * tile.warpgroups * s.slices * std::max(n / 2, 16 + n / 4);
    const double step = longer(product, i == 0 || !tile.resident ? kStep : 0);
    const double with_weights = longer(step, weights);
    const bool holds = storage.held[i] != nullptr;
    double pixel = kPixel + (holds ? kHeld : 0);
    pixel += kInMemory * (static_cast<double>(stage.operands.size()) - (holds ? 1 : 0));
    if (i + 1 == g.stages.size() && !storage.by_tma)
      pixel += storage.staged ? kCopiedEach : kStoredEach;
    const double one = s.blocks > 1 ? kShareMany : is_alone ? kShareOne : 1;
    const double share = std::max(1.0, one * tile.warpgroups);
    const double all =
        s.blocks * (kBlock + steps * (tile.resident ? step : with_weights) + share * pixel * n);
    team += all;
    if (i > 0) behind += all;
    if (tile.resident) first += s.blocks * steps * (with_weights - step);
    products += s.blocks * steps * product;
    if (storage.loads(i)) loaded += 2.0 * s.rows * s.columns * static_cast<double>(stage.outputs);
    epilogues += s.blocks * (kIssued + pixel * n) * tile.warpgroups;
  }
  const int planes = g.stages[0].planes;
  const double pixels =
      static_cast<double>(planes) * g.phases[0] * g.phases[1] * g.phase_rows * g.phase_pitch;
  const double input =
      pixels * static_cast<double>(std::min<std::int64_t>(kRow, 2 * problem.channels));
  const double output = static_cast<double>(tile.rows) * tile.columns *
                        static_cast<double>(problem.last().outputs) * 2;
  // Of the next tile's input, that has no place; its places are free behind the first stage.
  const double lacks = std::clamp(2 - static_cast<double>(g.input_slots) / planes, 0.0, 1.0);
  const double load = kWait + input / (kCache * part);
  // With one place for a block's results, a team waits until those before have left it; of several
  // teams, others work meanwhile.
  const double last = g.stages.back().blocks;
  const double seen = tile.teams == 1 ? (last > 1 ? 1 : 0) : std::max(0.0, last - 2) / last;
  const double leaving =
      storage.by_tma && g.staged_buffers == 1 ? seen * (kWait + output / (kCache * part)) : 0;
  const double waited = lacks * std::max(0.0, load - behind) + leaving;
  const double others = tile.teams > 1 ? tile.teams : 0;
  const double bytes = tile.teams * (input + loaded + output) / (kCache * part);
  const double round =
      std::hypot(std::hypot(team + waited, bytes), others * std::hypot(products, epilogues));
  const double start = kStart + (input + 2.0 * device::kChainWeights) / (kCache * part);
  return (start + first + rounds * round) / clock * 1e6;
}

namespace {

/// Extents of tiles that cut `extent` into parts as equal as can be, and of a few pixels.
std::set<int> parts_of(std::int64_t extent, int most) {
  std::set<int> parts;
  for (std::int64_t part = 1; part <= std::min<std::int64_t>(extent, most); ++part) {
    if (ceil_div(extent, ceil_div(extent, part)) == part) parts.insert(to_int(part));
  }
  for (const int part : {4, 8, 16}) {
    if (part <= extent && part <= most) parts.insert(part);
  }
  return parts;
}

template <class Visit>
void visit_tiles(const ChainProblem& problem, const Storage& storage, Visit&& visit) {
  const ChainStage& last = problem.last();
  const std::set<int> rows = parts_of(last.out[0], 64), columns = parts_of(last.out[1], 240);
  for (const int r : rows) {
    for (const int c : columns) {
      // Very small tiles, but of very small images, are halo only.
      if (r * c < 8 && r * c < last.out[0] * last.out[1]) continue;
      if (r * c > 2 * kMostPixels) continue;
      for (const auto& [teams, warpgroups] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}}) {
        for (const bool resident : {true, false}) {
          const Tile tile{r, c, teams, warpgroups, resident};
          const Geometry g = geometry(problem, storage, tile);
          if (g.possible() && (teams == 1 || g.tiles > 1) && !visit(tile, g)) return;
        }
      }
    }
  }
}

}  // namespace

bool fits(const ChainProblem& problem, const Storage& storage) {
  bool found = false;
  visit_tiles(problem, storage, [&](const Tile&, const Geometry&) { return !(found = true); });
  return found;
}

std::vector<Tile> tiles_of(const ChainProblem& problem, const Storage& storage,
                           const Device& device, std::size_t most) {
  struct Timed {
    double us;
    std::size_t number;
    Tile tile;
  };
  std::vector<Timed> all;
  visit_tiles(problem, storage, [&](const Tile& tile, const Geometry& g) {
    all.push_back({time_us(problem, storage, tile, g, device), all.size(), tile});
    return true;
  });
  std::ranges::sort(all, {}, [](const Timed& one) { return std::pair(one.us, one.number); });
  all.resize(std::min(all.size(), most));
  std::vector<Tile> tiles;
  for (const Timed& one : all) tiles.push_back(one.tile);
  return tiles;
}

}  // namespace braze::cuda::chain90
